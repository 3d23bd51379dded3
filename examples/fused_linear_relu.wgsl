// out = max(x @ weight + bias, 0), one invocation for each element of out.
//
// Pyrite declares the rest after this text: x, weight, bias and out with their sizes and shapes,
// the element type `elem`, and which element an invocation is for.

@compute @workgroup_size(workgroup_size_x)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let n = element(id);
    if (n >= out_size) { return; }
    let row = n / out_shape[1];
    let column = n % out_shape[1];
    var total = bias[column];
    for (var k = 0u; k < x_shape[1]; k++) {
        total += x[row * x_shape[1] + k] * weight[k * out_shape[1] + column];
    }
    out[n] = max(total, elem(0));
}
