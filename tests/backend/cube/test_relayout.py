"""Views at their first call: arithmetic on strides, and nothing is recorded or launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.errors import DeviceError
from pyrite.tensor.creation import tensor, zeros
from pyrite.types import Array

NUMBERS: Array = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)

VIEWS: dict[str, Callable[[Any], Any]] = {
    "a row": lambda x: x[1],
    "a slice": lambda x: x[:, 1:3],
    "a reversed slice": lambda x: x[::-1, ::-2],
    "an element": lambda x: x[1, 2, 3],
    "none of it": lambda x: x[:, 3:],
    "axes that are parted": lambda x: x.reshape((2, 3, 2, 2)),
    "axes that are joined": lambda x: x.reshape((6, 4)),
    "an axis more": lambda x: x[:, None],
    "axes in another order": lambda x: x.T if isinstance(x, np.ndarray) else x.swap_axes(0, 2),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_the_first_view_of_a_kind_records_nothing_and_is_numpys(
    view: Callable[[Any], Any], fresh: Device
) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    x = tensor(NUMBERS, device=fresh)

    for _ in range(2):
        found = view(x)
        assert found._handle.buffer is x._handle.buffer
        assert backend.recordings == 0
        np.testing.assert_array_equal(found.numpy(), view(NUMBERS))


def test_a_view_of_a_view_lies_where_both_say(fresh: Device) -> None:
    x = tensor(NUMBERS, device=fresh)

    for i in range(2):
        np.testing.assert_array_equal(x.mT[i, 1:].mT[::-1].numpy(), NUMBERS[i].T[1:].T[::-1])


def test_what_strides_cannot_say_is_copied(fresh: Device) -> None:
    x = tensor(NUMBERS, device=fresh).mT

    found = x.reshape((-1,))

    assert found._handle.buffer is not x._handle.buffer
    np.testing.assert_array_equal(found.numpy(), NUMBERS.transpose(0, 2, 1).reshape(-1))


def test_a_view_of_too_many_elements_is_refused(fresh: Device) -> None:
    with pytest.raises(DeviceError, match="requires at most"):
        zeros((1,), device=fresh).broadcast_to((2**31,))
