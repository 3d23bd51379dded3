"""What `to-python` finds again: recurrent layers, images resized, attention under a mask."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import pyrite
from pyrite.onnx.inspection import inspect_here
from pyrite.onnx.loading import load_with

HERE = Path(__file__).parent
HEAD = '<ir_version: 8, opset_import: ["" : 17]>'

#: Of each model its inputs, its nodes, the shapes of its weights, and what its file has.
CASES: dict[str, tuple[str, str, dict[str, tuple[int, ...]], list[str]]] = {
    "a GRU, batch first": (
        "float[n, t, 3] x",
        """a = Transpose <perm = [1, 0, 2]> (x)
        y, h = GRU <hidden_size = 4, linear_before_reset = 1> (a, w, r, b)
        s = Squeeze (y, one)  z = Transpose <perm = [1, 0, 2]> (s)""",
        {"w": (1, 12, 3), "r": (1, 12, 4), "b": (1, 24)},
        ["GRU(3, 4)", "self.gru1(x)[0]"],
    ),
    "an LSTM of two layers in both directions": (
        "float[t, n, 3] x",
        """s = Shape (x)  m = Slice (s, one, two)  c = Concat <axis = 0> (four, m, five)
        o = ConstantOfShape (c)  p = Slice (o, none, two)  q = Slice (o, two, four)
        y = LSTM <hidden_size = 5, direction = "bidirectional"> (x, w, r, b, , p, p)
        a = Transpose <perm = [0, 2, 1, 3]> (y)  d = Shape (a)  e = Slice (d, none, two)
        f = Concat <axis = 0> (e, minus)  g = Reshape (a, f)
        h = LSTM <hidden_size = 5, direction = "bidirectional"> (g, w2, r2, b2, , q, q)
        i = Transpose <perm = [0, 2, 1, 3]> (h)  z = Reshape (i, merged)""",
        {"w": (2, 20, 3), "r": (2, 20, 5), "b": (2, 40),
         "w2": (2, 20, 10), "r2": (2, 20, 5), "b2": (2, 40)},
        ['LSTM(3, 5, layers=2, direction="both", batch_first=False)'],
    ),
    "an RNN in reverse, without a bias, whose state is given and returned": (
        "float[t, n, 3] x, float[1, n, 4] h",
        """y, k = RNN <hidden_size = 4, direction = "reverse", activations = ["Relu"]>
            (x, w, r, , , h)
        s = Squeeze (y, one)  z = Add (s, k)""",
        {"w": (1, 4, 3), "r": (1, 4, 4)},
        ['direction="reverse"', "bias=False", "activation=Tensor.relu", "(x, h)"],
    ),
    "an LSTM whose states are returned": (
        "float[t, n, 3] x",
        """y, h, c = LSTM <hidden_size = 4> (x, w, r, b)
        s = Squeeze (y, one)  a = Add (s, h)  z = Add (a, c)""",
        {"w": (1, 16, 3), "r": (1, 16, 4), "b": (1, 32)},
        ["LSTM(3, 4, batch_first=False)", ".hidden", ".cell"],
    ),
    "a GRU that resets before its product": (
        "float[t, n, 3] x",
        "y = GRU <hidden_size = 4> (x, w, r, b)  z = Squeeze (y, one)",
        {"w": (1, 12, 3), "r": (1, 12, 4), "b": (1, 24)},
        ["GRU(3, 4, batch_first=False, reset_after=False)"],
    ),
    "another axis that is squeezed": (
        "float[1, n, 3] x",
        "y = GRU <hidden_size = 4> (x, w, r, b)  z = Squeeze (y, none)",
        {"w": (1, 12, 3), "r": (1, 12, 4), "b": (1, 24)},
        ['operator("GRU", 17)'],
    ),
    "attention whose scores a mask hides": (
        "float[n, 2, t, 4] x, bool[n, 1, 1, t] m",
        """k = Transpose <perm = [0, 1, 3, 2]> (x)  s = MatMul (x, k)  d = Div (s, half)
        a = Where (m, low, d)  p = Softmax <axis = -1> (a)  z = MatMul (p, x)""",
        {},
        ["x.scaled_dot_product_attention(x, x, m.logical_not())"],
    ),
    "attention whose scores a mask keeps": (
        "float[n, 2, t, 4] x, bool[n, 1, t, t] m",
        """k = Transpose <perm = [0, 1, 3, 2]> (x)  s = MatMul (x, k)
        a = Where (m, s, low)  p = Softmax <axis = -1> (a)  z = MatMul (p, x)""",
        {},
        ["x.scaled_dot_product_attention(x, x, m, scale=1.0)"],
    ),
    "scores that are made finite": (
        "float[n, 2, t, 4] x, bool[n, 1, 1, t] m",
        """k = Transpose <perm = [0, 1, 3, 2]> (x)  s = MatMul (x, k)
        a = Where (m, half, s)  p = Softmax <axis = -1> (a)  z = MatMul (p, x)""",
        {},
        [".softmax()"],
    ),
    "images resized by factors": (
        "float[n, 2, h, w] x",
        """a = Resize <mode = "linear"> (x, , halves)
        z = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric",
            nearest_mode = "floor"> (a, , twice)""",
        {},
        ['interpolate(scale_factor=1.5, mode="bilinear")', "interpolate(scale_factor=(2, 3))"],
    ),
    "images resized to sizes of others": (
        "float[n, 2, h, w] x",
        """p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)  s = Shape (x)  t = Shape (p)
        a = Slice (s, two, four)  b = Slice (t, none, two)  c = Concat <axis = 0> (b, a)
        q = Resize <mode = "cubic", coordinate_transformation_mode = "align_corners"> (p, , , c)
        z = Add (q, x)""",
        {},
        ['mode="bicubic", align_corners=True'],
    ),
}  # fmt: skip

NUMBERS = {"none": [0], "one": [1], "two": [2], "four": [4], "five": [5], "minus": [-1],
           "merged": [0, 0, -1]}  # fmt: skip
FACTORS: dict[str, Any] = {
    "halves": [1, 1, 1.5, 1.5], "twice": [1, 1, 2, 3], "low": -np.inf, "half": 2.0,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_found_again(name: str, tmp_path: Path) -> None:
    inputs, nodes, weights, wanted = CASES[name]
    content = model(inputs, nodes, weights)
    generated = imported(HERE / "generated.py")

    module, text = generated.written(content, tmp_path)

    for part in wanted:
        assert part in " ".join(text.split()), text
    judge = load_with(content, inspect_here, device="numpy")
    for sizes in ({"t": 4, "n": 2, "h": 6, "w": 4}, {"t": 2, "n": 3, "h": 8, "w": 12}):
        given = arrays(judge, sizes)
        made = module.load().to("numpy")(*given)
        np.testing.assert_allclose(made.numpy(), judge(*given).numpy(), rtol=1e-5, atol=1e-6)


def model(inputs: str, nodes: str, weights: dict[str, tuple[int, ...]]) -> bytes:
    """The bytes of a model with random weights."""
    lines = "\n".join(nodes.replace(")  ", ")\n").splitlines())
    shape = "A, B, C" if "Squeeze" in nodes or "LSTM" in nodes else "A, B, C, D"
    made = onnx.parser.parse_model(f"{HEAD} net ({inputs}) => (float[{shape}] z) {{\n{lines}\n}}")
    rng = np.random.default_rng(0)
    held: dict[str, Any] = {n: np.array(v, np.int64) for n, v in NUMBERS.items()}
    held |= {n: np.array(v, np.float32) for n, v in FACTORS.items()}
    held |= {n: rng.uniform(-1, 1, shape).astype(np.float32) for n, shape in weights.items()}
    read = {name for node in made.graph.node for name in node.input}
    made.graph.initializer.extend(
        onnx.numpy_helper.from_array(v, n) for n, v in held.items() if n in read
    )
    return bytes(made.SerializeToString())


def arrays(judge: Any, sizes: dict[str, int]) -> list[Any]:
    rng = np.random.default_rng(1)
    found = []
    for of in judge.inputs.values():
        shape = [sizes.get(s, s) for s in of.shape]
        every_other = np.broadcast_to(np.arange(shape[-1]) % 2 == 1, shape).copy()
        is_mask = of.element.name == "bool"
        array = every_other if is_mask else rng.standard_normal(shape).astype(np.float32)
        found.append(pyrite.tensor(array, device="numpy"))
    return found


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
