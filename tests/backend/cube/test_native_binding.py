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
from pyrite.backend.device import Device
from pyrite.errors import PyriteError
from pyrite.op import binding, columns, restrictions
from pyrite.op.arguments import KnownArguments, Sorter, Translator
from pyrite.op.binding import bind, call, call_one, call_two, callers, written
from pyrite.op.plan import form_of
from pyrite.op.size import SizeInt

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
    "attributes by name": lambda x: x.sum(axis=1, keepdims=True),
    "attributes by place and name": lambda x: x.sum(1, keepdims=True),
    "a float among attributes": lambda x: x.layer_norm(x[0], x[1], -1, eps=0.25),
    "a zero among attributes": lambda x: x.layer_norm(x[0], x[1], eps=0.0),
    "a dtype": lambda x: x.astype(pyrite.float64),
    "a bool in the place of a number": lambda x: x.sum(0, keepdims=True),
    "a shape": lambda x: x.reshape(3, 4),
    "a shape as a list": lambda x: x.reshape([2, -1]),
    "a shape by name": lambda x: x.reshape(shape=(12,), copy=True),
    "a size that is marked": lambda x: x.reshape(SizeInt(3, "n"), 4),
    "another order": lambda x: x.permute(1, 0),
    "another order as a tuple": lambda x: x.permute((1, 0)),
    "a part": lambda x: x.split(3)[1] + x.split(1, axis=-2)[0],
    "axes swapped": lambda x: x.swap_axes(0, 1) + x.transpose(),
    "axes swapped of another type": lambda x: x.reshape(2, 2, 3).transpose(0, axis2=-1),
    "a new axis": lambda x: x.expand_dims(1) + x.expand_dims((0, -1)).squeeze(0),
    "an axis less": lambda x: x[:1].squeeze() + x[:1].squeeze(axis=0) + x[None].squeeze((0,))[0],
    "an input left out": lambda x: x.reshape(1, 1, 4, 3).conv2d(x.reshape(2, 1, 2, 3), padding=1),
    "inputs left out": lambda x: x.layer_norm(eps=0.25) + x.layer_norm(x[0], axis=1),
    "a view": lambda x: x.T,
    "a view of the last axes": lambda x: x.mT,
    "a product": lambda x: x @ x.T,
    "a product with a vector": lambda x: x @ x[0],
    "a body": lambda x: x.vecdot(x),
    "several results": lambda x: x.sort(),
    "results of several inputs": lambda x: x.batch_norm(x[0], eps=0.0),
    "results by name": lambda x: x.sort(axis=0, descending=True),
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
    "an attribute twice": lambda x: x.sum(0, axis=0),
    "a name that is none": lambda x: x.sum(axes=0),
    "too many attributes": lambda x: x.sum(0, None, False, 1),
    "a name of another library": lambda x: x.permute(dims=(1, 0)),
    "a shape twice": lambda x: x.reshape(12, shape=(12,)),
    "a shape that does not fit": lambda x: x.reshape(5),
    "a float as a size": lambda x: x.reshape(12.0),
    "an axis twice": lambda x: x.permute(0, 0),
    "an axis that there is not": lambda x: x.transpose(0, 5),
    "an axis of another size": lambda x: x.squeeze(0),
    "an axis less of no tensor": lambda x: Tensor.squeeze("x"),  # type: ignore[arg-type]
    "too few axes": lambda x: x.swap_axes(1),
    "no axis": lambda x: x.split(2, axis=5),
    "no size": lambda x: x.split(0),
    "a text": lambda x: x + "1",
    "a turned vector": lambda x: x[0].T,
    "another device": lambda x: x + pyrite.tensor(1.0, device="numpy"),
}
X = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


@pytest.fixture
def by_python() -> Iterator[Callable[[Callable[..., Any]], Any]]:
    """What runs a function without machine code."""
    assert bind_natively(pyrite.device("cpu").backend.root.runtime.compiler)  # type: ignore[attr-defined]
    native, native_written = [*callers], [*written]
    assert native_written, "CPython of 64 bits, with its lock"
    assert native[0] is not call, "CPython of 64 bits, with its lock"

    def run(function: Callable[[], Any]) -> Any:
        callers[:] = [call, call_one, call_two]
        written.clear()
        try:
            return function()
        finally:
            callers[:], written[:] = native, native_written

    yield run
    callers[:], written[:] = native, native_written


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


def test_attributes_that_were_given_before_python_does_not_sort(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = pyrite.tensor(X, device="cpu")

    def calls() -> list[Any]:
        return [
            x.sum(0), x.sum(axis=-1, keepdims=True), x.softmax(), x.layer_norm(None, x[0], eps=0.5),
            x.reshape(2, 6), x.reshape((3, -1)), x.permute(1, 0), x.astype(pyrite.float64),
            x.linear(x), x.transpose(0, 1), x.expand_dims(-1), x.layer_norm(),
        ]  # fmt: skip

    for _ in range(2):
        want = [y.tolist() for y in calls()]
    for cls in (KnownArguments, Sorter, Translator):
        monkeypatch.setattr(cls, "sorted", None)

    assert [y.tolist() for y in calls()] == want


def test_attributes_of_one_value_and_other_classes_are_told_apart(by_python: Any) -> None:
    x = pyrite.tensor(X, device="cpu")
    for _ in range(3):
        assert x.sum(1).shape == (4,)
        with pytest.raises(PyriteError):
            x.sum(1.0)
        with pytest.raises(PyriteError):
            x.reshape(12.0)
        assert x.reshape(12).shape == (12,)
        for eps in (0.5, 1e-3, 0.5):
            want = by_python(lambda: x.layer_norm(x[0], x[1], eps=eps)).tolist()  # noqa: B023
            assert x.layer_norm(x[0], x[1], eps=eps).tolist() == want
        for zero in (0.0, -0.0, 0.0, -0.0):
            assert np.signbit(x[X < 0].leaky_relu(zero).numpy()).all() == (not np.signbit(zero))


def test_what_depends_on_a_type_is_found_out_for_each(by_python: Any) -> None:
    device = pyrite.device("cpu")
    for _ in range(3):
        for shape in [(1, 2, 3), (2, 1, 3), (1, 1, 3), (3,), (1, 2, 3)]:
            x = pyrite.zeros(shape, device=device)
            assert x.squeeze().shape == tuple(n for n in shape if n != 1)
            assert x.expand_dims(0).shape == (1, *shape)
        for shape in [(2, 3), (2, 3, 4), (0, 5)]:
            x = pyrite.zeros(shape, device=device)
            assert x.transpose().shape == (*shape[:-2], shape[-1], shape[-2])


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
    # Fusion keeps plans of calls that it looks at, for a while.
    x = pyrite.tensor(X, device=Device(pyrite.device("cpu").backend.root))
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


def test_nothing_is_held_of_what_calls_were_given(by_python: Any) -> None:
    x = pyrite.tensor(X, device="numpy")
    shape, name, eps = (2, 2 * X.size // 4), "".join(["axis"]), 0.5 + len(X)
    counts = []
    for _ in range(3):
        for _ in range(200):
            x.reshape(shape), x.sum(**{name: (0, 1)}), x.layer_norm(x[0], x[0], eps=eps)
            x.linear(x), x.transpose(0, 1), x.split(2), x.expand_dims(0), x.sort(), x.batch_norm()
            with pytest.raises(PyriteError):
                x.reshape(5)
        ops: list[Any] = [Tensor.layer_norm, Tensor.linear, Tensor.permute_dims, Tensor._reshape]
        held = [x, x._handle, x._type, shape, name, eps]
        for method in ops:
            held += [*method.op.plans, *method.op.plans.values(), *method.op.plans]
        counts.append([sys.getrefcount(y) for y in held])

    assert counts[1] == counts[2]


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
