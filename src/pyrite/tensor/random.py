"""Random numbers: the same on every backend, for every layout, in every thread.

Words come from Philox 4x32-10 (`pyrite.philox`).  A draw reserves an id from its stream; element i
takes word ``i % 4`` of the counter ``(i // 4, stream, draw low, draw high)`` under the seed's key.
So a draw does not depend on how many numbers other draws took, and drawing again by id repeats it.
Streams are in `pyrite.tensor.stream`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pyrite.backend.device import Device, DeviceLike
from pyrite.backend.device import device as as_device
from pyrite.errors import ArgumentError, ArgumentTypeError, DTypeError
from pyrite.op import OPS, Plan, apply, primitive, public, sample
from pyrite.op.size import unmarked
from pyrite.philox import philox4x32, philox_words
from pyrite.tensor.stream import current_stream
from pyrite.tensor.tensor import Tensor
from pyrite.types import (
    Array,
    DType,
    DTypeLike,
    Shape,
    TensorType,
    bfloat16,
    default_float,
    element_count,
    float16,
    float32,
    float64,
    int32,
    normalize_axis,
    normalize_shape,
    uint32,
)
from pyrite.types import dtype as as_dtype

_WORD = 0xFFFFFFFF


def words(
    key_low: Any, key_high: Any, stream: Any, draw_low: Any, draw_high: Any, *, shape: Shape
) -> Array:
    """Return the uint32 words of a draw, in row-major order."""
    count = element_count(shape)
    counters = np.zeros((-(-count // 4), 4), np.uint32)
    counters[:, 0] = np.arange(len(counters), dtype=np.uint32)
    counters[:, 1:] = [int(stream), int(draw_low), int(draw_high)]
    key = (int(key_low), int(key_high))
    return philox4x32(counters, key).reshape(-1)[:count].reshape(shape)


def draw_words(shape: Shape) -> Array:
    """Return words drawn on the host: for initial weights, which are the same everywhere."""
    return words(*current_stream().reserve(), shape=shape)


def _word_at(k: Any, *given: Any, index: Any, **_: Any) -> Any:
    """Return the word of an element: one of the four of its counter."""
    key_low, key_high, *rest = (k.cast(word, uint32) for word in given)
    first = k.cast(k.shift_right(index, 2), uint32)
    x0, x1, x2, x3 = philox_words(k, (first, *rest), (key_low, key_high))
    number = index & 3
    return k.where(number < 2, k.where(number == 0, x0, x1), k.where(number == 2, x2, x3))


@primitive(
    scalar=_word_at,
    reference=words,
    infer=lambda *_words, shape: TensorType(shape, uint32),
    vjp=(None,) * 5,
    accepts="any",
    promotes=(),
    samples=(sample(1, 2, 3, 4, 5, shape=(2, 3)), sample(0, 0, 0, 0, 0, shape=(0,))),
)
def _random_bits(
    key_low: Any, key_high: Any, stream: Any, draw_low: Any, draw_high: Any, /, *, shape: Shape
) -> Tensor:
    """Random words of a reserved draw."""
    ...


@public
def random_bits(shape: int | Sequence[int], *, device: DeviceLike = None) -> Tensor:
    """Return 32 random bits per element, uint32.

    Raises ArgumentError for a shape that is none.
    """
    plan = _plan_of_bits(normalize_shape("random_bits", shape))
    backend = as_device(device).backend
    bits: Tensor = apply(OPS["random_bits"], current_stream().next_words(), plan, Tensor, backend)
    return bits


def bits_of(x: Tensor) -> Tensor:
    """Return `random_bits` of the shape of a tensor, on its device."""
    plan = _plan_of_bits(x._type.shape)
    return apply(OPS["random_bits"], current_stream().next_words(), plan, Tensor, x._backend)  # type: ignore[no-any-return]


@lru_cache(maxsize=1024)
def _plan_of_bits(shape: Shape) -> Plan:
    """Return the plan of all draws of a shape.

    `bind` would make it at each: words are numbers, and a plan with integers depends on their
    values.  These fit, and nothing else is to be found out.
    """
    shape = unmarked(shape)
    return Plan({"shape": shape}, (TensorType(shape, uint32),), is_kept=True)


# ---- distributions: each a stated function of the words ----


@public
def uniform(
    shape: int | Sequence[int] = (),
    low: float = 0.0,
    high: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return values uniform in low <= x < high.

    A unit value is ``(word >> 8) * 2**-24``: exact in float32, and the same bits on every device.
    float16 takes the highest 11 bits of the word and bfloat16 the highest 8, all that they hold;
    float64 the highest 53 bits of two words, of which element i takes words 2 i and 2 i + 1.
    Rounding may give ``high`` itself on intervals other than 0 to 1.

    >>> import pyrite
    >>> with pyrite.random_stream(0):
    ...     bool((pyrite.uniform((2,)) < 1).all())
    True
    """
    _require_finite("uniform", low=low, high=high)
    sizes = normalize_shape("uniform", shape)
    return _affine(_unit(sizes, _float(dtype), device), high - low, low)


@public
def normal(
    shape: int | Sequence[int] = (),
    mean: float = 0.0,
    std: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return normally distributed values: sqrt(-2 log(1 - u)) cos(2 pi v) of two unit values.

    Devices agree to 1e-5.  Source: Box & Muller 1958.

    Raises ArgumentError for a negative std.
    """
    _require_finite("normal", mean=mean, std=std)
    if std < 0:
        raise ArgumentError(f"normal requires std >= 0, got {std}")
    kind = _float(dtype)
    sizes = normalize_shape("normal", shape)
    radius = ((1.0 - _unit(sizes, kind.compute, device)).log() * -2.0).sqrt()
    angle = _unit(sizes, kind.compute, device) * (2.0 * math.pi)
    return _affine(radius * angle.cos(), std, mean).astype(kind)


@public
def bernoulli(
    p: float | Tensor, shape: int | Sequence[int] | None = None, *, device: DeviceLike = None
) -> Tensor:
    """Return bools that are True with probability p, to the nearest 2**-32.

    p may be a tensor, to the precision of 2**-24; its shape and device are then the default, and
    elements outside 0 <= p <= 1 count as 0 or 1.  Decided by comparing integers, so the same on
    every device.  Raises ArgumentError for a number outside 0 <= p <= 1.
    """
    if isinstance(p, Tensor):
        sizes = normalize_shape("bernoulli", p.shape if shape is None else shape)
        bits = random_bits(sizes, device=_where(p) if device is None else device) >> 8
        return bits < (p.astype(p.dtype.compute) * 2.0**24).astype(uint32)
    if not 0 <= p <= 1:
        raise ArgumentError(f"bernoulli requires 0 <= p <= 1, got {p}")
    bits = random_bits(normalize_shape("bernoulli", shape or ()), device=device)
    threshold = round(p * 2**32)
    if threshold > _WORD:
        return bits.equal(bits)
    return bits < threshold


@public
def randint(
    low: int,
    high: int,
    shape: int | Sequence[int] = (),
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return integers uniform in low <= i < high, to within (high - low) * 2**-32.

    A word modulo the range: the same on every device.  Raises ArgumentError for an empty range, one
    of more than 2**32 integers, or one that the dtype does not hold.
    """
    for name, bound in (("low", low), ("high", high)):
        if not isinstance(bound, int | np.integer):
            raise ArgumentTypeError(
                f"randint requires {name} to be an integer, got {bound!r}; the arguments are "
                "randint(low, high, shape)"
            )
    kind, span = (int32 if dtype is None else as_dtype(dtype)), high - low
    if not kind.is_integer:
        raise DTypeError(f"randint requires an integer dtype, got {kind.name}; use uniform")
    if not int(kind.lowest) <= low <= high <= int(kind.highest) + 1:
        raise ArgumentError(
            f"randint requires {kind.lowest} <= low < high <= {int(kind.highest) + 1} for "
            f"{kind.name}, got {low} and {high}"
        )
    if not 0 < span <= 1 << 32:
        raise ArgumentError(f"randint requires 0 < high - low <= 2**32, got {low} and {high}")
    bits = random_bits(normalize_shape("randint", shape), device=device)
    within = bits if span > _WORD else bits % span
    # Integers wrap around, so 32 bits are enough for every 32-bit result.
    wide = kind if kind.itemsize >= 4 else int32
    return within.astype(wide).add(low).astype(kind)


@public
def permutation(n: int, *, device: DeviceLike = None) -> Tensor:
    """Return the integers 0 to n - 1 in random order: int32 (n,), the same on every device.

    The order that sorts n random words; the sort is stable, so equal words keep theirs.
    """
    (size,) = normalize_shape("permutation", n)
    return random_bits((size,), device=device).argsort()


@public
def shuffle(x: Tensor, axis: int = 0) -> Tensor:
    """Return x with its entries along an axis in random order."""
    where = normalize_axis("shuffle", axis, x.ndim)
    return x.take(permutation(x.shape[where], device=x.device), axis=where)


@public
def categorical(logits: Tensor, axis: int = -1) -> Tensor:
    """Return random classes with probabilities softmax(logits): (..., C, ...) -> (...), int32.

    A class of logit -inf is never drawn.
    Source: Gumbel 1954: the maximum of logits + G with G = -log(-log(u)).

    >>> import pyrite
    >>> categorical(pyrite.tensor([[0.0, float("-inf")]])).numpy().tolist()
    [0]
    """
    along = normalize_axis("categorical", axis, logits.ndim)
    return _perturbed(logits).argmax(along)


@public
def multinomial(probabilities: Tensor, num_samples: int, *, replacement: bool = False) -> Tensor:
    """Return random classes, drawn in proportion: (..., C) -> (..., num_samples), int32.

    The probabilities need not add up to 1.  Without replacement a class is drawn once at most, and
    those of probability 0 only when no others are left.  Raises ArgumentError for too many samples,
    and for probabilities that are negative, not finite or all 0: to know, it waits for one bool.
    `categorical`, of logarithms, waits for nothing.
    Source: Gumbel top-k, Kool et al. 2019, arXiv:1903.06059, section 3.
    """
    if probabilities.ndim == 0 or num_samples < 0:
        raise ArgumentError(
            "multinomial requires probabilities (..., C) and num_samples >= 0, got shape "
            f"{probabilities.shape} and {num_samples}"
        )
    *batch, classes = probabilities.shape
    _require_weights(probabilities)
    logits = probabilities.log()
    if replacement:
        return categorical(logits.expand_dims(-2).broadcast_to((*batch, num_samples, classes)))
    if num_samples > classes:
        raise ArgumentError(
            f"multinomial requires num_samples <= {classes} without replacement, got {num_samples}"
        )
    return _perturbed(logits).argsort(-1, descending=True).narrow(-1, 0, num_samples)


def _require_weights(probabilities: Tensor) -> None:
    """Raise ArgumentError unless each row has finite weights >= 0, one of them above 0."""
    weights = probabilities.detach()
    is_weight = (weights >= 0).logical_and(weights.isfinite()).all(-1)
    if not is_weight.logical_and((weights > 0).any(-1)).all().item():
        raise ArgumentError(
            "multinomial requires finite probabilities >= 0, in each row one above 0, got others; "
            "clamp them, or look for NaN where they were made"
        )


# ---- in the shape of another tensor ----


@public
def uniform_like(x: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Return `uniform` values in the shape, dtype and device of x."""
    return uniform(x.shape, low, high, dtype=x.dtype, device=_where(x))


@public
def normal_like(x: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Return `normal` values in the shape, dtype and device of x."""
    return normal(x.shape, mean, std, dtype=x.dtype, device=_where(x))


@public
def bernoulli_like(x: Tensor, p: float) -> Tensor:
    """Return `bernoulli` bools in the shape and device of x."""
    return bernoulli(p, x.shape, device=_where(x))


@public
def randint_like(x: Tensor, low: int, high: int) -> Tensor:
    """Return `randint` integers in the shape, dtype and device of x."""
    return randint(low, high, x.shape, dtype=x.dtype, device=_where(x))


# ---- from words to numbers ----


def _where(x: Tensor) -> Device:
    return Device(x._backend)


def _perturbed(logits: Tensor) -> Tensor:
    """Return logits with Gumbel noise from 0 < u < 1, in which 0 becomes half the least step."""
    kind = logits.dtype.compute if logits.dtype.is_float else default_float
    u = _unit(logits.shape, kind, _where(logits)).clip(2.0**-25)
    return logits.astype(kind) - (-u.log()).log()


def _float(dtype: DTypeLike | None) -> DType:
    kind = as_dtype(default_float if dtype is None else dtype)
    if not kind.is_float:
        raise DTypeError(f"random values require a float dtype, got {kind.name}")
    return kind


def _unit(shape: Shape, kind: DType, where: DeviceLike) -> Tensor:
    """Return a draw of unit values with as many bits as the dtype holds exactly, so never 1."""
    if kind is float64:
        high, low = random_bits((*shape, 2), device=where).unstack(-1)
        whole = high.astype(kind) * 2.0**21 + (low >> 11).astype(kind)
        return whole * 2.0**-53
    bits = random_bits(shape, device=where)
    precision = {float16: 11, bfloat16: 8, float32: 24}[kind]
    return ((bits >> (32 - precision)).astype(float32) * 2.0**-precision).astype(kind)


def _affine(x: Tensor, scale: float, offset: float) -> Tensor:
    scaled = x if scale == 1.0 else x * scale
    return scaled if offset == 0.0 else scaled + offset


def _require_finite(op: str, **numbers: float) -> None:
    for name, number in numbers.items():
        if not math.isfinite(number):
            raise ArgumentError(f"{op} requires a finite {name}, got {number}")
