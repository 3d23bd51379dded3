"""Kernels are found by keys: whatever tells two kernels apart is in the key of each.

Each time a key is asked for the kernel is built again, and has to be the one that the key found.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.device import Device
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.kernel.machine import Machine
from pyrite.op import sample
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.runtime.protocol import Fixed
from pyrite.tensor.creation import tensor
from pyrite.testing import Example, examples
from pyrite.testing.layouts import LAYOUTS, Layout
from pyrite.types import DType, float16, float32, float64, int32

EXAMPLES = list(examples())
VIEWS = [LAYOUTS[name] for name in ("dense", "offset", "reversed", "transposed")]
MACHINES = {"cpu": Machine.cpu(64, 32), "gpu": Machine.gpu()}


class Idle(InterpreterRuntime):
    """An interpreter that runs nothing: what a kernel computes is not asked here."""

    def launch(self, executable: Any, bindings: Any, grid: Any) -> None:
        """Do nothing."""

    def allocate(self, nbytes: int) -> Any:
        """Return zeros, which are indices inside of anything."""
        return self._hold(np.zeros(nbytes, np.uint8))


class Judge(Launcher):
    """A launcher that builds again what a key finds, and notes the keys that found another."""

    def __init__(self, runtime: Any) -> None:
        super().__init__(runtime)
        self.wrong: list[Hashable] = []

    def executable(self, key: Hashable, build: Callable[[int], Kernel], axes: int) -> Any:
        found, wanted = super().executable(key, build, axes), build(axes)
        if found.kernel.digest != wanted.digest:
            self.wrong.append(key)
        return found


@pytest.fixture(scope="module", params=MACHINES)
def judge(request: pytest.FixtureRequest) -> Judge:
    return Judge(Idle(MACHINES[request.param]))


@pytest.fixture(scope="module")
def judged(judge: Judge) -> Device:
    backend = CubeBackend(judge.runtime)
    backend.launcher = judge
    return Device(backend)


def variants(value: Any) -> Iterator[Any]:
    """Give other values of an attribute, some of which are equal to it in Python."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1)
    elif isinstance(value, float):
        yield from (-value, value + 0.25, 0.0, -0.0, 1.0)
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            for other in variants(item):
                yield (*value[:number], other, *value[number + 1 :])


def changed(example: Example) -> Iterator[Example]:
    """Give an example, and others like it with another attribute."""
    yield example
    attrs = {**example.op.attributes, **example.sample.attrs}
    for name, value in attrs.items():
        for other in variants(value):
            called = sample(*example.sample.inputs, **{**example.sample.attrs, name: other})
            yield Example(example.op, example.number, called)


def cases() -> Iterator[Any]:
    """Give each example in a float and an integer, the first of each op in narrow and wide ones."""
    for example in EXAMPLES:
        others = [] if example.number else [float16, float64]
        for dtype in (float32, int32, *others):
            yield pytest.param(example, dtype, id=f"{example.id}-{dtype.name}")


@pytest.mark.parametrize(("example", "dtype"), [*cases()])
@pytest.mark.sample(8, by="dtype")
@pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")
def test_what_a_key_finds_is_what_would_be_built(
    judged: Device, judge: Judge, example: Example, dtype: DType
) -> None:
    judge.wrong.clear()
    for other in changed(example):
        arrays = other.arrays(dtype)
        for view in VIEWS:
            # Attributes are changed at random: what is refused, in whatever way, has no kernel.
            with contextlib.suppress(Exception):
                other.call([_laid(a, view, judged) for a in arrays], judged)
    assert judge.wrong == []


def _laid(x: Any, view: Layout, device: Device) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    return view(x, device) if view.applies(x.shape) else tensor(x, device=device)


def test_equal_numbers_that_are_not_the_same_have_kernels_of_their_own(judge: Judge) -> None:
    def build(number: Any) -> Callable[[int], Kernel]:
        def of(grid: int) -> Kernel:
            b = KernelBuilder("fill", grid=grid)
            b.buffer("out", float32, "write")[0] = float(np.copysign(2.0, number))
            return b.build()

        return of

    kernels = [judge.executable(("fill", Fixed(n)), build(n), 1) for n in (0.0, -0.0)]

    assert judge.wrong == []
    assert kernels[0] is not kernels[1]
