"""Types of results that one trace on symbols tells for many sizes are those of a trace of each."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

import pyrite
from pyrite import (
    Tensor,
    optim,  # noqa: F401  the ops of optimisers are known once it is imported
)
from pyrite.backend.tracing import sized_types
from pyrite.backend.tracing.inference import _traced_types
from pyrite.backend.tracing.sized_types import types_by_sizes
from pyrite.op import OPS, Attributes, Constant, Op
from pyrite.op.example import Spec
from pyrite.recent import Recent
from pyrite.testing import Example
from pyrite.testing.examples import samples_of
from pyrite.types import DType, TensorType, bool_, float16, float32, int8, int32

BY_BODIES = sorted(
    name for name, op in OPS.items() if op.body is not None and op.infer is op.scalar is None
)


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sized_types, "_kinds", Recent(64))


class Traces:
    """Counts traces, of numbers and of symbols."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, op: Op, given: Sequence[Any], attrs: Attributes) -> Any:
        self.count += 1
        return _traced_types(op, given, attrs)


def given_of(op: Op, inputs: Sequence[Any], dtype: DType, sizes: dict[int, int]) -> list[Any]:
    """Return the types of example inputs, with others in place of sizes."""

    def type_of(x: Any) -> Any:
        if not isinstance(x, Spec):
            return x if x is None else Constant(x, TensorType((), float32))
        kind = {"float": dtype, "int": int32, "bool": bool_}.get(x.kind, float32)
        return TensorType(tuple(sizes.get(n, n) for n in x.shape), kind)

    return [type_of(x) for x in inputs]


@pytest.mark.parametrize("name", BY_BODIES)
@pytest.mark.parametrize("dtype", [float32, float16, int8], ids=lambda d: d.name)
def test_types_are_those_of_a_trace_of_each_size(name: str, dtype: DType) -> None:
    op, rng = OPS[name], Random(name)
    for number, sample in enumerate(samples_of(op)):
        attrs = {**op.attributes, **Example(op, number, sample).sample.attrs}
        for _ in range(8):
            sizes = {n: rng.choice((0, 1, 2, 7, 16, 33, 250)) for n in range(2, 40)}
            given = given_of(op, sample.inputs, dtype, sizes)
            assert types_by_sizes(op, given, attrs, _traced_types) == _traced_types(
                op, given, attrs
            ), (given, attrs)


def test_the_third_size_is_the_last_that_is_traced() -> None:
    op, traces = OPS["adamw_update"], Traces()
    attrs = {**op.attributes, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "cautious": False}
    numbers = [Constant(x, TensorType((), float32)) for x in (0.1, 0.5, 0.5, 0.1)]
    counts = []
    for rows in (3, 8, 5, 9, 40, 2):
        x = TensorType((rows, rows + 1), float32)
        out = types_by_sizes(op, [x, x, x, x, None, *numbers], attrs, traces)
        assert out == (x, x, x)
        counts.append(traces.count)
    # Three sizes, and the third one's symbols.
    assert counts == [1, 2, 4, 4, 4, 4]


def test_a_body_that_asks_a_size_has_a_class_for_each_answer() -> None:
    def body(x: Tensor) -> Tensor:
        return x.sum(axis=0) if x.shape[0] < 10 else x * x

    op, traces = made_by(body), Traces()
    for rows in (30, 40, 3, 50, 4, 60, 5, 6, 11):
        x = TensorType((rows, 7), float32)
        want = TensorType((7,) if rows < 10 else (rows, 7), float32)
        assert types_by_sizes(op, [x], {}, traces) == (want,)
    # Three sizes, the symbols of the third, and the other class.
    assert traces.count == 6


def test_a_body_that_refuses_sizes_refuses_them_each_time() -> None:
    def body(x: Tensor) -> Tensor:
        return x.reshape((2, x.shape[0] // 2))

    op = made_by(body)
    for rows in (4, 6, 8, 7, 10, 9):
        found = types_by_sizes(op, [TensorType((rows,), float32)], {}, _traced_types)
        assert found == ((TensorType((2, rows // 2), float32),) if rows % 2 == 0 else None)


def made_by(body: Any) -> Op:
    """Return a composite of one tensor whose types its body tells."""

    @pyrite.composite()
    def made(x: Tensor, /) -> Tensor:
        return body(x)

    found: Op = made.op
    return found
