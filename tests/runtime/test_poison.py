"""Poison is NaN in every float dtype and wild in every other, and a reach is exactly a layout."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite.runtime.poison import changed, poison, poisoned, reach_of
from pyrite.types import DTYPES, DType


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_poison_is_no_value_that_somebody_would_take_for_one(dtype: DType) -> None:
    found = poisoned(8 * dtype.itemsize).view(np.uint8 if dtype.is_bool else dtype.numpy)

    if dtype.is_float:
        assert np.isnan(found.astype(np.float64)).all()
    else:
        assert not np.isin(found, (0, 1)).any()


@pytest.mark.parametrize("size", [0, 1, 2, 7, 64, 20_001])
@pytest.mark.parametrize("phase", [0, 1])
def test_each_byte_that_is_written_is_found(size: int, phase: int) -> None:
    memory = np.empty(size + phase, np.uint8)
    poison(memory)
    memory = memory[phase:]

    assert len(changed(memory, phase)) == 0
    for at in {0, size // 2, size - 1} & set(range(size)):
        memory[at] ^= 1
        assert changed(memory, phase).tolist() == [at]
        memory[at] ^= 1


_X = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
_VIEWS = {
    "whole": _X, "transposed": _X.T, "every second": _X[..., ::2], "reversed": _X[::-1, :, ::-1],
    "a part": _X[1:, 1:3, 2:4], "one": _X[2, 3, 4:].reshape(()),
    "broadcast": np.broadcast_to(_X[1], (7, 4, 5)),
    "windows": np.lib.stride_tricks.sliding_window_view(_X, 3, axis=1),
}  # fmt: skip


@pytest.mark.parametrize("view", _VIEWS.values(), ids=_VIEWS)
def test_a_reach_has_the_elements_of_the_view_and_no_others(view: np.ndarray) -> None:
    offset = (view.ctypes.data - _X.ctypes.data) // 4
    reach = reach_of(4, offset, view.shape, tuple(s // 4 for s in view.strides))
    memory = _X.reshape(-1).view(np.uint8)

    own = np.unique(view)
    assert (np.flatnonzero(reach.elements(4))).tolist() == own.tolist()
    assert (reach.begin, reach.end) == (4 * own[0], 4 * (own[-1] + 1))
    copy = reach.masked(memory).view(np.int32)
    assert copy[own - own[0]].tolist() == own.tolist()
    assert (copy == _X.reshape(-1)[own[0] : own[-1] + 1]).sum() == len(own)
