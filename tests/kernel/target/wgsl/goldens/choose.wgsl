@group(0) @binding(0) var<storage, read> x_0: array<i32>;
@group(0) @binding(1) var<storage, read_write> y_1: array<u32>;
@group(0) @binding(2) var<storage, read_write> word_2: array<atomic<u32>>;

fn mulhi_u32(x: u32, y: u32) -> u32 {
  let low = (x & 0xffffu) * (y & 0xffffu);
  let one = (x >> 16u) * (y & 0xffffu) + (low >> 16u);
  let two = (x & 0xffffu) * (y >> 16u) + (one & 0xffffu);
  return (x >> 16u) * (y >> 16u) + (one >> 16u) + (two >> 16u);
}

@compute @workgroup_size(1, 1, 1)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>) {
  let v0 = i32(workgroup.x);
  let v1 = x_0[v0];
  let v2 = v1 != 0i;
  var v3: u32;
  if (v2) {
    let v4 = u32(v0);
    let v5 = mulhi_u32(v4, 2863311531u);
    v3 = v5;
  } else {
    let v6 = v0 - 10i;
    let v7 = abs(v6);
    let v8 = u32(v7);
    v3 = v8;
  }
  y_1[v0] = v3;
  let v9 = v0 > 100i;
  if (v9) { atomicMax(&word_2[0], 1u); }
}
