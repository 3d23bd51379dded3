"""Attributes that are frozen dataclasses: their numbers are given at launch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device
from pyrite.extension import kernel


@dataclass(frozen=True)
class Settings:
    scale: float = 2.0
    steps: int = 3
    is_squared: bool = False
    mode: str = "add"

    def __post_init__(self) -> None:
        assert isinstance(self.scale, float)


@kernel
def stepped(k: Any, x: Any, out: Any, *, settings: Settings, bias: float) -> None:
    value = x[k.at]
    for _ in range(settings.steps):
        value = value * settings.scale + (bias if settings.mode == "add" else -bias)
    out[k.at] = value * value if settings.is_squared else value


@custom_op(infer=lambda x, **_: x, kernels=[stepped])
def op(x: Tensor, /, *, settings: Settings = Settings(), bias: float = 1.0) -> Tensor:
    """Steps."""
    ...


def expected(x: float, s: Settings, bias: float) -> float:
    for _ in range(s.steps):
        x = x * s.scale + (bias if s.mode == "add" else -bias)
    return x * x if s.is_squared else x


def built(device: Device) -> int:
    backend: Any = device.backend.root
    found: int = len(backend.runtime._executables)
    return found


CASES = [
    Settings(), Settings(scale=0.5), Settings(scale=-0.0, steps=1), Settings(scale=0.0, steps=1),
    Settings(steps=5), Settings(steps=0), Settings(is_squared=True), Settings(mode="sub"),
    Settings(scale=float("inf"), steps=1),
]  # fmt: skip


def test_the_numbers_of_a_dataclass_are_seen(device: Device) -> None:
    x = pyrite.tensor([1.0, -3.0], device=device)

    for settings in CASES:
        for bias in (1.0, 0.25):
            got = op(x, settings=settings, bias=bias).tolist()
            assert got == [expected(v, settings, bias) for v in (1.0, -3.0)], settings


def test_a_number_that_changes_compiles_nothing(interpreter: Device) -> None:
    x = pyrite.tensor([1.0], device=interpreter)
    op(x, settings=Settings(scale=1.5))
    before = built(interpreter)

    for n in range(3, 8):
        op(x, settings=replace(Settings(), scale=float(n), steps=n))
    assert built(interpreter) == before

    op(x, settings=Settings(is_squared=True))
    assert built(interpreter) == before + 1


def test_on_numpy_it_is_the_dataclass_itself() -> None:
    x = pyrite.tensor([2.0], device="numpy")

    assert op(x, settings=Settings(steps=1)).tolist() == [5.0]


def test_a_field_may_be_declared_static(interpreter: Device) -> None:
    @kernel(static="settings")
    def kept(k: Any, x: Any, out: Any, *, settings: Settings) -> None:
        assert type(settings.scale) is float
        out[k.at] = x[k.at] * settings.scale

    @custom_op(infer=lambda x, **_: x, kernels=[kept])
    def scaled(x: Tensor, /, *, settings: Settings) -> Tensor:
        """By a number that is built in."""
        ...

    x = pyrite.tensor([2.0], device=interpreter)
    assert [scaled(x, settings=Settings(scale=s)).item() for s in (1.0, 3.0)] == [2.0, 6.0]


@pytest.mark.parametrize("name", ["cpu"])
def test_derivatives_get_them_too(name: str) -> None:
    @kernel(differentiable=True)
    def scaled(k: Any, x: Any, out: Any, *, settings: Settings) -> None:
        out[k.at] = x[k.at] * x[k.at] * settings.scale

    @custom_op(infer=lambda x, **_: x, kernels=[scaled])
    def squared_by(x: Tensor, /, *, settings: Settings) -> Tensor:
        """A square."""
        ...

    x = pyrite.tensor([2.0], device=name)
    slopes = [
        pyrite.grad(lambda x, s=s: squared_by(x, settings=Settings(scale=s)).sum())(x).item()
        for s in (1.0, 3.0)
    ]
    assert slopes == [4.0, 12.0]
