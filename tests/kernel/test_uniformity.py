from __future__ import annotations

from pyrite.kernel import KernelBuilder
from pyrite.kernel.uniformity import varying
from pyrite.types import float32, int32


def test_what_tells_invocations_apart_varies_and_what_depends_on_it() -> None:
    b = KernelBuilder("k", workgroup_size=8)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "read_write")
    group, lane = b.workgroup_id(), b.local_index()
    uniform = [group, x[group], b.select(group > 1, x[group], 0.0)]
    different = [lane, x[lane], y[group], lane + group]

    found = varying(b.build())

    assert found.isdisjoint(v.node for v in uniform)
    assert found.issuperset(v.node for v in different)


def test_a_branch_that_varies_gives_results_that_vary() -> None:
    b = KernelBuilder("k", workgroup_size=8)
    zero = b.const(0, int32)
    results = []
    for condition in (b.local_id() > 1, b.workgroup_id() > 1):
        with b.if_(condition) as branch:
            branch.yield_(zero)
        with branch.else_():
            branch.yield_(1)
        results.append(branch.results[0].node)

    found = varying(b.build())

    assert [r in found for r in results] == [True, False]


def test_what_varies_in_one_round_is_carried_into_the_next() -> None:
    b = KernelBuilder("k", workgroup_size=8)
    zero = b.const(0, int32)
    with b.for_(0, 4, carried=[zero, zero, zero]) as loop:
        _, second, third = loop.carried
        loop.yield_(second, third, b.local_id())

    found = varying(b.build())

    assert found.issuperset(r.node for r in loop.results)


def test_a_loop_that_may_run_no_round_gives_its_initial_value() -> None:
    b = KernelBuilder("k", workgroup_size=8)
    with b.for_(0, b.workgroup_id(), carried=[b.local_id()]) as loop:
        loop.yield_(0)

    assert loop.results[0].node in varying(b.build())


def test_who_leaves_a_loop_early_keeps_another_value() -> None:
    b = KernelBuilder("k", workgroup_size=8)
    with b.for_(0, b.local_id(), carried=[b.const(0, int32)]) as loop:
        loop.yield_(loop.carried[0] + 1)

    assert loop.results[0].node in varying(b.build())
