@group(0) @binding(0) var<storage, read> x_0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y_1: array<f32>;
var<workgroup> shared_2: array<f32, 16>;

@compute @workgroup_size(16, 1, 1)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
  let v0 = i32(invocation);
  let v1 = i32(workgroup.x);
  let v2 = v1 * 64i;
  let v3 = v0 * 4i;
  let v4 = v2 + v3;
  let v5 = u32(v4) >> 2u;
  let v6 = x_0[v5];
  let v7 = v6.x + v6.y;
  let v8 = v7 + v6.z;
  let v9 = v8 + v6.w;
  shared_2[v0] = v9;
  workgroupBarrier();
  let v10 = v0 < 8i;
  if (v10) {
    let v11 = shared_2[v0];
    let v12 = v0 + 8i;
    let v13 = shared_2[v12];
    let v14 = v11 + v13;
    shared_2[v0] = v14;
  }
  workgroupBarrier();
  let v15 = v0 < 4i;
  if (v15) {
    let v16 = shared_2[v0];
    let v17 = v0 + 4i;
    let v18 = shared_2[v17];
    let v19 = v16 + v18;
    shared_2[v0] = v19;
  }
  workgroupBarrier();
  let v20 = v0 < 2i;
  if (v20) {
    let v21 = shared_2[v0];
    let v22 = v0 + 2i;
    let v23 = shared_2[v22];
    let v24 = v21 + v23;
    shared_2[v0] = v24;
  }
  workgroupBarrier();
  let v25 = v0 < 1i;
  if (v25) {
    let v26 = shared_2[v0];
    let v27 = v0 + 1i;
    let v28 = shared_2[v27];
    let v29 = v26 + v28;
    shared_2[v0] = v29;
  }
  let v30 = v0 == 0i;
  if (v30) {
    let v31 = shared_2[0i];
    y_1[v1] = v31;
  }
}
