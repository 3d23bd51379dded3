"""What the host computes of a model: shapes, constants, and what is remembered of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import pyrite
from pyrite.errors import SyncError
from pyrite.onnx import OnnxModule
from pyrite.onnx.inspection import inspect_here
from pyrite.onnx.loading import load_with


def opened(text: str, device: str = "cpu", **weights: Any) -> OnnxModule:
    """The module of a model in ONNX's text, with initializers."""
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 21]>\n{text}')
    for name, value in weights.items():
        made.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return load_with(made.SerializeToString(), inspect_here, device=device)


SHAPES = """
net (float[N, T, 4] x) => (float[N, M] y) {
    shape = Shape (x)
    zero = Constant <value = int64[1] {0}> ()
    n = Gather (shape, zero)
    rest = Constant <value = int64[1] {-1}> ()
    to = Concat <axis = 0> (n, rest)
    y = Reshape (x, to)
}
"""


def test_shapes_are_computed_on_the_host_at_any_size() -> None:
    model = opened(SHAPES)
    for n, t in ((2, 3), (5, 1), (1, 0)):
        x = pyrite.zeros((n, t, 4), device="cpu")
        with pyrite.no_sync():
            assert model(x).shape == (n, t * 4)


def test_a_shape_that_is_data_is_read_and_that_is_counted() -> None:
    text = "net (float[N] x) => (int64[1, M] y) { y = NonZero (x) }"
    model = opened(text)
    x = pyrite.tensor(np.float32([0, 1, 0, 2]), device="cpu")

    assert model(x).numpy().tolist() == [[1, 3]]
    with pyrite.no_sync(), pytest.raises(SyncError, match="NonZero"):
        model(x)


def test_what_the_host_computed_is_kept_by_the_shapes_alone() -> None:
    text = """
    net (float[N, T] x) => (float[N, T] y) {
        shape = Shape (x)
        sizes = Cast <to = 1> (shape)
        size = ReduceProd <keepdims = 0> (sizes)
        part = Div (x, size)
        y = Mul (part, w)
    }
    """
    model = opened(text, w=np.float32([2, 3]))
    other = model.map(lambda p: p * 10)

    for _ in range(2):
        for n in (1, 4):
            x = np.arange(2 * n, dtype=np.float32).reshape(n, 2) / 10 + n
            np.testing.assert_allclose(model(x).numpy(), x / (2 * n) * [2, 3], rtol=1e-6)
            np.testing.assert_allclose(other(x).numpy(), x / (2 * n) * [20, 30], rtol=1e-6)
            _, gradients = pyrite.value_and_grad(lambda m, x=x: m(x).sum())(model)
            found = gradients[model.parameters()[0]].numpy()
            np.testing.assert_allclose(found, (x / (2 * n)).sum(0), rtol=1e-5)


def test_nothing_is_kept_where_data_decides() -> None:
    text = """
    net (float[N] x) => (int64[M] y) {
        where = NonZero (x)
        y = Shape (where)
    }
    """
    model = opened(text)

    assert model(np.float32([0, 1, 2])).numpy().tolist() == [1, 2]
    assert model(np.float32([0, 0, 2])).numpy().tolist() == [1, 1]


def test_the_constants_of_a_branch_are_not_kept_for_another_condition() -> None:
    model = opened("""net (bool c) => (float[2] y) {
        y = If (c) <
            then_branch = a () => (float[2] u) { u = Constant <value = float[2] {1.0, 2.0}> () },
            else_branch = b () => (float[2] u) { u = Constant <value = float[2] {5.0, 6.0}> () }>
    }""")

    for flag, first in ((True, 1), (False, 5), (True, 1)):
        condition = pyrite.tensor(np.array(flag), device="numpy")
        assert model(condition).numpy()[0] == first
