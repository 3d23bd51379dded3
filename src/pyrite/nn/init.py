"""Initial values of parameters: drawn on the host, so that one seed gives the same on every device.

An initialiser is a frozen value; ``parameter`` reserves its draw when a layer is declared and
computes it when the parameter is first needed, so the order in which parameters are looked at
changes nothing. Gains and fans as in PyTorch: the default of layers is uniform in ±1/sqrt(fan_in).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.errors import ArgumentError, ShapeError
from pyrite.op.foreign import answering
from pyrite.tensor.creation import tensor
from pyrite.tensor.parameter import Parameter, State
from pyrite.tensor.random import words
from pyrite.tensor.stream import current_stream
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, DTypeLike, Shape, default_float, element_count
from pyrite.types import dtype as as_dtype

Words = Callable[[int], Array]


class Initializer(ABC):
    """How initial values are drawn.  ``words(n)`` gives n 32-bit words of a reserved draw."""

    @abstractmethod
    def values(self, shape: Shape, fan_in: int, fan_out: int, words: Words) -> Array:
        """Return the values, float64, of a parameter whose units have these numbers of inputs."""

    def parameter(
        self,
        shape: Shape,
        *,
        fan_in: int | None = None,
        fan_out: int | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> Parameter:
        """Return a parameter that draws its value when it is first looked at.

        Fans default to those of a weight (out, in, ...) whose further axes are a kernel's.
        """
        kind = as_dtype(default_float if dtype is None else dtype)
        guess_in, guess_out = fans(shape)
        draw = current_stream().reserve()

        def initial() -> Tensor:
            values = self.values(
                shape,
                guess_in if fan_in is None else fan_in,
                guess_out if fan_out is None else fan_out,
                lambda count: words(*draw, shape=(count,)),
            )
            return tensor(values.astype(kind.numpy), device=device)

        return Parameter.lazy(shape, kind, device, initial)


def fans(shape: Shape) -> tuple[int, int]:
    """Return (fan_in, fan_out) of a weight (out, in, *kernel); a vector is its own fan.

    >>> fans((8, 3, 5, 5))
    (75, 200)
    """
    if len(shape) < 2:
        size = shape[0] if shape else 1
        return size, size
    kernel = element_count(shape[2:])
    return shape[1] * kernel, shape[0] * kernel


@dataclass(frozen=True)
class Constant(Initializer):
    """Fills a parameter with one value."""

    value: float

    def values(self, shape: Shape, fan_in: int, fan_out: int, words: Words) -> Array:
        """Return the value, repeated."""
        return np.full(shape, self.value, np.float64)


@dataclass(frozen=True)
class Zeros(Constant):
    """0 everywhere."""

    value: float = 0.0


@dataclass(frozen=True)
class Ones(Constant):
    """1 everywhere."""

    value: float = 1.0


@dataclass(frozen=True)
class Uniform(Initializer):
    """Uniform in low <= value < high."""

    low: float = 0.0
    high: float = 1.0

    def values(self, shape: Shape, fan_in: int, fan_out: int, words: Words) -> Array:
        """Return uniform values."""
        return _uniform(shape, self.low, self.high, words)


@dataclass(frozen=True)
class Normal(Initializer):
    """Normal with a mean and a standard deviation."""

    mean: float = 0.0
    std: float = 1.0

    def values(self, shape: Shape, fan_in: int, fan_out: int, words: Words) -> Array:
        """Return normal values."""
        return self.mean + self.std * _normal(shape, words)


@dataclass(frozen=True)
class KaimingUniform(Initializer):
    """Uniform in ±gain * sqrt(3 / fan).  Source: He et al. 2015, arXiv:1502.01852, eq. 10.

    The default gain, 1/sqrt(3), makes the bound 1/sqrt(fan_in): what PyTorch's layers start from.
    """

    gain: float = 1 / math.sqrt(3)
    fan_out_only: bool = False

    def values(self, shape: Shape, fan_in: int, fan_out: int, words: Words) -> Array:
        """Return uniform values whose variance is gain² / fan."""
        fan = fan_out if self.fan_out_only else fan_in
        bound = self.gain * math.sqrt(3 / max(1, fan))
        return _uniform(shape, -bound, bound, words)


@dataclass(frozen=True)
class KaimingNormal(Initializer):
    """Normal with standard deviation gain / sqrt(fan).  He et al. 2015, arXiv:1502.01852."""

    gain: float = math.sqrt(2)
    fan_out_only: bool = False

    def values(self, shape: Shape, fan_in: int, fan_out: int, words: Words) -> Array:
        """Return normal values whose variance is gain² / fan."""
        fan = fan_out if self.fan_out_only else fan_in
        return _normal(shape, words) * (self.gain / math.sqrt(max(1, fan)))


@dataclass(frozen=True)
class XavierUniform(Initializer):
    """Uniform in ±gain * sqrt(6 / (fan_in + fan_out)).  Source: Glorot & Bengio 2010, eq. 16."""

    gain: float = 1.0

    def values(self, shape: Shape, fan_in: int, fan_out: int, words: Words) -> Array:
        """Return uniform values whose variance is 2 gain² / (fan_in + fan_out)."""
        bound = self.gain * math.sqrt(6 / max(1, fan_in + fan_out))
        return _uniform(shape, -bound, bound, words)


@dataclass(frozen=True)
class XavierNormal(Initializer):
    """Normal with standard deviation gain * sqrt(2 / (fan_in + fan_out)).  Glorot & Bengio 2010."""

    gain: float = 1.0

    def values(self, shape: Shape, fan_in: int, fan_out: int, words: Words) -> Array:
        """Return normal values whose variance is 2 gain² / (fan_in + fan_out)."""
        return _normal(shape, words) * (self.gain * math.sqrt(2 / max(1, fan_in + fan_out)))


@dataclass(frozen=True)
class Orthogonal(Initializer):
    """Orthonormal rows or columns, times a gain.  Source: Saxe et al. 2014, arXiv:1312.6120.

    Uniform over orthogonal matrices: the signs of R's diagonal are made positive (Mezzadri 2007).
    """

    gain: float = 1.0

    def values(self, shape: Shape, fan_in: int, fan_out: int, words: Words) -> Array:
        """Return a matrix (first axis, all others), orthonormal along its short side."""
        if len(shape) < 2:
            raise ShapeError(f"orthogonal requires at least two axes, got shape {shape}")
        rows, columns = shape[0], element_count(shape[1:])
        tall = _normal((max(rows, columns), min(rows, columns)), words)
        q, r = np.linalg.qr(tall)
        q = q * np.sign(np.diag(r))
        return self.gain * (q if rows >= columns else q.T).reshape(shape)


def state(values: Array, *, device: DeviceLike = None) -> State:
    """Return a state that starts from these values."""
    return State(tensor(values, device=device))


def optional(wanted: bool, initializer: Initializer, shape: Shape, **rest: Any) -> Parameter | None:
    """Return a parameter, or None where a layer is declared without it."""
    return initializer.parameter(shape, **rest) if wanted else None


def positive(layer: str, **sizes: int) -> None:
    """Raise ArgumentError unless every named size of a layer is at least 1."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ArgumentError(f"{layer} requires {name} >= 1, got {size!r}")


def _units(count: int, words: Words) -> Array:
    return (words(count) >> 8) * 2.0**-24


def _uniform(shape: Shape, low: float, high: float, words: Words) -> Array:
    return (low + (high - low) * _units(element_count(shape), words)).reshape(shape)


def _normal(shape: Shape, words: Words) -> Array:
    """Box & Muller 1958, in float64: two words an element."""
    count = element_count(shape)
    first, second = _units(2 * count, words).reshape(2, count)
    return (np.sqrt(-2 * np.log1p(-first)) * np.cos(2 * np.pi * second)).reshape(shape)


#: What PyTorch's module has: functions that change a tensor there; here a layer takes a value.
_INSTEAD = {
    "constant_": "nn.Linear(2, 3, initializer=nn.init.Constant(0.5))",
    "eye_": "nn.Linear(3, 3).replace(weight=pyrite.Parameter(pyrite.eye(3)))",
    "kaiming_normal_": "nn.Linear(2, 3, initializer=nn.init.KaimingNormal())",
    "kaiming_uniform_": "nn.Linear(2, 3, initializer=nn.init.KaimingUniform())",
    "normal_": "nn.Linear(2, 3, initializer=nn.init.Normal(0.0, 0.02))",
    "ones_": "nn.Linear(2, 3, initializer=nn.init.Ones())",
    "orthogonal_": "nn.Linear(2, 3, initializer=nn.init.Orthogonal())",
    "uniform_": "nn.Linear(2, 3, initializer=nn.init.Uniform(-0.1, 0.1))",
    "xavier_normal_": "nn.Linear(2, 3, initializer=nn.init.XavierNormal())",
    "xavier_uniform_": "nn.Linear(2, 3, initializer=nn.init.XavierUniform())",
    "zeros_": "nn.Linear(2, 3, initializer=nn.init.Zeros())",
}

if not TYPE_CHECKING:
    __getattr__ = answering("pyrite.nn.init", _INSTEAD)
