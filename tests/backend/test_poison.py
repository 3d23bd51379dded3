"""An infinity or NaN in one element reaches the results that depend on that element, and no others.

What depends on what is found by changing the element, little and much, in float64 on NumPy.  Zeros
put between, around or in place of elements must not be multiplied by what a result cannot reach.
"""

from __future__ import annotations

import math
import random
from functools import cache
from typing import Any

import numpy as np
import pytest

from pyrite.backend.device import device_names, device_problem
from pyrite.errors import PyriteError
from pyrite.op import OPS, sample
from pyrite.tensor.creation import tensor
from pyrite.testing import Example, examples
from pyrite.types import Array, float32, float64

pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")

WORKING = [n for n in device_names() if device_problem(n) is None]
#: Convolutions so large that they run by the kernels that large ones run by.
LARGE = (
    ("conv2d", sample((2, 3, 17, 19), (5, 3, 3, 3), None, padding=1)),
    ("conv2d", sample((2, 3, 17, 19), (5, 3, 3, 3), None, stride=2, dilation=2)),
    ("conv_transpose1d", sample((2, 3, 40), (3, 4, 5), None, stride=3, dilation=2)),
    ("conv_transpose2d", sample((2, 3, 17, 19), (3, 4, 3, 3), None, stride=2, padding=1)),
    ("conv_transpose2d", sample((1, 4, 17, 19), (4, 2, 2, 4), None, stride=(3, 2), groups=2)),
    ("conv_transpose2d", sample((1, 2, 17, 19), (2, 3, 3, 3), None, padding=2)),
    ("conv_transpose3d", sample((1, 2, 5, 7, 9), (2, 3, 2, 2, 3), None, stride=2)),
)
EXAMPLES = {
    **{e.id: e for e in examples() if not e.op.is_elementwise and not e.op.sync},
    **{e.id: e for i, (op, s) in enumerate(LARGE) for e in [Example(OPS[op], 100 + i, s)]},
}

#: By how much elements are changed to see what depends on them.
CHANGES = (0.37, -0.9, 1e6, -1e6)
POISONS = (math.nan, math.inf, -math.inf)

#: Where 0 times an infinity, or less itself, is NaN by the definition of the op, on every device.
MULTIPLIES_ZEROS = {
    "contains_nan": "a NaN is what it asks for",
    "ctc_loss_backward": "a step that all paths take cancels, which NaN does not",
    "rnnt_loss_backward": "a step that all paths take cancels, which NaN does not",
    "affine_grid": "the middle of a grid is 0, which the map multiplies",
    "vector_norm": "the least of all elements is NaN if any is",
    "scaled_dot_product_attention": "a masked value has weight 0, and is multiplied by it",
    "scaled_dot_product_attention_backward": "a masked value has weight 0, and is multiplied by it",
    "cross_entropy": "a class of probability 0 is multiplied by its logarithm's slope",
    "cross_entropy_backward": "a class of probability 0 is multiplied by its logarithm's slope",
}

#: Where a library multiplies zeros that stand for padding, by a weight or gradient that does not
#: reach them (docs/design/0025).  They may spread it to the windows that meet padding by its tap,
#: and no further.  Our own kernels multiply none.
FORWARD = {"conv1d", "conv2d", "conv3d", "convolution", "convolution_weight_gradient"}
BACKWARD = {
    *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution_input_gradient"),
}
MULTIPLIES_PADDING = {
    "numpy": set(),
    "cpu": set(),
    "wgpu": set(),
    "torch:cpu": FORWARD | {"conv_transpose1d"},  # oneDNN does, by the size of the kernel.
    "candle": FORWARD,
}

#: Elements of an example that are poisoned.
ELEMENTS = 3


def results(example: Example, arrays: list[Any], device: str) -> list[Array]:
    given = [tensor(a, device=device) if isinstance(a, np.ndarray) else a for a in arrays]
    return [r.numpy().astype(np.float64) for r in example.call(given, device)]


def changed(arrays: list[Any], position: int, place: int, value: float) -> list[Any]:
    found = list(arrays)
    found[position] = found[position].copy()
    found[position].flat[place] = value
    return found


def places(example: Example) -> list[tuple[int, int]]:
    """Return positions of float inputs, and places in them."""
    every = [
        (position, place)
        for position, a in enumerate(example.arrays())
        if isinstance(a, np.ndarray) and a.dtype == np.float64
        for place in range(a.size)
    ]
    return random.Random(example.id).sample(every, min(ELEMENTS, len(every)))


@cache
def reached(name: str, position: int, place: int) -> list[Array] | None:
    """Return which results depend on an element; None where the op refuses its changes."""
    example = EXAMPLES[name]
    arrays = example.arrays(float64)
    try:
        want = results(example, arrays, "numpy")
        found = [np.zeros(w.shape, bool) for w in want]
        for change in CHANGES:
            at = arrays[position].flat[place] + change
            for mask, a, b in zip(
                found, results(example, changed(arrays, position, place, at), "numpy"), want,
                strict=True,
            ):  # fmt: skip
                mask |= ~((a == b) | (np.isnan(a) & np.isnan(b)))
    except PyriteError:
        return None
    return found


def is_tried(name: str) -> bool:
    return EXAMPLES[name].op.name not in MULTIPLIES_ZEROS


def with_padding(example: Example, position: int, mask: Array, device: str) -> Array:
    """Return what an element of a weight, or of g in its place, reaches if padding is multiplied.

    A tap of a transposed convolution meets elements that differ by multiples of the stride.
    """
    op = example.op.name
    if position != 1 or op not in MULTIPLIES_PADDING.get(device, FORWARD | BACKWARD):
        return mask
    rank, wide = mask.ndim - 2, mask.copy()
    if device not in MULTIPLIES_PADDING:
        # cuDNN multiplies zeros between the steps of g too, on an H100.
        return np.broadcast_to(mask.any(tuple(range(2, mask.ndim)), keepdims=True), mask.shape)
    stride = example.sample.attrs.get("stride", 1) if op in BACKWARD else 1
    steps = (stride,) * rank if isinstance(stride, int) else stride
    for batch, channel, *at in np.argwhere(mask):
        wide[batch, channel, *(slice(i % s, None, s) for i, s in zip(at, steps, strict=True))] = 1
    return wide


CASES = [(name, device) for device in WORKING for name in EXAMPLES if is_tried(name)]


@pytest.mark.sample(40, by="device")
@pytest.mark.parametrize(("name", "device"), CASES)
def test_poison_reaches_what_depends_on_it_and_nothing_else(name: str, device: str) -> None:
    example = EXAMPLES[name]
    arrays = example.arrays(float32)
    for position, place in places(example):
        masks = reached(name, position, place)
        if masks is None:
            continue
        want = results(example, arrays, device)
        for poison in POISONS:
            got = results(example, changed(arrays, position, place, poison), device)
            for a, b, mask in zip(got, want, masks, strict=True):
                may = with_padding(example, position, mask, device)
                spread = ~may & ~np.isclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True)
                assert not spread.any(), f"{poison} in {position}[{place}] spreads: {a}, not {b}"
