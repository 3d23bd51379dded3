"""Transposed convolutions and their gradients against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import PyriteError
from pyrite.tensor.creation import tensor

RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.uniform(-1, 1, shape)


TRANSPOSED: list[tuple[Any, Any, dict[str, Any]]] = [
    ((2, 3, 5), (3, 4, 3), {}),
    ((2, 3, 5), (3, 4, 3), {"stride": 3, "padding": 1, "output_padding": 2}),
    ((2, 4, 5, 4), (4, 3, 3, 2), {"stride": 2, "padding": (1, 0), "groups": 2}),
    ((2, 4, 3, 4), (4, 1, 2, 3), {"dilation": (2, 1), "groups": 4}),
    ((2, 4, 3, 4), (4, 2, 2, 2), {"stride": (2, 3), "output_padding": (1, 0)}),
    ((1, 2, 2, 3, 2), (2, 3, 2, 2, 3), {"stride": (1, 2, 1), "padding": (0, 1, 1)}),
]


@pytest.mark.parametrize(("x", "weight", "arguments"), TRANSPOSED)
def test_transposed_convolution_and_its_gradients_are_torchs(
    x: Any, weight: Any, arguments: Any
) -> None:
    torch = pytest.importorskip("torch")
    name = f"conv_transpose{len(x) - 2}d"
    arrays = floats(*x), floats(*weight), floats(weight[1] * arguments.get("groups", 1))
    leaves = [torch.tensor(a, requires_grad=True) for a in arrays]
    expected = getattr(torch.nn.functional, name)(*leaves, **arguments)
    seed = floats(*expected.shape)
    (expected * torch.tensor(seed)).sum().backward()

    def call(x: Any, w: Any, b: Any) -> Any:
        return getattr(x, name)(w, b, **arguments)

    inputs = [tensor(a) for a in arrays]
    np.testing.assert_allclose(call(*inputs).numpy(), expected.detach().numpy(), atol=1e-12)
    found = grad(lambda *t: (call(*t) * tensor(seed)).sum(), (0, 1, 2))(*inputs)
    for g, leaf in zip(found, leaves, strict=True):
        np.testing.assert_allclose(g.numpy(), leaf.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"output_padding": 1}, r"conv_transpose2d requires output_padding < stride"),
        ({"padding": "same"}, r"conv_transpose2d requires padding in elements, got 'same'"),
        ({"padding": 5}, r"requires padding that leaves an output, got sizes \(-5, -5\)"),
        ({"groups": 2}, r"conv_transpose2d requires x.shape\[1\] == weight.shape\[0\]"),
    ],
)
def test_a_transposed_convolution_that_does_not_fit_is_refused(
    arguments: Any, message: str
) -> None:
    with pytest.raises(PyriteError, match=message):
        tensor(floats(1, 1, 4, 4)).conv_transpose2d(tensor(floats(1, 1, 2, 2)), **arguments)
