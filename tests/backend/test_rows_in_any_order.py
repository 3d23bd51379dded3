"""Programs of rows, and their gradients, whichever way x, weight and cotangent lie in memory.

The suite of layouts asks each op by itself, at the sizes of a few examples.  Here are what kernels
make of several ops over one axis, any of up to four: sizes, axis, dtype and the order of memory of
each of the three are drawn.  The judge is NumPy in float64 with dense copies.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.autodiff import value_and_grad
from pyrite.backend.device import Device, device_names, device_problem
from pyrite.testing.layouts import LAYOUTS, Layout, drawn_order
from pyrite.types import Array

DEVICES = [n for n in device_names() if n != "cpu" and device_problem(n) is None]
MOST = 20_000

#: What is made of x and a weight over an axis, in the shape of x.
BODIES: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "softmax": lambda x, w, axis: x.softmax(axis=axis),
    "log-softmax": lambda x, w, axis: x.log_softmax(axis=axis),
    "softmax, and x again": lambda x, w, axis: x.softmax(axis=axis) * x + x,
    "weighted log-softmax": lambda x, w, axis: (x * 2).log_softmax(axis=axis) * w - x,
    "norm": lambda x, w, axis: (
        (x - x.mean(axis=axis, keepdims=True)) / (x.var(axis=axis, keepdims=True) + 0.1).sqrt() * w
    ),
    "root mean square": lambda x, w, axis: (
        x * w / ((x * x).mean(axis=axis, keepdims=True) + 0.1).sqrt()
    ),
    "two softmaxes": lambda x, w, axis: x.softmax(axis=axis) + (x * w).softmax(axis=axis),
    "logsumexp": lambda x, w, axis: x - x.logsumexp(axis=axis, keepdims=True) * w,
    "shifted exponentials": lambda x, w, axis: (
        (x - x.max(axis=axis, keepdims=True)).exp() * (x * w).sum(axis=axis, keepdims=True)
    ),
    "entropy": lambda x, w, axis: (
        x - (x.softmax(axis=axis) * x.log_softmax(axis=axis)).sum(axis=axis, keepdims=True)
    ),
    "product": lambda x, w, axis: x + (1 + w / 64).prod(axis=axis, keepdims=True),
    "sum over all others": lambda x, w, axis: (
        x.softmax(axis=axis)
        * (x * w).sum(axis=tuple(a for a in range(x.ndim) if a != axis), keepdims=True)
    ),
}


@dataclass(frozen=True)
class RowProgram:
    """A body with operands and a cotangent, each with a layout."""

    text: str
    of: Callable[[Tensor, Tensor, int], Tensor]
    axis: int
    laid: tuple[tuple[Array, Layout], ...]

    @classmethod
    def draw(cls, seed: int, dtypes: tuple[str, ...]) -> RowProgram:
        """Return the program of a seed."""
        rng = random.Random(seed)
        ndim = rng.choice((1, 2, 2, 3, 3, 3, 4))
        shape = [rng.choice((rng.randint(1, 9), rng.randint(1, 70))) for _ in range(ndim)]
        while prod(shape) > MOST:
            shape[rng.randrange(ndim)] = rng.randint(1, 4)
        numbers = np.random.default_rng(seed)
        name, axis, dtype = rng.choice(list(BODIES)), rng.randrange(ndim), rng.choice(dtypes)
        laid = []
        for _ in range(3):
            layout = drawn_order(rng, ndim)
            if rng.random() < 0.3:
                layout = rng.choice([one for one in LAYOUTS.values() if one.applies(tuple(shape))])
            values = numbers.standard_normal(shape).astype(dtype)
            laid.append((layout.settled(values), layout))
        ways = "; ".join(str(layout) for _, layout in laid)
        return cls(
            f"{seed}: {name} over {axis} of {dtype}{shape}, x, weight and cotangent lie {ways}",
            BODIES[name], axis, tuple(laid),
        )  # fmt: skip

    def wanted(self) -> list[Array]:
        """Return the result and both gradients in float64."""
        dense = [pyrite.tensor(v.astype(np.float64), device="numpy") for v, _ in self.laid]
        return self._run(*dense)

    def run(self, where: Device) -> list[Array]:
        """Return them as a device computes them."""
        return self._run(*(layout(values, where) for values, layout in self.laid))

    def _run(self, x: Tensor, w: Tensor, cotangent: Tensor) -> list[Array]:
        def loss(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
            y = self.of(x, w, self.axis)
            return (y * cotangent).sum(), y

        (_, y), gradients = value_and_grad(loss, (0, 1), has_aux=True)(x, w)
        return [t.numpy() for t in (y, *gradients)]

    def faults(self, where: Device) -> list[str]:
        """Return which of the results are wrong."""
        found = []
        names = ("the result", "the gradient of x", "the gradient of the weight")
        for name, x, want in zip(names, self.run(where), self.wanted(), strict=True):
            close = 1e-4 if x.dtype == np.float32 else 1e-9
            off = np.abs(x - want).max(initial=0)
            if not off <= close * (1 + np.abs(want).max(initial=0)):  # NaN is not
                found.append(f"{self.text}: {name} is off by {off:.3g}")
        return found


def judge(first: int, where: list[Device], dtypes: tuple[str, ...]) -> None:
    """Require that four programs are right on devices."""
    programs = [RowProgram.draw(seed, dtypes) for seed in range(first, first + 4)]
    faults = [fault for one in programs for device in where for fault in one.faults(device)]
    assert not faults, "\n".join(faults)


@pytest.fixture(scope="module")
def processors() -> list[Device]:
    """The device cpu, whose ops run by themselves, and one that fuses them at their first call."""
    return [Device(pyrite.device("cpu").backend.root), pyrite.fusion("cpu", after=0)]


@pytest.mark.parametrize("first", range(0, 1000, 4))
@pytest.mark.sample(3)
def test_rows_on_a_processor_do_not_depend_on_how_what_they_meet_lies(
    first: int, processors: list[Device]
) -> None:
    judge(first, processors, ("float32", "float32", "float64"))


def test_a_number_of_a_piece_is_known_where_sums_over_rows_begin(processors: list[Device]) -> None:
    """One number for each piece of a row, and a kernel that adds up over several rows."""
    program = RowProgram.draw(402, ("float32", "float32", "float64"))

    assert "sum over all others over 2" in program.text
    assert "broadcast on the last axis" in program.text
    assert not [fault for device in processors for fault in program.faults(device)]


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("first", range(0, 400, 4))
@pytest.mark.sample(1, by="name")
def test_rows_do_not_depend_on_how_what_they_meet_lies(name: str, first: int) -> None:
    judge(first, [pyrite.device(name)], ("float32",))
