"""Bodies are traced on real tensors without values; what no graph can hold is refused."""

from __future__ import annotations

import numbers
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import device_names, device_problem
from pyrite.backend.graph import Graph
from pyrite.backend.tracing.tracer import traced, why_untraceable
from pyrite.op import OPS, Constant, Op, bind
from pyrite.tensor.creation import full_like, zeros_like
from pyrite.tensor.random import uniform
from pyrite.tensor.stream import random_state
from pyrite.testing import examples
from pyrite.types import (
    TensorType,
    bool_,
    float16,
    float32,
    float64,
    int32,
    promote_scalar,
)

X = TensorType((2, 3), float32)
CAPTURED = pyrite.tensor(np.ones(3, np.float32), device="numpy")


def op_of(body: Callable[..., Any]) -> Op:
    """Return an op of an application with a body of one tensor."""

    def made(x: Tensor, /) -> Tensor: ...

    op: Op = custom_op(body=body, infer=lambda x: x)(made).op  # type: ignore[attr-defined]
    return op


def graph_of(body: Callable[..., Any], *given: Any) -> Graph:
    found = traced(op_of(body), given or (X,), {})
    assert found is not None, why_untraceable(op_of(body), given or (X,), {})
    return found


def names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def test_a_graph_has_the_primitives_of_a_body_and_of_those_that_it_calls() -> None:
    graph = graph_of(lambda x: x.softmax(-1) + 1)

    made = ["max_of_numbers", "subtract", "exp", "sum", "reciprocal", "multiply", "add"]
    assert names(graph) == made
    assert graph.out == (X,)


def test_what_is_computed_twice_stands_there_once_and_what_is_in_vain_does_not() -> None:
    def body(x: Tensor) -> Tensor:
        _ = x.cos()
        return x.exp() + x.exp()

    assert names(graph_of(body)) == ["exp", "add"]


def test_sizes_types_and_creation_are_known() -> None:
    def body(x: Tensor) -> Tensor:
        return x.reshape((x.size,)).astype(x.dtype) + zeros_like(x).shape[0]

    assert graph_of(body).out == (TensorType((6,), float32),)


def test_branches_on_types_and_attributes_are_taken() -> None:
    def body(x: Tensor) -> Tensor:
        return x.exp() if x.dtype is float32 else x.sin()

    assert names(graph_of(body)) == ["exp"]
    assert names(graph_of(body, TensorType((2,), float64))) == ["sin"]


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("a value", lambda x: x * x.sum().item()),
        ("a truth", lambda x: x if x.sum() > 0 else -x),
        ("an array", lambda x: x + pyrite.tensor(x.numpy())),
        ("another tensor", lambda x: x + CAPTURED),
        ("random numbers", lambda x: x + uniform(x.shape, device=x.device)),
        ("another device", lambda x: x.to("numpy")),
        ("no tensor", lambda x: 3),
        ("the name of the device", lambda x: x if x.device.name == "cpu" else -x),
        ("a shape that waits for values", lambda x: x.reshape((6,)).nonzero()[0]),
    ],
)
def test_what_no_graph_holds_is_refused(what: str, body: Callable[..., Any]) -> None:
    assert traced(op_of(body), (X,), {}) is None, what


def test_a_refusal_that_the_body_catches_is_one() -> None:
    def body(x: Tensor) -> Tensor:
        try:
            return x * x.sum().item()
        except Exception:
            return x

    assert traced(op_of(body), (X,), {}) is None


def test_a_draw_that_is_refused_reserves_no_number() -> None:
    before = random_state()
    traced(op_of(lambda x: x + uniform(x.shape, device=x.device)), (X,), {})

    assert random_state() == before


# ---- types ----

COMPOSITES = [e for e in examples() if e.op.body is not None]


def test_the_types_of_composites_are_those_of_their_bodies() -> None:
    """Of all examples, in three dtypes; what waits for values has none."""
    found = 0
    for example in COMPOSITES:
        for dtype in (float32, float16, float64):
            inputs = [
                pyrite.tensor(a, device="numpy") if isinstance(a, np.ndarray) else a
                for a in example.arrays(dtype)
            ]
            given = [_given(i) for i in inputs]
            attrs = {**example.op.attributes, **example.sample.attrs}
            types = [i.type if isinstance(i, Constant) else i for i in given]
            if example.op.canonical is not None:
                attrs = dict(example.op.canonical(*types, **attrs))
            graph = traced(example.op, given, attrs)
            if graph is not None:
                results = example.call(inputs, "numpy")
                assert graph.out == tuple(r._type for r in results), example.id
                found += 1

    assert found > 0.8 * 3 * len(COMPOSITES)


def _given(x: Any) -> TensorType | Constant | None:
    if x is None or isinstance(x, Tensor):
        return x if x is None else x._type
    return Constant(x, TensorType((), promote_scalar("", bool_, x)))


def test_a_composite_needs_no_rule_for_types() -> None:
    def halves(x: Tensor, /) -> tuple[Tensor, Tensor]: ...

    op = custom_op(body=lambda x: (x[:, :1], x.sum(0).astype(float64)))(halves).op  # type: ignore[attr-defined]
    halves_of = bind(op, [pyrite.tensor(np.ones((2, 3), np.float32))], {})

    assert [h._type for h in halves_of] == [
        TensorType((2, 1), float32), TensorType((3,), float64)
    ]  # fmt: skip


# ---- numbers ----


def with_number(body: Callable[..., Any]) -> Op:
    def made(x: Tensor, rate: float, /) -> Tensor: ...

    op: Op = custom_op(body=body, infer=lambda x, rate: x)(made).op  # type: ignore[attr-defined]
    return op


def number(dtype: Any = float32, value: Any = 0.5) -> Constant:
    return Constant(value, TensorType((), dtype))


def test_a_number_is_an_input_and_is_weak() -> None:
    graph = traced(with_number(lambda x, rate: x * rate), (TensorType((3,), float16), number()), {})

    assert graph is not None
    assert graph.out == (TensorType((3,), float16),)
    assert [(i.position, i.is_number) for i in graph.inputs] == [(0, False), (1, True)]


def test_arithmetic_with_a_number_is_part_of_the_graph() -> None:
    op = with_number(lambda x, rate: x * (1 - rate * 2.0) / -rate)
    graph = traced(op, (X, number()), {})

    assert graph is not None
    assert names(graph).count("multiply") == 3


@pytest.mark.parametrize(
    "body",
    [
        lambda x, rate: x if rate > 0 else -x,
        lambda x, rate: x * float(rate),
        lambda x, rate: x * np.sqrt(rate),
        lambda x, rate: x * rate**2,
        lambda x, rate: x if rate else -x,
        lambda x, rate: x * {0.5: 1.0}[rate],
        lambda x, rate: x * rate.real,
    ],
)
def test_the_value_of_a_number_is_refused(body: Callable[..., Any]) -> None:
    assert traced(with_number(body), (X, number()), {}) is None


def test_integers_are_refused_and_bools_are_known() -> None:
    op = with_number(lambda x, flag: x if flag else -x)

    assert traced(op, (X, number(int32, 3)), {}) is None
    for flag, wanted in ((True, []), (False, ["negative"])):
        graph = traced(op, (X, number(bool_, flag)), {})
        assert graph is not None
        assert names(graph) == wanted


def test_graphs_of_the_table_are_values() -> None:
    """The same call is the same key, and another attribute another."""
    op = OPS["layer_norm"]
    first, again, other = (
        traced(op, (X, None, None), {"axis": (1,), "eps": eps}) for eps in (0.1, 0.1, 0.2)
    )

    assert first is not None
    assert other is not None
    assert first is again
    assert first.key != other.key


def test_a_call_that_was_planned_for_another_device_is_traced_alike() -> None:
    """Its plan says which inputs are cast, and takes no handle for a number."""

    def body(x: Tensor) -> Tensor:
        return x.astype(float32) - x.abs()

    x = TensorType((4, 7), float16)
    before = names(graph_of(body, x))
    body(pyrite.tensor(np.ones((4, 7), np.float16), device="numpy"))

    assert names(graph_of(body, x)) == before == ["astype", "abs", "astype", "subtract"]


def test_full_is_of_the_graph_but_refers_to_no_memory() -> None:
    assert graph_of(lambda x: full_like(x, 2.0) * x).out == (X,)


CPU = pytest.mark.skipif(
    "cpu" not in device_names() or device_problem("cpu") is not None, reason="no cpu here"
)


@pytest.mark.parametrize("device", ["numpy", pytest.param("cpu", marks=CPU)])
def test_a_body_that_asks_whether_it_trains_is_asked_at_each_call(device: str) -> None:
    @pyrite.composite()
    def doubled_in_training(x: Tensor, /) -> Tensor:
        return x * 2 if pyrite.training() else x * 3

    x = pyrite.tensor([1.0], device=device)
    assert doubled_in_training(x).item() == 3
    with pyrite.training_mode(True):
        assert doubled_in_training(x).item() == 2
    assert doubled_in_training(x).item() == 3


@pytest.mark.parametrize("device", ["numpy", pytest.param("cpu", marks=CPU)])
@pytest.mark.parametrize("draw", [random.random, time.perf_counter], ids=["random", "clock"])
def test_a_body_with_what_differs_from_call_to_call_is_run_at_each(
    device: str, draw: Callable[[], float]
) -> None:
    @pyrite.composite()
    def shifted(x: Tensor, /) -> Tensor:
        return x + draw()

    x = pyrite.zeros((), dtype=pyrite.float64, device=device)
    assert shifted(x).item() != shifted(x).item()
    assert why_untraceable(shifted.op, (x._type,), {}) == "what differs from call to call"  # type: ignore[attr-defined]


@pytest.mark.parametrize("device", ["numpy", pytest.param("cpu", marks=CPU)])
@pytest.mark.parametrize("kind", [float, int, numbers.Number], ids=lambda k: k.__name__)
def test_a_body_may_ask_which_kind_of_number_it_got(device: str, kind: type) -> None:
    @pyrite.composite()
    def scaled(x: Tensor, n: float, /) -> Tensor:
        return x * n if isinstance(n + n, kind) else x * 7.0

    x = pyrite.tensor([1.0], device=device)
    for n in (2.0, 3, 4.0):
        assert scaled(x, n).item() == (n if isinstance(n, kind) else 7)
