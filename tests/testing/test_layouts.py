"""The layouts of the generated suite are what they claim to be, on every device with strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import device, device_names, device_problem
from pyrite.tensor.tensor import Tensor
from pyrite.testing.layouts import LAYOUTS, OFFSET, poison_of
from pyrite.types import Array

DEVICES = [name for name in device_names() if device_problem(name) is None]
#: What there is a layout to look at of: a handle that tells its strides.
STRIDED = [n for n in DEVICES if n == "numpy" or isinstance(device(n).backend.root, CubeBackend)]

SHAPE = (4, 5, 6, 7)

#: Strides and the offset of a tensor of that shape, in elements.  Around sliced ones lies one more.
CLAIMED = {
    "dense": ((210, 42, 7, 1), 0),
    "offset": ((210, 42, 7, 1), OFFSET),
    "sliced": ((7 * 8 * 9, 8 * 9, 9, 1), 504 + 72 + 9 + 1),
    "every second": ((5 * 6 * 13, 6 * 13, 13, 2), 0),
    "sparse": ((2 * 11 * 13 * 21, 2 * 13 * 21, 2 * 21, 3), 11 * 13 * 21 + 13 * 21 + 21 + 1),
    "reversed": ((-504, -72, -9, -1), 4 * 504 + 5 * 72 + 6 * 9 + 7),
    "transposed": ((1, 4, 20, 120), 0),
    "channels last": ((210, 1, 35, 5), 0),
    "broadcast on the first axis": ((0, 72, 9, 1), 504 + 72 + 9 + 1),
    "broadcast on the last axis": ((7 * 8 * 3, 8 * 3, 3, 0), 168 + 24 + 3 + 1),
    "broadcast on the axes behind the second": ((7 * 9, 9, 0, 0), 63 + 9 + 3 + 1),
    "broadcast on all axes": ((0, 0, 0, 0), 27 + 9 + 3 + 1),
}


def values_of(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    return np.random.default_rng(0).uniform(1, 100, shape).astype(dtype)


def strides_and_offset(x: Tensor) -> tuple[tuple[int, ...], int | None]:
    primitive = x.primitive()
    if isinstance(primitive, np.ndarray):
        return tuple(n // primitive.itemsize for n in primitive.strides), None
    return primitive.strides, primitive.offset


@pytest.mark.parametrize("name", STRIDED)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_what_it_claims(layout: str, name: str) -> None:
    strides, offset = strides_and_offset(
        LAYOUTS[layout](LAYOUTS[layout].settled(values_of(SHAPE)), name)
    )
    wanted, begin = CLAIMED[layout]

    assert strides == wanted
    assert offset in (begin, None)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("shape", [(), (5,), (1,), (0,), (3, 1), (0, 4), (1, 1, 1), SHAPE])
def test_every_layout_has_its_values(name: str, shape: tuple[int, ...]) -> None:
    for layout in LAYOUTS.values():
        if layout.applies(shape):
            want = layout.settled(values_of(shape))
            np.testing.assert_array_equal(layout(want, name).numpy(), want)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=str)
def test_settled_values_stay(layout: Any) -> None:
    once = layout.settled(values_of(SHAPE))

    np.testing.assert_array_equal(layout.settled(once), once)
    assert (len(np.unique(once)) < once.size) is layout.name.startswith("broadcast")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint32", "bool"])
def test_poison_is_no_value_of_an_example(dtype: str) -> None:
    poison = poison_of(np.zeros(3, dtype))

    assert poison.dtype == np.dtype(dtype)
    assert np.isnan(poison) if poison.dtype.kind == "f" else poison == poison_greatest(dtype)


def poison_greatest(dtype: str) -> Any:
    return True if dtype == "bool" else np.iinfo(dtype).max
