"""Structs of WGSL as elements of a buffer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device, device_problem
from pyrite.errors import KernelError
from pyrite.extension import Struct, Vector, kernel, u32, vec2f, vec3f, vec4i


@pytest.fixture(params=["numpy", "interpreter", "cpu", "wgpu"])
def where(request: pytest.FixtureRequest, interpreter: Device) -> Device:
    if request.param == "interpreter":
        return interpreter
    if problem := device_problem(request.param):
        pytest.skip(problem)
    return pyrite.device(request.param)


@dataclass(frozen=True)
class Particle:
    position: vec3f  # type: ignore[valid-type]
    mass: float
    velocity: vec2f  # type: ignore[valid-type]
    kind: u32
    age: int


PARTICLE = Struct(Particle)


@dataclass(frozen=True)
class Padded:
    """An example of the specification: offsets 0, 16, 28, 32, 48."""

    a: vec2f  # type: ignore[valid-type]
    b: vec3f  # type: ignore[valid-type]
    c: float
    d: float
    e: vec4i  # type: ignore[valid-type]


def test_the_layout_is_that_of_wgsl() -> None:
    padded = Struct(Padded)

    assert [4 * f.word for f in padded.fields] == [0, 16, 28, 32, 48]
    assert (padded.words, padded.dtype.itemsize) == (16, 64)
    assert padded.wgsl == "struct Padded { a: vec2f, b: vec3f, c: f32, d: f32, e: vec4i }"
    assert [4 * f.word for f in PARTICLE.fields] == [0, 12, 16, 24, 28]
    assert PARTICLE.words == 8


@kernel(inner=1)
def aged_kernel(k: Any, particles: Any, out: Any) -> None:
    (i,) = k.at
    p = PARTICLE.read(particles, i)
    if p.kind == 1:
        p = replaced(p, Vector(0.0, p.mass), p.position * 2.0)
    for _ in range(3):
        p = replaced(p, p.velocity + Vector(0.5, p.position.z), p.position)
    PARTICLE.write(out, i, Particle(p.position, p.mass, p.velocity, p.kind + 2, -7))


def replaced(p: Particle, velocity: Any, position: Any) -> Particle:
    return Particle(position, p.mass, velocity, p.kind, p.age)


@custom_op(infer=lambda x: x, kernels=[aged_kernel])
def aged(x: Tensor, /) -> Tensor:
    """Particles a moment later."""
    ...


@pytest.mark.parametrize("size", [1, 5])
def test_structs_are_read_written_and_carried(where: Device, size: int) -> None:
    rng = np.random.default_rng(size)
    array = np.zeros(size, PARTICLE.dtype)
    array["position"], array["velocity"] = rng.normal(size=(size, 3)), rng.normal(size=(size, 2))
    # The bits of these words are numbers that a GPU may take for 0, were they floats.
    array["mass"], array["kind"], array["age"] = rng.normal(size=size), np.arange(size) % 3, 3
    words = pyrite.tensor(array.view(np.uint32).reshape(size, -1), device=where)

    got = np.ascontiguousarray(aged(words).numpy()).view(PARTICLE.dtype)[:, 0]

    want = array.copy()
    of_one = array["kind"] == 1
    want["velocity"][of_one] = np.stack([0 * array["mass"], array["mass"]], -1)[of_one]
    want["position"][of_one] *= 2
    want["velocity"] += 3 * np.stack([0.5 + 0 * array["mass"], want["position"][:, 2]], -1)
    want["kind"], want["age"] = array["kind"] + 2, -7
    for name in PARTICLE.dtype.names or ():
        np.testing.assert_allclose(got[name], want[name], rtol=1e-5, err_msg=name)


def wrong_words(k: Any, x: Any, out: Any) -> None:
    PARTICLE.read(x, k.at[0], 0)  # wrong


def wrong_value(k: Any, x: Any, out: Any) -> None:
    PARTICLE.write(out, k.at[0], 1.0)  # wrong


def wrong_dtype(k: Any, x: Any, out: Any) -> None:
    p = PARTICLE.read(x, k.at[0])
    PARTICLE.write(out, k.at[0], Particle(p.position, p.kind, p.velocity, p.kind, 0))  # wrong


def wrong_width(k: Any, x: Any, out: Any) -> None:
    p = PARTICLE.read(x, k.at[0])
    PARTICLE.write(out, k.at[0], replace(p, velocity=p.position))  # wrong


MISTAKES = {
    wrong_words: "a tensor of uint32 with 8 words on its last axis and 2 axes before",
    wrong_value: "write requires a Particle, got 1.0",
    wrong_dtype: "mass requires float32, got uint32; cast it",
    wrong_width: "velocity requires a vec2f",
}


@pytest.mark.parametrize("function", MISTAKES, ids=lambda f: f.__name__)
def test_mistakes_are_errors_of_their_line(function: Any, interpreter: Device) -> None:
    @custom_op(infer=lambda x: x, kernels=[kernel(function, inner=1)])  # type: ignore[call-overload]
    def op(x: Tensor, /) -> Tensor:
        """Wrong."""
        ...

    with pytest.raises(KernelError, match=MISTAKES[function]) as raised:
        op(pyrite.zeros((2, 8), dtype="uint32", device=interpreter))

    count = function.__code__.co_firstlineno + (1 if "p =" not in MISTAKES[function] else 2)
    assert int(str(raised.value.location).rpartition(":")[2]) in (count, count + 1)


def test_other_classes_are_refused() -> None:
    @dataclass(frozen=True)
    class Named:
        name: str

    with pytest.raises(KernelError, match=r"fields of float, int, u32 or a vector .*, got name of"):
        Struct(Named)
    with pytest.raises(KernelError, match="a dataclass with fields, got type"):
        Struct(int)
