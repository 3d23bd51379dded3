"""Kernels as bytes: what is decoded is what was encoded, and the body only when it is asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pyrite.kernel import Kernel, KernelBuilder, to_text
from pyrite.kernel.encoding import decoded, encoded
from pyrite.kernel.fact import fact
from pyrite.kernel.ir import vector
from pyrite.types import bool_, float32, int32, int64, uint32


def plain() -> Kernel:
    """Return a kernel of one store."""
    b = KernelBuilder("plain")
    x = b.buffer("x", float32, "read_write")
    x[b.global_id()] = x[b.global_id()] * 2.0
    return b.build()


def of_everything() -> Kernel:
    """Return a kernel with regions inside each other, vectors, numbers that are odd, all scopes."""
    b = KernelBuilder("everything", grid=2, index=int64)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    n = b.scalar("n", int64)
    total = b.const(-0.0, float32)
    with b.for_(0, n, carried=[total]) as loop:
        with b.for_(0, 4, carried=[loop.carried[0]], unroll=True) as inner:
            inner.yield_(inner.carried[0] + x.load(loop.index * 4 + inner.index))
        loop.yield_(inner.results[0])
    wide = x.load(0, width=4)
    mask = b.const((True, False, True, False), vector(bool_, 4))
    y.store(
        0, wide + b.const((float("nan"), float("inf"), 1e-45, 0.1), vector(float32, 4)), mask=mask
    )
    with b.if_(loop.results[0] > 1e30):
        y[n] = loop.results[0]
    return b.build()


@pytest.mark.parametrize("make", [plain, of_everything])
def test_a_decoded_kernel_is_the_one_that_was_encoded(make: Any) -> None:
    kernel = make()
    head, body = encoded(kernel)
    again = decoded(json.loads(json.dumps(head)), body)
    assert "body" not in vars(again)
    assert (again.digest, again.name, again.grid) == (kernel.digest, kernel.name, kernel.grid)
    assert [p.attr for p in again.parameters] == [p.attr for p in kernel.parameters]
    assert "body" not in vars(again)
    # A copy makes its digest of the body.
    assert replace(again).digest == kernel.digest
    assert to_text(again) == to_text(kernel)


def test_a_fact_is_found_once_and_comes_with_the_kernel() -> None:
    asked: list[str] = []

    def count_of_buffers(kernel: Kernel) -> tuple[int, ...]:
        asked.append(kernel.name)
        return (len(kernel.buffers),)

    from pyrite.kernel import fact as facts

    find = fact(count_of_buffers)
    try:
        kernel = plain()
        assert find(kernel) == find(kernel) == (1,)
        head, body = encoded(kernel)
        assert find(decoded(json.loads(json.dumps(head)), body)) == (1,)
        assert asked == ["plain"]
        # Of what was changed it is found anew.
        assert find(replace(kernel, name="other")) == (1,)
        assert asked == ["plain", "other"]
    finally:
        del facts.FACTS[f"{__name__}.count_of_buffers"]


def test_lines_come_with_the_body() -> None:
    kernel = plain()
    noted = replace(kernel, lines={kernel.body.body[-1]: "mine.py:3"})
    again = decoded(*encoded(noted))
    assert list(again.lines.items()) == [(again.body.body[-1], "mine.py:3")]


def test_dtypes_of_an_index_come_back() -> None:
    for index in (int32, uint32, int64):
        b = KernelBuilder("empty", index=index)
        b.buffer("x", float32, "write").store(0, 1.0)
        assert decoded(*encoded(b.build())).index is index
