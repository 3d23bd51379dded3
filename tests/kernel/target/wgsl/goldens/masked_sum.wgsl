@group(0) @binding(0) var<storage, read> x_0: array<f32>;
@group(0) @binding(1) var<storage, read_write> y_1: array<f32>;
struct Arguments { n_0: i32 }
@group(0) @binding(2) var<uniform> arguments: Arguments;

fn bits_f32(bits: u32) -> f32 { return bitcast<f32>(bits); }

@compute @workgroup_size(8, 8, 1)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>) {
  let v0 = vec4<i32>(0i, 1i, 2i, 3i);
  let v1 = vec4<i32>(4i, 5i, 6i, 7i);
  let v2 = i32(workgroup.y);
  let v3 = i32(workgroups.x);
  let v4 = v2 * v3;
  let v5 = i32(workgroup.x);
  let v6 = v4 + v5;
  let v7 = vec4<f32>(0.0f);
  let v8 = vec4<f32>(0.0f);
  var v9: vec4<f32> = v7;
  var v10: vec4<f32> = v8;
  for (var v11: i32 = 0i; v11 < arguments.n_0; v11 += 8i) {
    let v12 = vec4<i32>(v11);
    let v13 = vec4<i32>(v11);
    let v14 = v0 + v12;
    let v15 = v1 + v13;
    let v16 = vec4<i32>(arguments.n_0);
    let v17 = vec4<i32>(arguments.n_0);
    let v18 = v14 < v16;
    let v19 = v15 < v17;
    let v20 = v6 * arguments.n_0;
    let v21 = v20 + v11;
    var v22: vec4<f32> = v7;
    var v23: vec4<f32> = v8;
    if (v18.x) { v22.x = x_0[v21]; }
    if (v18.y) { v22.y = x_0[v21 + 1i]; }
    if (v18.z) { v22.z = x_0[v21 + 2i]; }
    if (v18.w) { v22.w = x_0[v21 + 3i]; }
    if (v19.x) { v23.x = x_0[v21 + 4i]; }
    if (v19.y) { v23.y = x_0[v21 + 5i]; }
    if (v19.z) { v23.z = x_0[v21 + 6i]; }
    if (v19.w) { v23.w = x_0[v21 + 7i]; }
    let v24 = v9 + v22;
    let v25 = v10 + v23;
    v9 = v24;
    v10 = v25;
  }
  let v26 = v9.x + v9.y;
  let v27 = v26 + v9.z;
  let v28 = v27 + v10.w;
  let v29 = v28 + bits_f32(0x7f800000u);
  y_1[v6] = v29;
}
