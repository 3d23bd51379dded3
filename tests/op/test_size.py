"""Sizes in a body that is traced: ints in every way, but for a mark that arithmetic keeps."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.backend.graph import Graph
from pyrite.backend.tracing.tracer import traced
from pyrite.content import content_of
from pyrite.op import OPS, Op
from pyrite.op.size import SizeFloat, SizeInt, SizeNumber, unmarked
from pyrite.types import TensorType, float32, int32

N = SizeInt(12, "n")

KEPT = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow,
]  # fmt: skip


@pytest.mark.parametrize("function", KEPT)
@pytest.mark.parametrize("other", [5, 0.5, SizeInt(7, "m"), SizeFloat(0.25, "f"), True])
def test_arithmetic_is_pythons_and_keeps_the_mark(function: Any, other: Any) -> None:
    for x, y in ((N, other), (other, N)):
        wanted = function(unmarked(x), unmarked(y))

        found = function(x, y)

        assert found == wanted
        assert type(unmarked(found)) is type(wanted)
        # A float or a bool on the left never asks it.
        assert isinstance(found, SizeNumber) == (type(x) not in (float, bool))


def test_everything_else_takes_it_for_an_int() -> None:
    assert isinstance(N, int)
    assert N.__class__ is int
    assert (N == 12, hash(N) == hash(12), f"{N}", repr(N)) == (True, True, "12", "12")
    assert {12: "twelve"}[N] == "twelve"
    assert (list(range(N))[-1], [0] * N, "ab"[: N - 11]) == (11, [0] * 12, "a")
    assert np.zeros(N).shape == (12,)
    assert content_of(N) == content_of(12)
    assert max(N, 3) is N
    assert math.prod((N, 2)) == 24


def test_marks_are_taken_off_in_what_holds_them() -> None:
    found = unmarked((N, [N * 0.5], slice(0, N, None), "n"))

    assert found == (12, [6.0], slice(0, 12, None), "n")
    assert type(found[0]) is int
    assert type(found[1][0]) is float
    assert type(found[2].stop) is int


@pyrite.composite()
def spread(x: Tensor, /) -> Tensor:
    """Reads sizes as numbers, as attributes and in a branch."""
    n, size = x.shape[0], x.size
    y = x.reshape((size,)) / n + size**0.5
    return y[: size - 1] ** 2 if n > 1 else y


del OPS["spread"]  # suites go through those of Pyrite


def graph_of(shape: tuple[int, ...], op: Op | None = None) -> Graph:
    """Return the graph of a body for a float32 tensor of a shape."""
    wanted = spread.op if op is None else op  # type: ignore[attr-defined]
    found = traced(wanted, [TensorType(shape, float32)], {})
    assert found is not None
    return found


def test_a_number_made_of_sizes_is_an_input_of_the_graph() -> None:
    graph = graph_of((4, 9))

    assert [i.value for i in graph.inputs if i.is_number] == [4, 6.0]
    assert [type(i.value) for i in graph.inputs if i.is_number] == [int, float]
    other = graph_of((9, 9))
    assert [i.value for i in other.inputs if i.is_number] == [9, 9.0]


def test_sizes_in_attributes_and_types_lose_their_mark() -> None:
    graph = graph_of((3, 7))

    sizes = [n for of in graph.types for n in of.shape]
    assert {type(n) for n in sizes} == {int}
    values = [v for node in graph.nodes for v in node.attrs.values()]
    assert not [v for v in values if unmarked(v) is not v and not isinstance(v, tuple | list)]
    assert {type(n) for v in values if isinstance(v, tuple) for n in v if n == 21} <= {int}


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_plans_of_bodies_leave_no_mark_behind(device: Any) -> None:
    x = np.arange(2 * 11, dtype="float32").reshape(2, 11)
    for _ in range(2):
        spread(pyrite.tensor(x, device=device))
    y = pyrite.tensor(x, device=device).reshape((22,))

    assert {type(n) for n in y.shape} == {int}
    for op in OPS.values():
        for plan in op.plans.values():
            sizes = [n for t in plan.out or () for n in t.shape]
            assert {type(n) for n in sizes} <= {int}, op.name


@pytest.mark.parametrize("shape", [(2, 3), (1, 5), (7, 1), (3, 4)])
def test_the_result_is_that_of_the_ops_one_by_one(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    y = x.reshape(-1) / np.float32(shape[0]) + np.float32(x.size**0.5)
    wanted = y[: x.size - 1] ** 2 if shape[0] > 1 else y

    found = spread(pyrite.tensor(x, device="cpu")).numpy()

    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pyrite.composite()
def remainder_of_rows(x: Tensor, /) -> Tensor:
    """Integers stay integers beside a size."""
    return x % x.shape[0] + x // x.shape[1]


del OPS["remainder_of_rows"]  # suites go through those of Pyrite


def test_integers_and_sizes_give_integers() -> None:
    for shape in ((3, 4), (5, 2)):
        x = np.arange(shape[0] * shape[1], dtype="int32").reshape(shape)

        found = remainder_of_rows(pyrite.tensor(x, device="cpu"))

        assert found.dtype is int32
        np.testing.assert_array_equal(found.numpy(), x % shape[0] + x // shape[1])
