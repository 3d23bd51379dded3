"""Joined tensors are NumPy's, in whichever way they are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.errors import PyriteError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
DEVICES = ["numpy", "cpu"]


def given(device: str, dtype: Any = pyrite.float32) -> list[Any]:
    """Tensors that lie in order, turned, in steps, broadcast, and that are empty."""
    x = pyrite.tensor(X, device=device).astype(dtype)
    return [x, x.mT.reshape(2, 4, 3).mT, x[:, ::-1], x[:1].broadcast_to((2, 3, 4)), x[:, :0]]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", [list, tuple, iter])
@pytest.mark.parametrize("axis", [1, -2, np.int64(1)])
def test_any_number_is_joined_along_an_axis(device: str, kind: Any, axis: Any) -> None:
    if device == "cpu":
        pytest.importorskip("llvmlite")
    for dtype in (pyrite.float32, pyrite.float16, pyrite.bfloat16, pyrite.int8):
        xs = given(device, dtype)
        for count in (1, 2, 5, 11):
            some = (xs * 3)[:count]
            want = np.concatenate([x.numpy() for x in some], 1)
            for _ in range(3):
                found = pyrite.concat(kind(some), axis)
                assert found.dtype is dtype
                np.testing.assert_array_equal(found.numpy(), want)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("axis", [0, 1, -1, 3])
def test_tensors_of_one_shape_are_stacked(device: str, axis: int) -> None:
    if device == "cpu":
        pytest.importorskip("llvmlite")
    for kind in (list, tuple, iter):
        for count in (1, 2, 4, 12):
            some = (given(device)[:4] * 3)[:count]
            found = pyrite.stack(kind(some), axis)
            np.testing.assert_array_equal(found.numpy(), np.stack([x.numpy() for x in some], axis))


def test_dtypes_meet_and_so_do_levels() -> None:
    x = pyrite.tensor(X)
    tracked = pyrite.tensor(X, device=pyrite.autodiff(x.device)).require_grad()
    for _ in range(3):
        assert pyrite.concat([x.astype(pyrite.int8), x]).dtype is pyrite.float32
        assert pyrite.concat([pyrite.Parameter(x), x]).shape == (4, 3, 4)
        joined = pyrite.concat([x, tracked, tracked * 2.0], 1)
        gradient = (joined * joined).sum().backward()[tracked]
        np.testing.assert_array_equal(gradient.numpy(), 2 * X + 8 * X)


MISTAKES: dict[str, Any] = {
    "none": lambda x: pyrite.concat([]),
    "a number": lambda x: pyrite.concat([x, 1.0]),
    "nothing in a tuple": lambda x: pyrite.concat((x, None)),
    "one by one": lambda x: pyrite.concat(x, x),
    "an axis that there is not": lambda x: pyrite.concat([x, x], 3),
    "an axis of another kind": lambda x: pyrite.concat([x, x], 1.0),
    "a bool as an axis": lambda x: pyrite.concat([x, x], "1"),
    "shapes": lambda x: pyrite.concat([x, x[0]]),
    "sizes": lambda x: pyrite.concat([x, x[:, 1:]]),
    "another name": lambda x: pyrite.concat([x, x], dim=0),
    "shapes of a stack": lambda x: pyrite.stack([x, x[:, 1:]]),
    "a stack of numbers": lambda x: pyrite.stack((x, 2)),
    "no stack": lambda x: pyrite.stack(()),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_at_the_users_line(name: str) -> None:
    x = pyrite.tensor(X)
    told = []
    for _ in range(2):
        with pytest.raises(PyriteError) as raised:
            MISTAKES[name](x)
        told.append(str(raised.value))
        assert "test_joining.py" in str(raised.value.location)

    assert told[0] == told[1]
    assert told[0].startswith(("concat requires", "stack requires"))
