"""Kernels are compiled on another thread, while the caller's event loop goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import device_problem
from pyrite.errors import ShapeError
from pyrite.extension import kernel


def fresh() -> Callable[..., Tensor]:
    """An op of which no kernel is compiled."""

    @kernel
    def body(k: Any, x: Any, out: Any, *, by: float) -> None:
        out[k.at] = k.math.exp(x[k.at]) + by

    @custom_op(infer=lambda x, *, by: x, kernels=[body])
    def shifted_exp(x: Tensor, /, *, by: float) -> Tensor:
        """exp(x) + by."""
        ...

    shifted_exp.kernel = body  # type: ignore[attr-defined]
    return shifted_exp


def forms(op: Any) -> int:
    return sum(map(len, op.kernel._forms.values()))


@pytest.mark.parametrize("name", ["cpu", "wgpu"])
def test_a_call_after_it_compiles_nothing(name: str) -> None:
    if problem := device_problem(name):
        pytest.skip(problem)
    op: Any = fresh()
    threads: list[int] = []
    turns = 0

    def function(x: Tensor, by: float) -> list[Tensor]:
        threads.append(threading.get_ident())
        return [op(x, by=by) * 2.0]

    async def show() -> None:
        nonlocal turns
        preparing = asyncio.create_task(
            pyrite.prepare(function, pyrite.ones((3,), device=name), 0.5)
        )
        while not preparing.done():
            turns += 1
            await asyncio.sleep(0.0005)
        await preparing

    asyncio.run(show())

    assert threads != [threading.get_ident()]
    assert len(threads) == 1
    assert turns > 1
    before = forms(op)
    assert before == 1
    assert function(pyrite.zeros((3,), device=name), 0.5)[0].tolist() == [3.0] * 3
    assert forms(op) == before


def test_what_the_function_raises_is_raised() -> None:
    x = pyrite.ones((2, 3), device="cpu")

    with pytest.raises(ShapeError, match="matmul requires"):
        asyncio.run(pyrite.prepare(lambda x: x @ x, x))
