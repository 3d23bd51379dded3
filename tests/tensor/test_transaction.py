"""Several tensors are read together, of whatever device and level they are."""

from __future__ import annotations

import asyncio

import pytest

import pyrite
from pyrite.errors import DTypeError


def test_tensors_of_several_devices_and_levels_are_read_in_order() -> None:
    x = pyrite.tensor([1, 2], device="numpy")
    y = pyrite.tensor([3.0], device="cpu")
    z = pyrite.tensor(4.0, device=pyrite.autodiff("numpy"))

    assert [a.tolist() for a in pyrite.read(z, x, y)] == [4.0, [1, 2], [3.0]]
    assert [a.tolist() for a in asyncio.run(pyrite.read_async(y, z))] == [[3.0], 4.0]
    assert pyrite.read() == ()


def test_a_list_is_to_be_unpacked() -> None:
    x = pyrite.tensor([1, 2])

    with pytest.raises(DTypeError, match=r"got list; unpack a list: read\(\*tensors\)"):
        pyrite.read([x])  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="read requires tensors, got int"):
        asyncio.run(pyrite.read_async(x, 3))  # type: ignore[arg-type]
