"""Padding is no element: a number that is not finite reaches only what it meets in elements.

Convolutions and their gradients are drawn from a seed: dtypes, one to three axes, strides,
dilations, groups, output padding, layouts; one or two elements of a factor are not finite.  NumPy's
reference, which multiplies no padding, says which results are NaN and which are infinite.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from pyrite.backend.device import device_names, device_problem
from pyrite.tensor.creation import tensor
from pyrite.types import Array

DEVICES = [n for n in ("cpu", "wgpu") if n in device_names() and device_problem(n) is None]
#: Draws on processors, and on a device that takes half a second to compile one's kernels.
DRAWS, FEWER = 300, 100

#: How far a result may be off, as a share of the largest.
BOUNDS = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
POISONS = (math.inf, -math.inf, math.nan)


LAYOUTS = ("dense", "dense", "offset", "turned", "reversed", "of a larger", "stretched")


def laid_out(array: Array, how: str, dtype: str, device: str) -> Any:
    """Return a tensor of the array whose elements lie in that way."""
    if how == "turned":
        return tensor(array.swapaxes(1, -1).copy(), dtype=dtype, device=device).transpose(1, -1)
    if how == "offset":
        return tensor(np.concatenate([array[:1], array]), dtype=dtype, device=device)[1:]
    if how == "reversed":
        return tensor(array[..., ::-1].copy(), dtype=dtype, device=device).flip(-1)
    if how == "of a larger":
        larger = tensor(np.pad(array, 1), dtype=dtype, device=device)
        return larger[tuple(slice(1, 1 + n) for n in array.shape)]
    if how == "stretched":
        return tensor(array[..., :1].copy(), dtype=dtype, device=device).expand(array.shape)
    return tensor(array, dtype=dtype, device=device)


class Draw:
    """A convolution, drawn from a seed."""

    def __init__(self, seed: int, device: str) -> None:
        draw = random.Random(seed)
        self.kind = draw.choice(("forward", "input gradient", "weight gradient"))
        rank = draw.choice((1, 2, 2, 3))
        most = {1: 40, 2: 19, 3: 7}[rank]
        self.groups = draw.choice((1, 1, 2, 3))
        channels, outputs = draw.randint(1, 5), draw.randint(1, 5)
        self.kernel_size = tuple(draw.randint(1, 4) for _ in range(rank))
        self.stride = tuple(draw.randint(1, 3) for _ in range(rank))
        self.dilation = tuple(draw.randint(1, 2) for _ in range(rank))
        self.padding = tuple((draw.randint(0, 3), draw.randint(0, 3)) for _ in range(rank))
        spans = [(k - 1) * d + 1 for k, d in zip(self.kernel_size, self.dilation, strict=True)]
        self.sizes = tuple(draw.randint(span, max(most, span)) for span in spans)
        axes = zip(self.sizes, self.padding, spans, self.stride, strict=True)
        self.counts = tuple((n + sum(p) - span) // s + 1 for n, p, span, s in axes)
        batch = draw.randint(1, 3)
        self.x = (batch, self.groups * channels, *self.sizes)
        self.weight = (self.groups * outputs, channels, *self.kernel_size)
        self.g = (batch, self.groups * outputs, *self.counts)
        floats = ("float32", "float32", "float16", "bfloat16", "float64")
        self.dtype = draw.choice(floats if device == "cpu" else floats[:-1])
        self.layouts = draw.choices(LAYOUTS, k=2)
        self.poisons = [
            (draw.random() < 0.8, draw.random(), draw.choice(POISONS))
            for _ in range(draw.choice((1, 1, 2)))
        ]
        self.random = np.random.default_rng(seed)

    def factors(self) -> list[Array]:
        """Return both, poisoned: in the right one mostly, which padding meets."""
        shapes = {
            "forward": (self.x, self.weight),
            "input gradient": (self.g, self.weight),
            "weight gradient": (self.x, self.g),
        }[self.kind]
        found = [self.random.uniform(0.5, 1.5, s) for s in shapes]
        for is_right, place, poison in self.poisons:
            factor = found[is_right]
            factor.flat[int(place * factor.size)] = poison
        return found

    def result(self, factors: list[Array], device: str) -> Array:
        x, y = (
            laid_out(f, how, self.dtype, device)
            for f, how in zip(factors, self.layouts, strict=True)
        )
        windows: dict[str, Any] = {
            "stride": self.stride, "padding": self.padding, "dilation": self.dilation,
            "groups": self.groups,
        }  # fmt: skip
        if self.kind == "forward":
            out = x.convolution(y, **windows)
        elif self.kind == "input gradient":
            out = x._convolution_input_gradient(y, sizes=self.sizes, **windows)
        else:
            out = x._convolution_weight_gradient(y, kernel_size=self.kernel_size, **windows)
        found: Array = out.astype("float64").numpy()
        return found

    def __repr__(self) -> str:
        return str({k: v for k, v in vars(self).items() if k != "random"})


@pytest.mark.sample(10, by="device")
@pytest.mark.parametrize(
    ("seed", "device"),
    [(seed, device) for device in DEVICES for seed in range(DRAWS if device == "cpu" else FEWER)],
)
def test_padding_is_not_multiplied_by_what_is_not_finite(seed: int, device: str) -> None:
    draw = Draw(seed, device)
    factors = draw.factors()
    got, want = draw.result(factors, device), draw.result(factors, "numpy")
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite], err_msg=repr(draw))
    largest = np.abs(want[finite]).max(initial=1.0)
    bound = BOUNDS[draw.dtype] * largest
    np.testing.assert_allclose(got[finite], want[finite], rtol=0, atol=bound, err_msg=repr(draw))
