"""Numbers of launches in one block: what `struct` gives of each, with what varies put in."""

from __future__ import annotations

import struct

import numpy as np
import pytest

pytest.importorskip("wgpu")

from pyrite.errors import KernelError
from pyrite.runtime.protocol import Fixed
from pyrite.runtime.wgpu.varying_numbers import LaunchNumbers, VaryingNumbers

LAUNCHES = [
    LaunchNumbers(1, "a", "ifI", (Fixed(-7), 1, Fixed(9))),
    LaunchNumbers(4, "b", "idq", (0, 1, Fixed(-1))),
    LaunchNumbers(5, "c", "f", (1,)),
]


def test_each_launch_has_its_numbers_where_struct_has_them() -> None:
    numbers = VaryingNumbers(LAUNCHES)
    assert numbers.places.tolist() == [1, 4, 5]
    for operands in ([3, 0.1], [-(2**31), float("inf")]):
        block = numbers.block(operands)
        for of, start, size in zip(LAUNCHES, numbers.starts, numbers.sizes, strict=True):
            values = [v.value if isinstance(v, Fixed) else operands[v] for v in of.values]
            own = struct.Struct("@" + of.letters)
            assert int(start) % 8 == 0
            assert bytes(block[int(start) : int(start + size)]) == own.pack(*values)


def test_blocks_of_two_runs_are_two() -> None:
    numbers = VaryingNumbers(LAUNCHES)

    first, second = numbers.block([1, 2.0]), numbers.block([3, 4.0])

    assert not np.shares_memory(first, second)
    assert bytes(first) == bytes(numbers.block([1, 2.0])) != bytes(second)


def test_a_number_that_does_not_fit_is_named_with_its_kernel() -> None:
    with pytest.raises(KernelError, match=r"kernel 'b' requires numbers of .* got 4294967296"):
        VaryingNumbers(LAUNCHES).block([2**32, 0.0])


def test_no_launches_have_no_numbers() -> None:
    assert VaryingNumbers([]).block([]).size == 0
