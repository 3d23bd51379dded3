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
from pyrite.errors import ArgumentError, DTypeError, KernelError, ShapeError
from pyrite.extension import kernel
from pyrite.types import TensorType, float32, float64, int32

DEVICES = ("cpu", "wgpu")
FLOATS = TensorType((3,), float32)


def fresh(**rules: Any) -> Callable[..., Tensor]:
    """An op of which no kernel is compiled."""

    @kernel
    def body(k: Any, x: Any, out: Any, *, by: float) -> None:
        out[k.at] = k.math.exp(x[k.at]) + by

    @custom_op(infer=lambda x, *, by: x, kernels=[body], **rules)
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
    turns, has_turned = 0, threading.Event()

    def function(x: Tensor, by: float) -> list[Tensor]:
        # However quick a machine is, or slow: it goes on when the event loop has.
        assert has_turned.wait(60)
        threads.append(threading.get_ident())
        return [op(x, by=by) * 2.0]

    async def show() -> None:
        nonlocal turns
        preparing = asyncio.create_task(
            pyrite.prepare(function, pyrite.ones((3,), device=name), 0.5)
        )
        while not preparing.done():
            turns += 1
            if turns == 3:
                has_turned.set()
            await asyncio.sleep(0.0005)
        await preparing

    asyncio.run(show())

    assert threads != [threading.get_ident()]
    assert len(threads) == 1
    assert turns >= 3
    before = forms(op)
    assert before == 1
    assert function(pyrite.zeros((3,), device=name), 0.5)[0].tolist() == [3.0] * 3
    assert forms(op) == before


def test_what_the_function_raises_is_raised() -> None:
    x = pyrite.ones((2, 3), device="cpu")

    with pytest.raises(ShapeError, match="matmul requires"):
        asyncio.run(pyrite.prepare(lambda x: x @ x, x))


# ---- by types ----


def prepare(op: Any, *types: Any, **given: Any) -> None:
    asyncio.run(op.prepare(*types, **given))


def working(name: str) -> str:
    if problem := device_problem(name):
        pytest.skip(problem)
    return name


@pytest.mark.parametrize("name", DEVICES)
def test_types_are_enough(name: str) -> None:
    op: Any = fresh()
    prepare(op, FLOATS, by=0.5, device=working(name))
    before = forms(op)

    assert before == 1
    assert op(pyrite.zeros((3,), device=name), by=0.5).tolist() == [1.5] * 3
    assert forms(op) == before


@pytest.mark.parametrize("name", DEVICES)
def test_a_prepared_call_launches_nothing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    @kernel
    def endless(k: Any, x: Any, out: Any) -> None:
        """It ends for what a caller gives, and for what is in fresh memory maybe never."""
        total = x[k.at]
        while total < 8.0:
            total += x[k.at]
        print("total", total)
        k.check(total < 16.0, "as it is doubled")
        out[k.at] = total

    @custom_op(infer=lambda x: x, kernels=[endless])
    def grown(x: Tensor, /) -> Tensor:
        """x, added up to 8 and more."""
        ...

    prepare(grown, FLOATS, device=working(name))

    assert capsys.readouterr().out == ""
    assert grown(pyrite.tensor([3.0, 4.0, 9.0], device=name)).tolist() == [9.0, 8.0, 9.0]
    assert "total" in capsys.readouterr().out


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3)])
def test_what_lies_otherwise_than_was_prepared_is_right(name: str, shape: tuple[int, ...]) -> None:
    op: Any = fresh()
    prepare(op, TensorType(shape, float32), by=1.0, device=working(name))
    x = pyrite.zeros(shape, device=name)

    for given in (x, x.mT if x.ndim > 1 else x, pyrite.zeros((1,), device=name).expand((3, 1)).mT):
        for by in (1.0, -0.5):
            assert (op(given, by=by) == 1.0 + by).all().item()


@pytest.mark.parametrize("name", DEVICES)
def test_casts_and_bodies_are_prepared(name: str) -> None:
    @kernel
    def total_kernel(k: Any, x: Any, y: Any, out: Any) -> None:
        out[k.at] = x[k.at] + y[k.at]

    @custom_op(infer=lambda x, y: x, kernels=[total_kernel], promotes="all")
    def total(x: Tensor, y: Tensor, /) -> Tensor:
        """x + y."""
        ...

    @custom_op(body=lambda x: total(x * 2.0, x).mT)
    def thrice(x: Tensor, /) -> Tensor:
        """3 x, transposed."""
        ...

    total.kernel = total_kernel  # type: ignore[attr-defined]
    prepare(total, TensorType((2, 3), int32), TensorType((2, 3), float32), device=working(name))
    prepare(thrice, TensorType((2, 3), float32), device=name)
    before = forms(total)

    x = pyrite.ones((2, 3), dtype="int32", device=name)
    assert total(x, x.astype("float32")).tolist() == [[2.0] * 3] * 2
    assert thrice(x.astype("float32")).tolist() == [[3.0] * 2] * 3
    assert forms(total) == before == 1


def test_wgsl_is_prepared() -> None:
    doubled_wgsl = pyrite.wgpu.kernel(
        """
        @compute @workgroup_size(workgroup_size_x)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            let i = element(id);
            if (i < out_size) { out[i] = x[i] * by; }
        }
        """
    )

    @custom_op(infer=lambda x, *, by: x, kernels=[doubled_wgsl])
    def times(x: Tensor, /, *, by: float) -> Tensor:
        """x * by."""
        ...

    times.kernel = doubled_wgsl  # type: ignore[attr-defined]
    prepare(times, FLOATS, by=2.0, device=working("wgpu"))
    assert forms(times) == 1
    assert times(pyrite.ones((3,), device="wgpu"), by=3.0).tolist() == [3.0] * 3
    assert forms(times) == 1


def test_where_nothing_is_compiled_there_is_nothing_to_do() -> None:
    for name in ("numpy", "torch:cpu"):
        if device_problem(name) is None:
            prepare(fresh(body=lambda x, *, by: x.exp() + by), FLOATS, by=0.5, device=name)


def test_what_the_call_would_raise_is_raised() -> None:
    def untold(x: Tensor) -> Tensor:
        return x if x.sum().item() > 0.0 else -x

    def refused(x: Any) -> Any:
        raise ShapeError("refused requires a square")

    @custom_op(infer=lambda x: x, body=untold)
    def asking(x: Tensor, /) -> Tensor:
        """x, or its opposite."""
        ...

    @kernel
    def silent(k: Any, x: Any, out: Any) -> None: ...

    @custom_op(infer=lambda x: x, kernels=[silent])
    def writes_nothing(x: Tensor, /) -> Tensor:
        """Nothing."""
        ...

    @custom_op(infer=refused, kernels=[silent])
    def shapeless(x: Tensor, /) -> Tensor:
        """Nothing."""
        ...

    with pytest.raises(ArgumentError, match=r"asking.prepare requires a body .* by examples"):
        prepare(asking, FLOATS, device="cpu")
    with pytest.raises(KernelError, match="requires every output to be written"):
        prepare(writes_nothing, FLOATS, device="cpu")
    with pytest.raises(ShapeError, match="requires a square"):
        prepare(shapeless, FLOATS, device="cpu")
    with pytest.raises(TypeError, match="by"):
        prepare(fresh(), FLOATS, device="cpu")
    if device_problem("wgpu") is None and float64 in runtime_lacks("wgpu"):
        with pytest.raises(DTypeError, match="float64"):
            prepare(fresh(), TensorType((3,), float64), by=0.5, device="wgpu")


def runtime_lacks(name: str) -> Any:
    return pyrite.device(name).backend.root.runtime.lacking  # type: ignore[attr-defined]
