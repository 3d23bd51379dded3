"""What `load` makes of a file: a module with roles, paths, types and errors of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import pyrite
from pyrite.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from pyrite.onnx import ModelImportError, OnnxModule, load
from pyrite.onnx.inspection import inspect_here
from pyrite.onnx.loading import load_with
from pyrite.tensor.parameter import Parameter, State


def made(text: str, opset: int = 21, **weights: Any) -> Any:
    """A model of ONNX's text, with initializers."""
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    model = onnx.parser.parse_model(f"{head}\n{text}")
    for name, value in weights.items():
        tensor = onnx.numpy_helper.from_array(np.asarray(value), name.replace("__", "."))
        model.graph.initializer.append(tensor)
    return model


def opened(text: str, opset: int = 21, weights: Any = None, **options: Any) -> OnnxModule:
    content = made(text, opset, **(weights or {})).SerializeToString()
    return load_with(content, inspect_here, **{"device": "numpy", **options})


def floats(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 10


NET = """
net (float[N, 3] x) => (float[N, 2] y) {
    h = Gemm (x, "layers.0.weight", "layers.0.bias")
    y = Mul (h, scale)
}
"""
WEIGHTS = {"layers__0__weight": floats(3, 2), "layers__0__bias": floats(2), "scale": np.float32(2)}


def test_a_file_becomes_a_module_that_runs(tmp_path: Path) -> None:
    onnx.save(made(NET, **WEIGHTS), tmp_path / "net.onnx")

    model = load(tmp_path / "net.onnx", device="numpy")

    expected = 2 * (floats(4, 3) @ floats(3, 2) + floats(2))
    np.testing.assert_allclose(model(floats(4, 3)).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(model(x=pyrite.tensor(floats(4, 3))).numpy(), expected, rtol=1e-6)


def test_names_of_the_file_are_paths_of_the_module() -> None:
    model = opened(NET, weights=WEIGHTS)

    assert [path for path, _ in model.named_parameters()] == ["layers.0.weight", "layers.0.bias"]
    assert "0: Weights(weight=[3, 2], bias=[2])" in repr(model)
    assert "x: float[N, 3]" in repr(model)


def test_scalars_are_constants_and_statistics_are_states() -> None:
    text = """
    net (float[N, 3, 2] x) => (float[N, 3, 2] y) {
        n = BatchNormalization (x, weight, bias, mean, var)
        y = Clip (n, low)
    }
    """
    names = ("weight", "bias", "mean", "var")
    weights = {name: np.full(3, 0.5, np.float32) for name in names}

    model = opened(text, weights={**weights, "low": np.float32(0)})

    assert [path for path, _ in model.named_parameters()] == ["weight", "bias"]
    assert [path for path, _ in model.named_states()] == ["mean", "var"]
    assert all(isinstance(s, State) for _, s in model.named_states())


def test_trainable_says_which_parameters_train() -> None:
    def trained(trainable: Any) -> list[str]:
        model = opened(NET, weights={**WEIGHTS, "scale": floats(2)}, trainable=trainable)
        return [path for path, p in model.named_parameters() if p.trainable]

    assert trained(None) == ["layers.0.weight", "layers.0.bias", "scale"]
    assert trained(False) == []
    assert trained(["layers.*.bias"]) == ["layers.0.bias"]


def test_it_trains_is_frozen_and_is_saved_as_any_module(tmp_path: Path) -> None:
    model = opened(NET, weights=WEIGHTS)

    def loss_of(model: Any, x: Any) -> Any:
        return (model(x) ** 2).sum()

    x = pyrite.tensor(floats(4, 3))
    first, gradients = pyrite.value_and_grad(loss_of)(model, x)
    stepped = pyrite.optim.SGD(learning_rate=1e-3).step(model, gradients)
    frozen = model.freeze("layers.0.bias")

    assert loss_of(stepped, x).item() < first.item()
    assert [p.trainable for _, p in frozen.named_parameters()] == [True, False]
    stepped.save(tmp_path / "weights.safetensors")
    again = model.load(tmp_path / "weights.safetensors")
    np.testing.assert_array_equal(again(x).numpy(), stepped(x).numpy())


def test_a_part_of_it_is_replaced_by_its_name() -> None:
    model = opened(NET, weights=WEIGHTS)
    group = model.tree_children()["layers"].tree_children()["0"]
    other = group.replace(bias=Parameter(pyrite.tensor(np.float32([5, 7]))))

    changed = model.replace(layers=model.tree_children()["layers"].replace(**{"0": other}))

    np.testing.assert_allclose(changed(np.zeros((1, 3), np.float32)).numpy(), [[10, 14]])


def test_a_batch_norm_in_training_mode_renews_its_statistics() -> None:
    text = """
    net (float[N, 2] x) => (float[N, 2] y) {
        y, m, v = BatchNormalization <training_mode = 1> (x, weight, bias, mean, var)
    }
    """
    ones, zeros = np.ones(2, np.float32), np.zeros(2, np.float32)
    weights = {"weight": ones, "bias": zeros, "mean": zeros, "var": ones}
    model = opened(text, weights=weights)
    x = np.float32([[1, 2], [3, 6]])

    _, gradients = pyrite.value_and_grad(lambda model: model(x).sum())(model)
    stepped = pyrite.optim.SGD(learning_rate=0.1).step(model, gradients)

    states = {path: s.numpy() for path, s in stepped.named_states()}
    np.testing.assert_allclose(states["mean"], [0.2, 0.4], rtol=1e-5)
    np.testing.assert_allclose(states["var"], [1.0, 1.3], rtol=1e-5)


def test_what_nothing_uses_is_left_out() -> None:
    text = """
    net (float[N, 3] x) => (float[N, 3] y) {
        unused = MatMul (x, w)
        y = Neg (x)
    }
    """
    model = opened(text, weights={"w": floats(3, 3)})

    assert [node.op for node in model.graph.nodes] == ["Neg"]
    assert model.named_parameters() == []


@pytest.mark.parametrize("with_bias", [True, False])
def test_batch_norms_are_folded_for_inference(with_bias: bool) -> None:
    text = """
    net (float[N, 2, 5] x) => (float[N, 3, 3] y, float[N, 3, 3] u, float[N, 3, 3] z) {
        shared = Conv (x, w)
        u = BatchNormalization (shared, b, s, v, m)
        a = Conv (x, w, c)
        y = BatchNormalization <epsilon = 0.01> (a, s, b, m, v)
        k = Conv (x, w)
        z1 = BatchNormalization (k, s, b, m, v)
        z = Add (z1, k)
    }
    """
    text = text if with_bias else text.replace("(x, w, c)", "(x, w)")
    rng = np.random.default_rng(0)
    weights = {name: rng.random(3, np.float32) + 0.5 for name in "csbmv"}
    weights["w"] = rng.standard_normal((3, 2, 3)).astype(np.float32)
    x = rng.standard_normal((2, 2, 5)).astype(np.float32)
    plain = opened(text, weights=weights)
    folded = opened(text, weights=weights, optimize="inference")

    # The third is kept: something else reads the convolution.
    assert [n.op for n in folded.graph.nodes] == ["Conv"] * 3 + ["BatchNormalization", "Add"]
    for one, other in zip(folded(x), plain(x), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


def test_another_way_to_optimize_is_refused() -> None:
    with pytest.raises(ArgumentError, match="optimize=None or 'inference', got 'speed'"):
        opened(NET, weights=WEIGHTS, optimize="speed")


def test_outputs_have_the_names_of_the_file() -> None:
    text = (
        'net (float[N] x) => (float[N] "up/2", float[N] down) { "up/2" = Abs (x)  down = Neg (x) }'
    )
    up, down = pair = opened(text)(np.float32([-1, 2]))

    assert pair.down is down
    assert pair.up_2 is up
    assert down.numpy().tolist() == [1, -2]


@pytest.mark.parametrize(
    ("inputs", "error", "said"),
    [
        (((np.zeros((4, 3)),), {}), DTypeError, "input 'x' requires float32, got float64"),
        (((floats(4, 2),), {}), ShapeError, r"requires float\[N, 3\], got float32\[4, 2\]"),
        (((floats(3),), {}), ShapeError, r"requires float\[N, 3\], got float32\[3\]"),
        (((), {}), ArgumentError, "requires inputs x, got no x"),
        (((floats(4, 3),), {"x": floats(4, 3)}), ArgumentError, "got 'x', twice"),
        (((floats(4, 3),), {"z": 1}), ArgumentError, "got 'z', which it has not"),
        (((1, 2), {}), ArgumentError, "requires 1 inputs, got 2"),
    ],
)
def test_wrong_inputs_are_named(inputs: Any, error: type[Exception], said: str) -> None:
    args, kwargs = inputs
    with pytest.raises(error, match=said):
        opened(NET, weights=WEIGHTS)(*args, **kwargs)


def test_sizes_of_one_name_agree() -> None:
    text = "net (float[N] a, float[N] b) => (float[N] c) { c = Add (a, b) }"
    with pytest.raises(ShapeError, match="input 'b'"):
        opened(text)(floats(3), floats(1))


def test_text_of_a_file_steers_no_terminal() -> None:
    model = made("net (float[N, 3] x) => (float[N, 3] y) { y = Relu (x) }")
    bad = "\x1b[31m\u202ex"
    model.graph.node[0].input[0] = model.graph.input[0].name = bad
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = bad
    shown = repr(load_with(model.SerializeToString(), inspect_here, device="numpy"))
    model.graph.node[0].op_type = bad
    with pytest.raises(ModelImportError) as unknown:
        load_with(model.SerializeToString(), inspect_here)
    model.graph.node[0].name, model.graph.node[0].op_type = bad, "Relu"
    model.graph.node[0].input.append("none")
    with pytest.raises(ModelImportError) as refused:
        load_with(model.SerializeToString(), inspect_here)

    for text in (shown, str(unknown.value), str(refused.value)):
        assert text.isprintable()
        assert r"\x1b[31m\u202ex" in text


def test_an_error_in_a_node_names_it() -> None:
    text = "net (float[N] a, float[M] b) => (float[K] c) { c = Add (a, b) }"
    with pytest.raises(ShapeError) as caught:
        opened(text)(floats(3), floats(2))
    assert "at node Add 'c' (opset 21)" in caught.value.__notes__


def test_an_unknown_mode_is_no_other() -> None:
    text = """net (float[3] x) => (float[5] y) {
        by = Constant <value = int64[2] {1, 1}> ()
        y = Pad <mode = "mirror"> (x, by)
    }"""

    with pytest.raises(ArgumentError, match=r"Pad requires a mode of .* got 'mirror'"):
        opened(text)(floats(3))


def test_all_that_is_not_supported_is_named_at_once() -> None:
    text = """
    net (float[N] x) => (float[N] y) {
        a = Cast <to = 17> (x)
        b = Cast <to = 1> (a)
        y = my.own.Thing (b)
    }
    """
    head = '<ir_version: 8, opset_import: ["" : 21, "my.own" : 1]>'
    content = onnx.parser.parse_model(head + text).SerializeToString()

    with pytest.raises(ModelImportError) as caught:
        load_with(content, inspect_here)

    assert any("my.own.Thing 'y' (opset 1): no such op" in p for p in caught.value.problems)
    assert any("Cast" in p and "float8e4m3fn" in p for p in caught.value.problems)


def test_int64_is_carried_in_32_bits_on_request_and_within_its_range() -> None:
    text = "net (int64[N] i) => (int64[N] y) { y = Add (i, one) }"
    model = opened(text, weights={"one": np.array([1])}, narrow_int64=True)

    assert model(np.array([3])).dtype is pyrite.int32
    with pytest.raises(DTypeError, match="narrow_int64 requires values that int32 holds"):
        model(np.array([1 << 40]))


def test_bits_that_narrowing_lost_are_not_read() -> None:
    text = "net (int64[2] x) => (double[2] y) { y = BitCast <to = 11> (x) }"
    x = np.int64([1, 2])

    np.testing.assert_array_equal(opened(text, 26)(x).numpy(), x.view(np.float64))
    with pytest.raises(DTypeError, match="BitCast requires bits as wide as float64's, got int32"):
        opened(text, 26, narrow_int64=True)(x)


def test_functions_of_a_model_are_expanded() -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 21, "local" : 1]>
    net (float[N] x) => (float[N] y) { y = local.twice <factor = 3.0> (x) }
    <opset_import: ["" : 21], domain: "local">
    twice <factor> (x) => (y) {
        f = Constant <value_float: float = @factor> ()
        y = Mul (x, f)
    }
    """
    model = load_with(onnx.parser.parse_model(text).SerializeToString(), inspect_here)

    assert model(np.float32([1, 2])).numpy().tolist() == [3, 6]


def test_a_body_sees_the_values_around_it() -> None:
    text = """
    net (float[N] x, bool flag) => (float[N] y) {
        y = If (flag) <
            then_branch = yes () => (float[N] a) { a = Add (x, bias) },
            else_branch = no () => (float[N] b) { b = Neg (x) }
        >
    }
    """
    model = opened(text, weights={"bias": np.float32([10, 20])})
    x = np.float32([1, 2])

    assert model(x, True).numpy().tolist() == [11, 22]
    assert model(x, np.array(False)).numpy().tolist() == [-1, -2]
    assert [path for path, _ in model.named_parameters()] == ["bias"]


ATTENTION = """
net (float[N, 2, T, 4] q, float[N, 2, T, 4] k, float[N, 2, T, 4] v) => (float[N, 2, T, 4] y) {
    y = Attention (q, k, v)
}
"""


def test_attention_that_hides_nothing_is_one_kernel() -> None:
    net = opened(ATTENTION, opset=23, device="cpu")
    x = pyrite.ones((2, 2, 5, 4), device="cpu")

    with pyrite.explain() as seen:
        net(x, x, x).numpy()

    assert str(seen).splitlines()[-1].startswith("1 launches")


EMBEDDING = "net (int64[N] i) => (float[N, 2] y) { y = Gather (w, i) }"


def test_an_index_outside_is_an_error_and_a_negative_one_is_none() -> None:
    weight = floats(3, 2)
    net = opened(EMBEDDING, weights={"w": weight}, device="cpu")

    np.testing.assert_array_equal(net(np.array([-1, 2, -3])).numpy(), weight[[-1, 2, -3]])
    for index in (3, -4):
        with pytest.raises(IndexRangeError, match=r"-3 <= index < 3"):
            net(np.array([0, index])).numpy()


def test_a_model_that_ran_runs_with_other_weights() -> None:
    net = opened(EMBEDDING, weights={"w": np.ones((3, 2), np.float32)}, device="cpu")
    index = np.array([0, 0])
    first = net(index).numpy()

    changed = net.replace(w=Parameter(2 * net.tree_children()["w"]))

    np.testing.assert_array_equal(changed(index).numpy(), 2 * first)
    np.testing.assert_array_equal(net(index).numpy(), first)
    gradients = pyrite.grad(lambda m: (m(index) * 3).sum())(changed)
    assert dict(gradients.named(changed))["w"].numpy().tolist() == [[6, 6], [0, 0], [0, 0]]
