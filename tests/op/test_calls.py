"""Subscripts that are known give what those give that are read anew."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import pyrite
from pyrite.errors import PyriteError
from pyrite.op import calls as known_calls
from pyrite.op.calls import call_known, items_key, known_callers
from pyrite.op.size import SizeInt
from pyrite.types import TensorType

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
SUBSCRIPTS: list[Any] = [
    0, -1, (0,), (1, 2), (1, -2, 3), slice(None), slice(1, None), slice(None, -1), slice(2, 0, -1),
    slice(5, 9), (slice(None), 1), (slice(None), slice(1, 3)), (slice(None, None, 2), ..., -1),
    ..., (..., 0), None, (None, 1), (0, None, ..., None), (0, slice(None), slice(None, None, -2)),
    (), (1, slice(0, 0)), (None,) * 9, True, (0, True), np.int64(1), [0, 2], (slice(None), [1, 1]),
    (slice(1, np.int64(3)),), SizeInt(1, "n"), slice(SizeInt(1, "n"), None),
]  # fmt: skip
MISTAKES: list[Any] = [
    3, -4, (0, 0, 0, 0), (0, 4), 1.0, "a", slice(None, None, 0), slice(0.5, 1), (..., ...),
    (slice("a"),),
]  # fmt: skip


@pytest.fixture(params=["python", "native"], autouse=True)
def way(request: Any) -> Iterator[str]:
    pyrite.device("cpu")
    native = [*known_callers]
    assert native[0] is not call_known, "CPython of 64 bits, with its lock"
    if request.param == "python":
        known_callers[:] = [call_known]
    yield request.param
    known_callers[:] = native


@pytest.mark.parametrize("device", ["cpu", "numpy"])
@pytest.mark.parametrize("subscript", SUBSCRIPTS, ids=repr)
def test_subscripts_select_what_those_of_numpy_do(subscript: Any, device: str) -> None:
    x = pyrite.tensor(X, device=device)
    want = X[subscript]

    for _ in range(3):
        found = x[subscript]
        assert found.shape == want.shape
        np.testing.assert_array_equal(found.numpy(), want)


@pytest.mark.parametrize("subscript", SUBSCRIPTS, ids=repr)
def test_so_do_they_of_views_parameters_and_what_is_tracked(subscript: Any) -> None:
    x = pyrite.tensor(X, device="cpu")
    for _ in range(2):
        np.testing.assert_array_equal(x.mT[subscript].numpy(), X.swapaxes(1, 2)[subscript])
        np.testing.assert_array_equal(pyrite.Parameter(x)[subscript].numpy(), X[subscript])
        gradient = pyrite.grad(lambda x: (x[subscript] * 2.0).sum())(x).numpy()
        counts = np.zeros_like(X)
        np.add.at(counts, subscript, 2.0)
        np.testing.assert_array_equal(gradient, counts)


@pytest.mark.parametrize("subscript", MISTAKES, ids=repr)
def test_mistakes_are_told_at_the_users_line(subscript: Any) -> None:
    x = pyrite.tensor(X, device="cpu")
    told = []
    for _ in range(3):
        with pytest.raises(PyriteError) as raised:
            x[subscript]
        told.append(str(raised.value))
        assert "test_calls.py" in str(raised.value.location)
        assert raised.value.__context__ is None or raised.value.__suppress_context__

    assert "got" in told[0]
    assert told[0] == told[1] == told[2]


def test_a_subscript_is_found_out_for_each_type() -> None:
    for _ in range(2):
        for shape in [(3,), (4,), (3, 2), (4, 2), (1, 1, 1)]:
            x = pyrite.zeros(shape, device="cpu")
            assert x[-1].shape == shape[1:]
            assert x[1:].shape == (shape[0] - 1, *shape[1:])
            assert x[:, None].shape == (shape[0], 1, *shape[1:])
        for dtype in (pyrite.float16, pyrite.int8, pyrite.bool):
            assert pyrite.zeros((3,), dtype=dtype, device="cpu")[1].dtype is dtype


def test_keys_tell_subscripts_apart() -> None:
    given = [
        0, None, ..., slice(0), slice(None), slice(0, None), slice(None, None, 1), (0, None),
        (slice(0), 0), (slice(None), None, 0, None), (0, 0), (), (slice(0, 0), 0), (slice(0), 0, 0),
    ]  # fmt: skip
    keys = [items_key(subscript, (2, 3)) for subscript in given]

    assert None not in keys
    assert len(set(keys)) == len(given)
    assert items_key((0,), (2,)) == items_key(0, (2,))


@pytest.mark.parametrize("subscript", [True, 1.0, [0], SizeInt(1, "n"), slice(SizeInt(1, "n"))])
def test_what_is_more_than_a_number_has_no_key(subscript: Any) -> None:
    assert items_key(subscript, (2, 3)) is None
    assert items_key((0, subscript), (2, 3)) is None


def test_sizes_that_are_marked_stay_so() -> None:
    of = known_calls.KnownCalls(lambda type, subscript: [])
    marked = TensorType((SizeInt(3, "n"), 4), pyrite.float32)
    plain = TensorType((3, 4), pyrite.float32)

    assert of.calls_of(plain, 0) == ()
    assert of.calls_of(marked, 0) is None


def test_known_subscripts_python_does_not_read(monkeypatch: Any, way: str) -> None:
    if way == "python":
        pytest.skip("Python reads them")
    x = pyrite.tensor(X, device="cpu")
    tracked = pyrite.tensor(X, device=pyrite.autodiff("cpu")).require_grad()

    def calls() -> list[Any]:
        return [x[0], x[:, 1:], x[..., -1, None], tracked[1], tracked[::2, 0], x[()]]

    want = [y.numpy() for y in calls()]
    monkeypatch.setattr(known_calls, "items_key", None)

    for y, expected in zip(calls(), want, strict=True):
        np.testing.assert_array_equal(y.numpy(), expected)


def test_nothing_is_held_of_100_000_calls() -> None:
    x = pyrite.tensor(X, device="cpu")
    tracked = pyrite.tensor(X, device=pyrite.autodiff("cpu")).require_grad()
    # Of a small number, as of None, others have references too.
    first, last, step, counts = 10**6, 10**7, 10**8, []
    subscripts: list[Any] = [slice(None, last), (slice(None, first, step), 0), (..., slice(step))]
    calls: list[Callable[[], Any]] = [
        lambda: [x[subscript] for subscript in subscripts],
        lambda: [tracked[subscript] for subscript in subscripts],
    ]
    for _ in range(3):
        for _ in range(6_000):
            for call in calls:
                call()
        x.device.synchronize()
        held = [x, x._handle, x._type, tracked, tracked._handle, tracked._handle.node, first, last]
        counts.append([sys.getrefcount(one) for one in [*held, step, *subscripts]])

    for n, (before, after) in enumerate(zip(counts[1], counts[2], strict=True)):
        assert abs(after - before) < 20, n
