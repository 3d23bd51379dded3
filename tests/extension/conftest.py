"""The devices on which kernels in Python run, and an op for a kernel of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device, device_problem
from pyrite.extension import kernel
from pyrite.runtime.interpreter import InterpreterRuntime


@pytest.fixture
def interpreter() -> Device:
    """The runtime that checks every access, with nothing compiled."""
    return Device(CubeBackend(InterpreterRuntime()))


@pytest.fixture(params=["interpreter", "cpu", "wgpu"])
def device(request: pytest.FixtureRequest, interpreter: Device) -> Device:
    if request.param == "interpreter":
        return interpreter
    if problem := device_problem(request.param):
        pytest.skip(problem)
    return pyrite.device(request.param)


@pytest.fixture(params=["interpreter", "cpu", "wgpu", "numpy"])
def anywhere(request: pytest.FixtureRequest, interpreter: Device) -> Device:
    """As `device`, and where Python itself runs the kernel."""
    if request.param == "interpreter":
        return interpreter
    if problem := device_problem(request.param):
        pytest.skip(problem)
    return pyrite.device(request.param)


@pytest.fixture
def op_of() -> Callable[[Callable[..., None]], Callable[..., Tensor]]:
    """From a kernel ``(k, x, n, out)`` to its op: one number for each row of x."""

    def declare(function: Callable[..., None]) -> Callable[..., Tensor]:
        @custom_op(
            infer=lambda x, n: pyrite.types.TensorType(x.shape[:1], x.dtype),
            kernels=[kernel(function)],
        )
        def op(x: Tensor, n: Tensor, /) -> Tensor:
            """An op of that kernel."""
            ...

        return op

    return declare


@pytest.fixture
def rows() -> tuple[Any, Any]:
    """Nine rows of eleven floats, and a number from 0 to 5 for each."""
    x = np.random.default_rng(3).normal(size=(9, 11)).astype("float32")
    return x, np.arange(9, dtype=np.int32) % 6


@pytest.fixture
def judged(op_of: Callable[..., Any]) -> Callable[[Callable[..., None], Device], None]:
    """Compare a kernel on a device with Python.

    At the sizes that come first, which are built in, and at others, which are arguments.
    """

    def judge(function: Callable[..., None], device: Device) -> None:
        op, generator = op_of(function), np.random.default_rng(3)
        for shape in ((9, 11), (7, 13), (70, 12), (1, 11)):
            n = np.arange(shape[0], dtype=np.int32) % 6
            x = generator.normal(size=shape).astype(np.float32)
            views = [lambda t: t] if shape[0] != 70 else [lambda t: t, lambda t: t[::-1, ::-1]]
            for view in views:
                rows = pyrite.tensor(x.T.copy(), device=device).mT if shape[0] == 7 else x
                got = op(view(pyrite.tensor(rows, device=device)), pyrite.tensor(n, device=device))
                wanted = op(
                    view(pyrite.tensor(x, device="numpy")), pyrite.tensor(n, device="numpy")
                )
                np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=2e-5, atol=1e-5)

    return judge
