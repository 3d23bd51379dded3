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
  let v5 = v1 * 16i;
  let v6 = v5 + v0;
  let v7 = x_0[v6];
  let v8 = v7.x + v7.y;
  let v9 = v8 + v7.z;
  let v10 = v9 + v7.w;
  shared_2[v0] = v10;
  workgroupBarrier();
  let v11 = v0 < 8i;
  if (v11) {
    let v12 = shared_2[v0];
    let v13 = v0 + 8i;
    let v14 = shared_2[v13];
    let v15 = v12 + v14;
    shared_2[v0] = v15;
  }
  workgroupBarrier();
  let v16 = v0 < 4i;
  if (v16) {
    let v17 = shared_2[v0];
    let v18 = v0 + 4i;
    let v19 = shared_2[v18];
    let v20 = v17 + v19;
    shared_2[v0] = v20;
  }
  workgroupBarrier();
  let v21 = v0 < 2i;
  if (v21) {
    let v22 = shared_2[v0];
    let v23 = v0 + 2i;
    let v24 = shared_2[v23];
    let v25 = v22 + v24;
    shared_2[v0] = v25;
  }
  workgroupBarrier();
  let v26 = v0 < 1i;
  if (v26) {
    let v27 = shared_2[v0];
    let v28 = v0 + 1i;
    let v29 = shared_2[v28];
    let v30 = v27 + v29;
    shared_2[v0] = v30;
  }
  let v31 = v0 == 0i;
  if (v31) {
    let v32 = shared_2[0i];
    y_1[v1] = v32;
  }
}
