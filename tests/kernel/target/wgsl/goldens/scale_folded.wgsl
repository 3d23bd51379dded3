@group(0) @binding(0) var<storage, read_write> x_0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y_1: array<vec4<f32>>;
struct Arguments { n_0: i32, factor_1: f32, grid: u32 }
var<immediate> arguments: Arguments;

@compute @workgroup_size(64, 1, 1)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
  let folded = workgroup.y * workgroups.x + workgroup.x;
  if (folded >= arguments.grid) { return; }
  let v0 = i32(folded);
  let v1 = v0 * 64i;
  let v2 = i32(local.x);
  let v3 = v1 + v2;
  let v4 = v3 < arguments.n_0;
  if (v4) {
    let v5 = v3 * 4i;
    let v6 = x_0[v3];
    let v7 = vec4<f32>(arguments.factor_1);
    let v8 = v6 * v7;
    y_1[v3] = v8;
  }
}
