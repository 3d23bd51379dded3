from __future__ import annotations

from collections.abc import Callable

import pytest

from pyrite.kernel import KernelBuilder, to_text, verify
from pyrite.kernel.passes import eliminate_common
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.testing.random_kernels import random_kernel
from pyrite.types import float32


@pytest.mark.parametrize("example", examples_of_kernels(), ids=lambda e: e.kernel.name)
def test_hand_written_kernels_compute_the_same(example: KernelExample) -> None:
    example.check(verify(eliminate_common(example.kernel)))


@pytest.mark.parametrize("seed", range(25))
def test_random_kernels_compute_the_same_bit_for_bit(seed: int) -> None:
    example = random_kernel(seed)

    example.check(verify(eliminate_common(example.kernel)), relative=0)


def test_a_golden_pair(golden: Callable[[str, str], None]) -> None:
    b = KernelBuilder("pair", workgroup_size=4)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "read_write")
    i = b.global_id()
    y[i] = x[i] * x[i + 1] + x[i + 1] * x[i]
    with b.if_(i < 2):
        y[i] = x[i + 1] + y[i]
    with b.if_(i >= 2):
        y[i] = x[i + 2] + y[i]
    before = b.build()
    after = eliminate_common(before)

    golden("eliminate_common.txt", f"{to_text(before)}\n\n{to_text(verify(after))}\n")
