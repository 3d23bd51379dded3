"""Random ops.  Numbers come from Pyrite's streams; a seed in the file is not used."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite import types
from pyrite.onnx.bound import require_bounded
from pyrite.onnx.converter import converts
from pyrite.onnx.element import ELEMENTS
from pyrite.onnx.program import Call
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor
from pyrite.types import DType


def _kind(number: int | None, default: DType) -> DType:
    found = default if number is None else ELEMENTS[number].carrier
    assert found is not None, "support.problems refuses what has no carrier"
    return found


@converts("RandomNormal")
def random_normal(
    call: Call,
    *,
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    shape: Sequence[int],
) -> Tensor:
    """Return normal random numbers."""
    require_bounded("RandomNormal", shape)
    drawn = functions.normal(tuple(shape), mean, scale, device=call.device)
    return drawn.astype(_kind(dtype, types.float32))


@converts("RandomNormalLike")
def random_normal_like(
    x: Tensor,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    """Return normal random numbers in the shape of x."""
    return functions.normal(x.shape, mean, scale, device=x.device).astype(_kind(dtype, x.dtype))


@converts("RandomUniform")
def random_uniform(
    call: Call,
    *,
    dtype: int = 1,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    shape: Sequence[int],
) -> Tensor:
    """Return random numbers between low and high."""
    require_bounded("RandomUniform", shape)
    drawn = functions.uniform(tuple(shape), low, high, device=call.device)
    return drawn.astype(_kind(dtype, types.float32))


@converts("RandomUniformLike")
def random_uniform_like(
    x: Tensor,
    *,
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Tensor:
    """Return random numbers between low and high in the shape of x."""
    return functions.uniform(x.shape, low, high, device=x.device).astype(_kind(dtype, x.dtype))


@converts("Bernoulli", since=15)
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    """Return 1 with the probabilities x, else 0."""
    drawn = functions.uniform(x.shape, device=x.device) < x.astype(types.float32)
    return drawn.astype(_kind(dtype, x.dtype))


@converts("Multinomial", since=7)
def multinomial(
    call: Call, x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Tensor:
    """Return samples of classes by unnormalized log-probabilities: (N, C) -> (N, sample_size)."""
    require_bounded("Multinomial", (x.shape[0], sample_size), x.size)
    probabilities = x.astype(types.float32).softmax(-1)
    drawn = functions.multinomial(probabilities, sample_size, replacement=True)
    return drawn.astype(call.dtype(_kind(dtype, types.int32)))
