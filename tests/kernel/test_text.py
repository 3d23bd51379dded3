from __future__ import annotations

from collections.abc import Callable

import pytest

from pyrite.kernel import KernelBuilder, to_text, verify
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.types import float32, int32, uint32

Golden = Callable[[str, str], None]
SHORT = [e for e in examples_of_kernels() if sum(1 for _ in e.kernel.walk()) < 60]


@pytest.mark.parametrize("example", SHORT, ids=lambda e: e.kernel.name)
def test_the_text_of_a_kernel(example: KernelExample, golden: Golden) -> None:
    golden(f"{example.kernel.name}.txt", to_text(example.kernel) + "\n")


def test_the_text_of_every_kind_of_node(golden: Golden) -> None:
    b = KernelBuilder("every_kind", workgroup_size=(8, 4), grid=2)
    x, c = b.buffer("x", float32, "read_write"), b.buffer("c", uint32, "atomic")
    n = b.scalar("n", int32)
    lane = b.local_index()
    shared = b.shared(int32, 32, access="atomic")
    inside = lane < n
    old = shared.atomic("exchange_equal", lane, 5, expected=3, mask=inside)
    b.barrier("storage")
    x.prefetch(lane + 64)
    pair = b.make([x[lane], b.cast(old, float32)])
    x.store(lane, pair * b.splat(x.load(lane, mask=inside), 2), mask=inside)
    total = b.subgroup_reduce("add", pair[0]) + b.subgroup_scan("max", pair[1], is_inclusive=False)
    other = b.subgroup_broadcast(b.subgroup_shuffle(total, 1, "xor"))
    ballot = b.subgroup_ballot(inside)
    b.error(c, other > 0.0, ballot[0])
    chosen = b.select(inside, other, float("nan")) * b.const((1.0, -0.0), pair.type)
    x.store(b.bitcast(b.cast(n, uint32), int32), chosen, is_aligned=True)

    golden("every_kind.txt", to_text(verify(b.build())) + "\n")
