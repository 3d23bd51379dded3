from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from pyrite.errors import KernelError
from pyrite.kernel import KernelBuilder, Memory, Value, verify
from pyrite.kernel.builder import exact
from pyrite.kernel.interpret import interpret
from pyrite.kernel.ir import vector
from pyrite.types import DType, Number, bool_, float32, float64, int8, int32, uint8


def nodes(b: KernelBuilder) -> int:
    return sum(1 for _ in b.build().walk())


def builder() -> tuple[KernelBuilder, Value, Memory]:
    b = KernelBuilder("k", workgroup_size=4)
    return b, b.global_id(), b.buffer("x", float32, "read_write")


def test_an_equal_pure_node_is_made_once() -> None:
    b, i, _ = builder()
    first = i + 1
    count = nodes(b)

    assert (i + 1).node is first.node
    assert nodes(b) == count


def test_loads_are_made_each_time() -> None:
    _, i, x = builder()

    assert x[i].node is not x[i].node


def test_zeros_of_different_sign_are_different_constants() -> None:
    b, _, _ = builder()

    assert b.const(0.0, float32).node is not b.const(-0.0, float32).node
    assert b.const(math.nan, float32).node is b.const(-math.nan, float32).node


def test_a_node_made_in_a_branch_is_not_used_outside() -> None:
    b, i, x = builder()
    with b.if_(i < 2):
        x[i] = x[i + 1]
    x[i] = x[i + 1]

    verify(b.build())


def test_a_number_takes_the_type_of_the_value_beside_it() -> None:
    _, i, x = builder()
    lanes = x.load(i, width=4)

    assert (lanes * 2).type is (2 - lanes).type is vector(float32, 4)
    assert (i + 2).dtype is int32


def test_a_scalar_beside_a_vector_is_repeated() -> None:
    _, i, x = builder()

    assert (x[i] * x.load(i, width=4)).width == 4


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda b, i, x: x[i] + i, "add requires operands of one type, got float32 and int32"),
        (lambda b, i, x: x[i] & x[i], "and requires 2 operands of bits dtype, got 2 of float32"),
        (lambda b, i, x: i / 2, "/ requires floats, got int32; use //"),
        (lambda b, i, x: x[i] // 2.0, "// requires integers, got float32"),
        (lambda b, i, x: b.alu("add", 1, 2), "add requires a value among its operands"),
        (lambda b, i, x: x.load(i, width=4)[4], "extract requires 0 <= element < 4, got 4"),
        (lambda b, i, x: i + 0.5, "a constant requires a whole number"),
        (lambda b, i, x: i + (1 << 40), "a constant requires a whole number"),
        (lambda b, i, x: bool(i > 0), "known only when the kernel runs"),
    ],
)
def test_a_mistake_is_an_error_where_it_is_made(
    wrong: Callable[[KernelBuilder, Value, Memory], object], message: str
) -> None:
    with pytest.raises(KernelError) as error:
        wrong(*builder())

    assert message in str(error.value)


def test_a_loop_with_carried_values_requires_a_yield() -> None:
    b, i, _ = builder()
    with (
        pytest.raises(KernelError, match="requires yield_ at its end"),
        b.for_(0, 4, carried=[i]),
    ):
        pass


def test_a_yield_of_another_type_is_refused() -> None:
    b, i, x = builder()
    with (
        pytest.raises(KernelError, match="yield_ requires a value of int32, got float32"),
        b.for_(0, 4, carried=[i]) as loop,
    ):
        loop.yield_(x[i])


def test_an_else_stands_right_after_its_if() -> None:
    b, i, x = builder()
    with b.if_(i < 2) as branch:
        pass
    x[i] = 1.0
    with pytest.raises(KernelError, match="else_ requires to stand right after"):
        branch.else_()


def test_both_parts_of_a_branch_yield_alike() -> None:
    b, i, _ = builder()
    with b.if_(i < 2) as branch:
        branch.yield_(i)
    with pytest.raises(KernelError, match="yield_ requires 1 values, got 2"), branch.else_():
        branch.yield_(i, i)


def test_a_while_requires_a_condition() -> None:
    b, i, _ = builder()
    with (
        pytest.raises(KernelError, match="requires a call of condition"),
        b.while_([i]) as loop,
    ):
        loop.yield_(i)


def test_an_exception_in_a_region_leaves_the_builder_usable() -> None:
    b, i, x = builder()
    with pytest.raises(ZeroDivisionError), b.if_(i < 2):
        raise ZeroDivisionError
    x[i] = 1.0

    verify(b.build())


def test_an_open_region_is_not_a_kernel() -> None:
    b, i, _ = builder()
    b.if_(i < 2).__enter__()

    with pytest.raises(KernelError, match="every region to be closed"):
        b.build()


@pytest.mark.parametrize(
    ("value", "dtype", "wanted"),
    [
        (0.1, float32, float(np.float32(0.1))), (0.1, float64, 0.1), (1e40, float32, math.inf),
        (-1e40, float32, -math.inf), (3, float32, 3.0), (True, int8, 1), (2, bool_, True),
        (255.0, uint8, 255),
    ],
)  # fmt: skip
def test_constants_are_rounded_to_their_dtype(value: Number, dtype: DType, wanted: Number) -> None:
    found = exact(value, dtype)

    assert found == wanted
    assert type(found) is type(wanted)


def test_operators_mean_what_they_say() -> None:
    b = KernelBuilder("k", workgroup_size=8)
    i, y = b.global_id(), b.buffer("y", int32, "write")
    y[i] = ((100 // (i + 1)) << 2) - (50 % (i + 1) ^ ~i | 3 & -i) + abs(i - 4) + (i >> 1)
    found = np.zeros(8, np.int32)

    interpret(verify(b.build()), 1, found)

    n = np.arange(8)
    wanted = ((100 // (n + 1)) << 2) - (50 % (n + 1) ^ ~n | 3 & -n) + abs(n - 4) + (n >> 1)
    np.testing.assert_array_equal(found, wanted)
