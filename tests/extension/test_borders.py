"""Elements outside by the name of a border, and the functions that shaders have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device
from pyrite.errors import KernelError
from pyrite.extension import kernel
from pyrite.types import TensorType

#: What NumPy's pad calls them.
MODES = {"wrap": "wrap", "clamp": "edge", "mirror": "symmetric"}


def padded(k: Any, x: Any, out: Any, *, by: int, border: Any) -> None:
    i, j = k.at
    out[i, j] = x.get(i - by, j - by, border=border)


@custom_op(
    infer=lambda x, *, by, border: TensorType(tuple(n + 2 * by for n in x.shape), x.dtype),
    kernels=[kernel(padded)],
)
def pad(x: Tensor, /, *, by: int, border: Any) -> Tensor:
    """X with so many elements more on each side."""
    ...


@pytest.mark.sample(6)
@pytest.mark.parametrize("border", [*MODES, 0.0, 2.5])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (5, 4), (7, 1)])
def test_what_is_outside_is_that_of_numpy(
    device: Device, border: Any, shape: tuple[int, int]
) -> None:
    array = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape) + 1
    for by in (0, 1, 3, 9):
        for where in (device, pyrite.device("numpy")):
            got = pad(pyrite.tensor(array.T.copy(), device=where).mT, by=by, border=border)
            if isinstance(border, str):
                wanted = np.pad(array, by, mode=MODES[border])  # type: ignore[call-overload]
            else:
                wanted = np.pad(array, by, constant_values=border)
            assert np.array_equal(got.numpy(), wanted)


def test_a_border_costs_no_test_of_the_index(interpreter: Device) -> None:
    seen = []

    @kernel
    def body(k: Any, x: Any, out: Any) -> None:
        (i,) = k.at
        out[i] = x.get(i + 5, border="wrap") + x.get(i - 1, border="clamp")
        out[i] = out.name and x.get(int(x[i]), border="mirror")
        seen.append([*k.tested])

    @custom_op(infer=lambda x: x, kernels=[body])
    def op(x: Tensor, /) -> Tensor:
        """An op of that kernel."""
        ...

    x = pyrite.tensor([-9.0, 100.0, 2.0], device=interpreter)
    assert op(x).tolist() == [x.tolist()[i] for i in (2, 1, 2)]
    assert seen == [[]]


def test_another_name_is_an_error(interpreter: Device) -> None:
    for where in (interpreter, pyrite.device("numpy")):
        with pytest.raises(KernelError, match=r"border to be a number or one of wrap, .* 'repeat'"):
            pad(pyrite.ones((2, 2), device=where), by=1, border="repeat")


def shaded(k: Any, x: Any, y: Any, out: Any) -> None:
    i, j = k.at
    a, b = x[i], y[i]
    values = (
        k.clamp(a, -1.0, b), k.mix(a, b, 0.25), k.step(a, b), k.fmod(a, b), a % b, round(a),
        k.mix(0.0, a, b), k.step(0.5, a),
    )  # fmt: skip
    for n in k.static(range(len(values))):
        if j == n:
            out[i, j] = values[n]


@custom_op(infer=lambda x, y: TensorType((x.shape[0], 8), x.dtype), kernels=[kernel(shaded)])
def shade(x: Tensor, y: Tensor, /) -> Tensor:
    """All of them."""
    ...


def test_functions_of_shaders(device: Device) -> None:
    x = np.array([-7.5, -0.5, 0.5, 1.5, 2.5, 9.0], np.float32)
    y = np.array([2.0, 2.0, -2.0, 0.75, 4.0, 3.0], np.float32)
    wanted = np.stack([
        np.minimum(np.maximum(x, -1), y), x * 0.75 + y * 0.25, y >= x, np.fmod(x, y), x % y,
        np.rint(x), x * y, x >= 0.5,
    ], 1).astype(np.float32)  # fmt: skip

    for where in (device, pyrite.device("numpy")):
        got = shade(pyrite.tensor(x, device=where), pyrite.tensor(y, device=where))
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("shape", [(5, 48), (3, 64), (2, 3, 32), (7, 20), (1, 16), (33, 16)])
def test_neighbours_in_rows_of_whole_vectors_and_others(shape: tuple[int, ...]) -> None:
    @kernel
    def sum_kernel(k: Any, x: Any, row: Any, out: Any) -> None:
        *before, j = k.at
        total = 0.0
        for n in range(x.shape[-1]):
            total += x[(*before, n)] * row[n]
        left, right = x.get(*before, j - 1, border="wrap"), x.get(*before, j + 1, border=0.5)
        out[k.at] = total + left * 2.0 + right * 3.0 + x[k.at]

    @custom_op(infer=lambda x, row: x, kernels=[sum_kernel])
    def summed(x: pyrite.Tensor, row: pyrite.Tensor, /) -> pyrite.Tensor:
        """Each row's sum by weights, and what stands beside each element."""
        ...

    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 7 - 3
    row = np.arange(shape[-1], dtype=np.float32) % 5
    for view in (lambda x: x, lambda x: x[..., ::-1], lambda x: x[::-1]):
        a = view(x)
        right = np.concatenate([a[..., 1:], np.full_like(a[..., :1], 0.5)], -1)
        want = (a * row).sum(-1, keepdims=True) + 2 * np.roll(a, 1, -1) + 3 * right + a
        got = summed(view(pyrite.tensor(x, device="cpu")), pyrite.tensor(row, device="cpu"))
        assert (got.numpy() == want).all()
