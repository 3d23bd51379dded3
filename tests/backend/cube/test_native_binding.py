"""Methods that bind by machine code do what Python's binding does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import pyrite
from pyrite import Tensor
from pyrite.autodiff import grad
from pyrite.backend.cube.native_binding import bind_natively
from pyrite.errors import PyriteError
from pyrite.op import binding, columns, restrictions
from pyrite.op.binding import bind, call, call_one, call_two, callers
from pyrite.op.plan import form_of

CALLS: dict[str, Callable[[Any], Any]] = {
    "two tensors": lambda x: x + x,
    "a tensor of another type": lambda x: x + x.astype(pyrite.float64),
    "a float": lambda x: x * 0.1,
    "a whole number": lambda x: x - 3,
    "a bool": lambda x: x * True,
    "a number of NumPy": lambda x: x * np.float32(0.3),
    "a number on the left": lambda x: 2.0 - x,
    "one": lambda x: x.exp(),
    "attributes": lambda x: x.sum(0),
    "a view": lambda x: x.T,
    "a view of the last axes": lambda x: x.mT,
    "a product": lambda x: x @ x.T,
    "a product with a vector": lambda x: x @ x[0],
    "a body": lambda x: x.vecdot(x),
    "several results": lambda x: x.sort(),
    "three inputs": lambda x: x.greater(0)._where(x, 1.0),
    "three tensors": lambda x: x.linear(x[:2], x[:2, 0]),
    "none of three": lambda x: x.linear(x),
    "four": lambda x: x.layer_norm(x[0], x[1]),
    "numbers alone before a tensor": lambda x: x.greater(0)._where(1.0, x),
    "a parameter": lambda x: x + pyrite.Parameter(x) * 2.0,
    "a state": lambda x: pyrite.State(x) * x,
}
MISTAKES: dict[str, Callable[[Any], Any]] = {
    "shapes": lambda x: x + x[:, :2],
    "a product of shapes": lambda x: x @ x,
    "a dtype": lambda x: x & x,
    "a text": lambda x: x + "1",
    "a turned vector": lambda x: x[0].T,
    "another device": lambda x: x + pyrite.tensor(1.0, device="numpy"),
}
X = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


@pytest.fixture
def by_python() -> Iterator[Callable[[Callable[..., Any]], Any]]:
    """What runs a function without machine code."""
    assert bind_natively(pyrite.device("cpu").backend.root.runtime.compiler)  # type: ignore[attr-defined]
    native = [*callers]
    assert native[0] is not call, "CPython of 64 bits, with its lock"

    def run(function: Callable[[], Any]) -> Any:
        callers[:] = [call, call_one, call_two]
        try:
            return function()
        finally:
            callers[:] = native

    yield run
    callers[:] = native


def values(found: Any) -> list[Any]:
    many = found if isinstance(found, tuple) else (found,)
    return [(x.dtype, x.shape, x.numpy().tolist(), x.device) for x in many]


@pytest.mark.parametrize("device", ["cpu", "numpy"])
@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_python(name: str, device: str, by_python: Any) -> None:
    x = pyrite.tensor(X, device=device)
    want = values(by_python(lambda: CALLS[name](x)))

    for _ in range(4):
        assert values(CALLS[name](x)) == want


@pytest.mark.parametrize("name", [n for n in CALLS if "results" not in n and n != "a parameter"])
def test_gradients_are_those_of_python(name: str, by_python: Any) -> None:
    x = pyrite.tensor(X, device="cpu")
    step = grad(lambda x: CALLS[name](x).sum())
    want = values(by_python(lambda: step(x)))

    for _ in range(3):
        assert values(step(x)) == want


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_as_by_python(name: str, by_python: Any) -> None:
    x = pyrite.tensor(X, device="cpu")

    def told() -> tuple[type, str]:
        with pytest.raises((PyriteError, TypeError)) as raised:
            MISTAKES[name](x)
        return type(raised.value), str(raised.value).partition("[")[0]

    want = by_python(told)

    for _ in range(3):
        assert told() == want


def test_what_was_planned_once_python_does_not_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    x = pyrite.tensor(X, device="cpu")
    for _ in range(2):
        (x + x).exp() @ (x * 0.5).T
    monkeypatch.setattr(binding, "known", None)
    monkeypatch.setattr(binding, "prepare", None)

    (x + x).exp() @ (x * 0.5).T


def test_a_block_that_forbids_is_asked(by_python: Any) -> None:
    x = pyrite.tensor(X, device="cpu")
    x + x
    asked: list[str] = []
    restrictions.append(lambda op, backend: asked.append(op.name))
    try:
        x + x
    finally:
        restrictions.clear()

    assert asked


def test_nothing_is_held_that_was_let_go(by_python: Any) -> None:
    x = pyrite.tensor(X, device="cpu")
    for _ in range(3):
        x + 1.5, x + x, x.exp()
    number, counts = 1e5 + 0.5, []
    for _ in range(2):
        for _ in range(100):
            x + number, x + x, x.exp()
        plan: Any = Tensor.add.op.plans[(), x._type.key, float]  # type: ignore[attr-defined]
        held = (x, x._handle, x._type, x._backend, plan, plan.result, plan.takes[1], number)
        counts.append([sys.getrefcount(y) for y in held])

    assert counts[0] == counts[1]


ROWS: dict[str, Callable[[Any], list[tuple[Any, ...]]]] = {
    "tensors and numbers": lambda x: [(x, 0.5), (x[:2], 0.5), (x.T, 1.5)],
    "tensors": lambda x: [(x, x), (x[:1], x[:1])],
    "a parameter": lambda x: [(pyrite.Parameter(x), 2.0), (x, 0.5)],
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_those_of_columns(name: str, by_python: Any) -> None:
    x = pyrite.tensor(X, device="numpy")
    op, rows = Tensor.multiply.op, ROWS[name](x)  # type: ignore[attr-defined]
    for given in rows:
        bind(op, given, {})
    form = form_of(op, {})
    assert form is not None

    want = columns._by_columns(op, rows, form, x._backend)
    found = columns.faster[0](op, rows, form, x._backend)

    assert want is not None
    assert found is not None
    assert [plan for _, plan in found] == [plan for _, plan in want]
    for (got, _), (expected, _) in zip(found, want, strict=True):
        for a, b in zip(got, expected, strict=True):
            assert a is b or (a.value, a.type) == (b.value, b.type)


def test_numbers_that_rows_share_are_one(by_python: Any) -> None:
    x, half = pyrite.tensor(X, device="numpy"), 0.5
    op = Tensor.multiply.op  # type: ignore[attr-defined]
    rows = [(x, half), (x[:2], half), (x.T, 0.25)]
    for given in rows:
        bind(op, given, {})

    found = columns.faster[0](op, rows, form_of(op, {}), x._backend)

    assert found is not None
    numbers = [given[1] for given, _ in found]
    assert numbers[0] is numbers[1]
    assert [number.value for number in numbers] == [0.5, 0.5, 0.25]


def test_rows_that_python_has_to_look_at_are_left_to_it(by_python: Any) -> None:
    x, other = pyrite.tensor(X, device="numpy"), pyrite.tensor(X, device="cpu")
    op = Tensor.multiply.op  # type: ignore[attr-defined]
    bind(op, (x, x), {})
    form, rows = form_of(op, {}), columns.faster[0]

    assert rows(op, [(x, x)], form, x._backend) is not None
    for calls in ([(x, x), (x, other)], [(x, x), [x, x]], [(x, "1")], [(x, x.astype(pyrite.int8))]):
        assert rows(op, calls, form, x._backend) is None
