"""Special functions that NumPy lacks, vectorised.

Computed in float64 and rounded to the dtype of the operand.  The stated errors are bounds of what
was found on dense grids against SciPy and mpmath (tests/backend/numpy/test_special.py); they are
relative unless they say of what.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from pyrite.types import Array

#: Elements at a time, so that intermediate results stay in the second-level cache.
BLOCK = 1 << 14


def _in_double(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return the function of float64 as one of every float dtype, without NumPy's warnings."""

    @functools.wraps(function)
    def of_any(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return function(np.asarray(x, dtype=np.float64)).astype(x.dtype)

    return of_any


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """Return the sum of coefficients[i] * x ** i, by Horner's rule."""
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total *= x
        total += coefficient
    return total


def _ratio(numerator: Sequence[float], denominator: Sequence[float], x: Array) -> Array:
    value = _polynomial(numerator, x)
    value /= _polynomial(denominator, x)
    return value


# ---- erf ----

# Cody 1969, Math. Comp. 23, 631-637: erf(x) / x in x² below 0.5, exp(x²) erfc(x) in x up to 6.
ERF_SMALL = (
    (3.20937758913846947e03, 3.77485237685302021e02, 1.13864154151050156e02,
     3.16112374387056560e00, 1.85777706184603153e-1),
    (2.84423683343917062e03, 1.28261652607737228e03, 2.44024637934444173e02,
     2.36012909523441209e01, 1.0),
)  # fmt: skip
ERFC_MIDDLE = (
    (1.23033935479799725e03, 2.05107837782607147e03, 1.71204761263407058e03,
     8.81952221241769090e02, 2.98635138197400131e02, 6.61191906371416295e01,
     8.88314979438837594e00, 5.64188496988670089e-1, 2.15311535474403846e-8),
    (1.23033935480374942e03, 3.43936767414372164e03, 4.36261909014324716e03,
     3.29079923573345963e03, 1.62138957456669019e03, 5.37181101862009858e02,
     1.17693950891312499e02, 1.57449261107098347e01, 1.0),
)  # fmt: skip

# erf(x) / x in x² up to 3.95, beyond which float32 knows only 1: a minimax fit of relative error
# 6.5e-12 by Lawson's iteration, enough for a float32 to be rounded right but once in 15,000 times.
ERF_SINGLE = (
    (1.1283791670882584, 0.19847051627442586, 0.057834707984294444, 0.004876014643586568,
     0.0005077643946561382, 2.1235832073024386e-05, 7.5069973630196e-07, 3.066634909429795e-09),
    (1.0, 0.5092232484229103, 0.12099576121581139, 0.017540364683941212,
     0.0016919583337038318, 0.00010966134384967239, 4.438008593689564e-06, 7.404991522069244e-08),
)  # fmt: skip
ERF_SINGLE_END = 3.95
# The first double whose erf rounds to 1 is 5.9216.
_DOUBLE_END = 6.0


def erf(x: Array) -> Array:
    """Return the error function, within 1e-15 in float64, and nearly always right in float32."""
    return _in_blocks(_erf_double if x.dtype == np.float64 else _erf_single, x)


def _in_blocks(function: Callable[[Array], Array], x: Array) -> Array:
    """Return a function of float64, taken of as many elements at a time as a cache holds."""
    flat = np.ravel(x)
    result = np.empty_like(flat)
    for start in range(0, flat.size, BLOCK):
        block = slice(start, start + BLOCK)
        result[block] = function(flat[block].astype(np.float64))
    return result.reshape(np.shape(x))


def _erf_single(x: Array) -> Array:
    np.clip(x, -ERF_SINGLE_END, ERF_SINGLE_END, out=x)
    return x * _ratio(*ERF_SINGLE, x * x)


def _erf_double(x: Array) -> Array:
    size = np.abs(x)
    result = np.empty_like(x)
    small = size < 0.5
    near = x[small]
    result[small] = near * _ratio(*ERF_SMALL, near * near)
    far = np.minimum(size[~small], _DOUBLE_END)
    complement = np.exp(-far * far) * _ratio(*ERFC_MIDDLE, far)
    result[~small] = np.copysign(1.0 - complement, x[~small])
    return result


# As above, beyond 4: exp(x²) erfc(x) x in 1 / x².
ERFC_FAR = (
    (6.58749161529837803157e-4, 1.60837851487422766278e-2, 1.25781726111229246204e-1,
     3.60344899949804439429e-1, 3.05326634961232344035e-1, 1.63153871373020978498e-2),
    (2.33520497626869185443e-3, 6.05183413124413191178e-2, 5.27905102951428412248e-1,
     1.87295284992346047209e0, 2.56852019228982242072e0, 1.0),
)  # fmt: skip


def ndtr(x: Array) -> Array:
    """Return the share of the normal distribution below x, within 1e-15; far below within 1e-12."""
    return _in_blocks(_ndtr_double, x)


def _ndtr_double(x: Array) -> Array:
    z = np.abs(x) * math.sqrt(0.5)
    beyond = 0.5 * _erfc_of_positive(z)
    return np.where(x < 0, beyond, 1.0 - beyond)


def _erfc_of_positive(x: Array) -> Array:
    result = np.empty_like(x)
    small, far = x < 0.5, x > 4.0
    near = x[small]
    result[small] = 1.0 - near * _ratio(*ERF_SMALL, near * near)
    middle = ~small & ~far
    result[middle] = _ratio(*ERFC_MIDDLE, x[middle])
    # Beyond 28 it is less than any number.
    end = np.minimum(x[far], 28.0)
    inverse = 1.0 / (end * end)
    result[far] = (1.0 / math.sqrt(math.pi) - inverse * _ratio(*ERFC_FAR, inverse)) / end
    scaled = np.minimum(x[~small], 28.0)
    result[~small] *= np.exp(-scaled * scaled)
    return result


# ---- erfinv ----

# Wichura 1988, Applied Statistics 37, 477-484 (AS 241, PPND16): the normal quantile, near the
# middle in 0.180625 - q², in the tails in sqrt(-log(p)) less 1.6 or 5.
_QUANTILE_MIDDLE = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
     1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
     3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
     5.2264952788528545610e3),
)  # fmt: skip
_QUANTILE_TAIL = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
     3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9),
)  # fmt: skip
_QUANTILE_END = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
     2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15),
)  # fmt: skip


@_in_double
def erfinv(x: Array) -> Array:
    """Inverse of the error function, within 2e-15; infinite at -1 and 1, NaN outside."""
    q = 0.5 * x
    middle = q * _ratio(*_QUANTILE_MIDDLE, 0.180625 - q * q)
    # 1 - |x| is exact where it matters, near 1.
    r = np.sqrt(-np.log(0.5 * (1.0 - np.abs(x))))
    tail = np.where(r <= 5.0, _ratio(*_QUANTILE_TAIL, r - 1.6), _ratio(*_QUANTILE_END, r - 5.0))
    tail = np.where(np.abs(x) == 1.0, np.inf, tail)
    quantile = np.where(np.abs(q) <= 0.425, middle, np.copysign(tail, x))
    return quantile * math.sqrt(0.5)


# ---- the gamma family ----


def _zeta_less_one(n: int) -> float:
    """Return 2 ** -n + 3 ** -n + …, by its first terms and Euler and Maclaurin's remainder."""
    end = 200.0
    remainder = end ** (1 - n) / (n - 1) + end**-n / 2 + n * end ** (-n - 1) / 12
    remainder -= n * (n + 1) * (n + 2) * end ** (-n - 3) / 720
    return math.fsum([k**-n for k in range(2, int(end))] + [remainder])


# Abramowitz & Stegun 6.1.33: log Γ(2 + z) = (1 - γ) z + sum of (-1)^n (ζ(n) - 1) zⁿ / n.  For
# |z| <= 1/2 the terms fall like 4^-n.
_LOG_GAMMA_AT_2 = (
    0.0,
    1.0 - 0.57721566490153286061,
    *((-1) ** n * _zeta_less_one(n) / n for n in range(2, 28)),
)
# Abramowitz & Stegun 6.1.41, 6.3.18 and 6.4.12: the asymptotic series in 1 / x².
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_TRIGAMMA_SERIES = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
# From here on their seven terms suffice.
_LARGE_FOR_LGAMMA = 8.0
_STEPS_TO_LARGE = 10


@_in_double
def lgamma(x: Array) -> Array:
    """Logarithm of |Γ(x)|, within 2e-15; inf at 0, -1, -2 and so on.

    Below 0, where it has roots, the error is that part of 1 + lgamma(1 - x).
    """
    above = _lgamma_above_zero(np.where(x < 0, 1.0 - x, x))
    mirrored = math.log(math.pi) - np.log(np.abs(_sin_pi(x))) - above
    result = np.where(x < 0, mirrored, above)
    is_pole = (x < 0) & (x == np.rint(x))
    return np.where(np.isinf(x) | is_pole, np.inf, result)


def _lgamma_above_zero(x: Array) -> Array:
    """Stirling's series from 8 on; below, steps of 1 to 2 + z with |z| <= 1/2."""
    steps = np.clip(np.floor(x - 1.5), -2.0, 6.0)
    z = x - (2.0 + steps)
    product = np.ones_like(x)
    for k in range(1, 7):
        product *= np.where(steps >= k, x - k, 1.0)
    near = _polynomial(_LOG_GAMMA_AT_2, z) + np.log(product)
    near -= np.where(steps <= -1, np.log1p(z), 0.0)
    near -= np.where(steps <= -2, np.log(x), 0.0)
    return np.where(x < _LARGE_FOR_LGAMMA, near, _stirling(x))


def _stirling(x: Array) -> Array:
    half_log_2pi = 0.5 * math.log(2.0 * math.pi)
    series = _polynomial(_STIRLING, 1.0 / (x * x)) / x
    return (x - 0.5) * np.log(x) - x + half_log_2pi + series


def _sin_pi(x: Array) -> Array:
    """Return sin(πx) up to its sign; exactly 0 at whole numbers."""
    return np.sin(math.pi * (x - np.rint(x)))


@_in_double
def digamma(x: Array) -> Array:
    """Derivative of lgamma, within 3e-15 of it or of 1, whichever is greater.

    NaN at -1, -2 and so on; -inf at 0.0 and inf at -0.0.
    """
    below = np.signbit(x)
    y = np.where(below, 1.0 - x, x)
    above = _digamma_above_zero(y)
    fraction = x - np.rint(x)
    mirrored = above - math.pi / np.tan(math.pi * fraction)
    result = np.where(below, mirrored, above)
    result = np.where(below & (fraction == 0), np.nan, result)
    return np.where(x == 0, -np.copysign(np.inf, x), result)


def _digamma_above_zero(x: Array) -> Array:
    steps = np.zeros_like(x)
    for k in range(_STEPS_TO_LARGE):
        steps -= 1.0 / (x + k)
    is_small = x < _STEPS_TO_LARGE
    y = np.where(is_small, x + _STEPS_TO_LARGE, x)
    square = 1.0 / (y * y)
    series = np.log(y) - 0.5 / y - square * _polynomial(_DIGAMMA_SERIES, square)
    return series + np.where(is_small, steps, 0.0)


@_in_double
def trigamma(x: Array) -> Array:
    """Derivative of digamma, within 2e-15; inf at 0, -1, -2 and so on."""
    above = _trigamma_above_zero(np.where(x < 0, 1.0 - x, x))
    mirrored = (math.pi / _sin_pi(x)) ** 2 - above
    return np.where(x < 0, mirrored, above)


def _trigamma_above_zero(x: Array) -> Array:
    steps = np.zeros_like(x)
    for k in range(_STEPS_TO_LARGE):
        steps += 1.0 / (x + k) ** 2
    is_small = x < _STEPS_TO_LARGE
    y = np.where(is_small, x + _STEPS_TO_LARGE, x)
    square = 1.0 / (y * y)
    series = 1.0 / y + 0.5 * square + square / y * _polynomial(_TRIGAMMA_SERIES, square)
    return series + np.where(is_small, steps, 0.0)
