"""erf, ndtr, erfinv, lgamma, digamma, trigamma.

float32 by fits of its own; float64 by the formulas that the NumPy backend uses.  Near a root an
error is absolute, not relative: 1e-7 in float32, 1e-15 in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pyrite.kernel.builder import KernelBuilder, Value
from pyrite.kernel.polyfill.coefficients import (
    DIGAMMA,
    ERF,
    ERFC_ROOT,
    ERFINV,
    ERFINV_TAIL,
    NORMAL_ROOT,
)
from pyrite.kernel.polyfill.exponential import exp_scaled
from pyrite.kernel.polyfill.floats import (
    copysign,
    isinf,
    isnan,
    nan_where,
    of,
    polynomial,
    sign_of,
    signbit,
    with_sign,
)
from pyrite.kernel.polyfill.logarithm import log, log1p
from pyrite.kernel.polyfill.trigonometry import sin_cos_reduced
from pyrite.types import float32

# ---- erf ----

# Cody 1969, Math. Comp. 23, 631-637: erf(x) / x in x² below 0.5, exp(x²) erfc(x) in x up to 6.
_ERF_SMALL = (
    (3.20937758913846947e03, 3.77485237685302021e02, 1.13864154151050156e02,
     3.16112374387056560e00, 1.85777706184603153e-1),
    (2.84423683343917062e03, 1.28261652607737228e03, 2.44024637934444173e02,
     2.36012909523441209e01, 1.0),
)  # fmt: skip
_ERFC_MIDDLE = (
    (1.23033935479799725e03, 2.05107837782607147e03, 1.71204761263407058e03,
     8.81952221241769090e02, 2.98635138197400131e02, 6.61191906371416295e01,
     8.88314979438837594e00, 5.64188496988670089e-1, 2.15311535474403846e-8),
    (1.23033935480374942e03, 3.43936767414372164e03, 4.36261909014324716e03,
     3.29079923573345963e03, 1.62138957456669019e03, 5.37181101862009858e02,
     1.17693950891312499e02, 1.57449261107098347e01, 1.0),
)  # fmt: skip


def _ratio(k: KernelBuilder, x: Value, table: tuple[tuple[float, ...], tuple[float, ...]]) -> Value:
    return polynomial(k, x, table[0]) / polynomial(k, x, table[1])


def erf(k: KernelBuilder, x: Value) -> Value:
    """Return the error function, within 3 ulp (float64: 4); from 4 (float64: 6) on exactly 1."""
    a = abs(x)
    if x.dtype is float32:
        far = k.min(a, 4.0)
        square = a * a
        small = k.fma(a, polynomial(k, square, of(x, ERF)), a)
        # The error of a small erfc is far below the 1 that it is taken from, so its fourth root
        # serves, a polynomial: no exp, and nothing is divided.
        root = polynomial(k, far, of(x, ERFC_ROOT))
        square_root = root * root
        large = k.fma(-square_root, square_root, 1.0)
        result = k.select(a < 0.9375, small, large)
    else:
        far = k.min(a, 6.0)
        large = 1.0 - exp_scaled(k, -far * far, 0, is_normal=True) * _ratio(k, far, _ERFC_MIDDLE)
        result = k.select(a < 0.5, a * _ratio(k, a * a, _ERF_SMALL), large)
    # Not copysign: under this select lavapipe (Mesa 25, 26; AVX-512) computes other bits of it.
    return k.select(isnan(k, x), x, with_sign(k, result, sign_of(k, x)))


def ndtr(k: KernelBuilder, x: Value) -> Value:
    """Return the share of the normal distribution below x, within 3 ulp of 1.

    That is 2e-7 (float64: 4e-16).  In the tail, down to -3, it is within 3e-6 of itself, where
    1 + erf would have lost all but 4 digits; below -6 (float64: -8.4) it is 0.
    """
    a = abs(x)
    if x.dtype is float32:
        root = polynomial(k, a, of(x, NORMAL_ROOT))
        square = root * root
        beyond = k.select(a < 6.0, square * square, 0.0)
    else:
        z = a * math.sqrt(0.5)
        small = 0.5 - 0.5 * (z * _ratio(k, z * z, _ERF_SMALL))
        far = k.min(z, 6.0)
        large = 0.5 * exp_scaled(k, -far * far, 0, is_normal=True) * _ratio(k, far, _ERFC_MIDDLE)
        beyond = k.select(z < 0.5, small, k.select(z < 6.0, large, 0.0))
    return k.select(isnan(k, x), x, k.select(x < 0.0, beyond, 1.0 - beyond))


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


def erfinv(k: KernelBuilder, x: Value) -> Value:
    """Inverse of erf, within 4 ulp; infinite at -1 and 1, NaN beyond."""
    a = abs(x)
    result = _erfinv_single(k, a) if x.dtype is float32 else _erfinv_double(k, a)
    result = k.select(a == 1.0, math.inf, result)
    return copysign(k, nan_where(k, (a > 1.0) | isnan(k, x), result), x)


def _erfinv_single(k: KernelBuilder, a: Value) -> Value:
    """Return erfinv by polynomials in w = -log(1 - a²).  Source: Giles 2010."""
    w = -log(k, (1.0 - a) * (1.0 + a))
    middle = polynomial(k, w - 3.0, of(a, ERFINV))
    tail = polynomial(k, k.sqrt(k.max(w, 0.0)) - 3.25, of(a, ERFINV_TAIL))
    return a * k.select(w < 6.0, middle, tail)


def _erfinv_double(k: KernelBuilder, a: Value) -> Value:
    q = 0.5 * a
    middle = q * _ratio(k, 0.180625 - q * q, _QUANTILE_MIDDLE)
    # 1 - a is exact where it matters, near 1.
    r = k.sqrt(-log(k, 0.5 * (1.0 - a)))
    tail = k.select(r <= 5.0, _ratio(k, r - 1.6, _QUANTILE_TAIL), _ratio(k, r - 5.0, _QUANTILE_END))
    return k.select(q <= 0.425, middle, tail) * math.sqrt(0.5)


# ---- the gamma family ----


def _zeta_less_one(n: int) -> float:
    """Return 2 ** -n + 3 ** -n + …, by its first terms and Euler and Maclaurin's remainder."""
    end = 200.0
    remainder = end ** (1 - n) / (n - 1) + end**-n / 2 + n * end ** (-n - 1) / 12
    remainder -= n * (n + 1) * (n + 2) * end ** (-n - 3) / 720
    return math.fsum([k**-n for k in range(2, int(end))] + [remainder])


# Abramowitz & Stegun 6.1.33: log Γ(2 + z) = (1 - γ) z + sum of (-1)ⁿ (ζ(n) - 1) zⁿ / n.  For
# |z| <= 1/2 the terms fall like 4 ** -n: float32 needs the first 13, float64 28.
_EULER = 0.57721566490153286061
_LOG_GAMMA_AT_2 = (
    1.0 - _EULER,
    *((-1) ** n * _zeta_less_one(n) / n for n in range(2, 28)),
)
# Abramowitz & Stegun 6.1.41, 6.3.18 and 6.4.12: the asymptotic series in 1 / x².
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_TRIGAMMA_SERIES = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
# From here on the series suffice.
_LARGE_FOR_LGAMMA = 8.0


def _fraction(k: KernelBuilder, x: Value) -> Value:
    """Return x less the nearest whole number."""
    return x - k.rint(x)


def _sin_cos_pi(k: KernelBuilder, fraction: Value) -> tuple[Value, Value]:
    """Return sin and cos of π times a number in [-1/2, 1/2]; the sine is exactly 0 at 0."""
    a = abs(fraction)
    is_small = a <= 0.25
    sine, cosine = sin_cos_reduced(k, k.select(is_small, a, 0.5 - a) * math.pi)
    of_a = k.select(is_small, sine, cosine)
    return copysign(k, of_a, fraction), k.select(is_small, cosine, sine)


def lgamma(k: KernelBuilder, x: Value) -> Value:
    """Logarithm of |Γ(x)|, within 4 ulp above 0; inf at 0, -1, -2 and so on.

    Below 0, where it has roots, the error is that part of 1 + lgamma(1 - x).
    """
    is_below = x < 0.0
    above = _lgamma_above_zero(k, k.select(is_below, 1.0 - x, x))
    fraction = _fraction(k, x)
    sine, _ = _sin_cos_pi(k, fraction)
    # π times a denormal has lost bits that its logarithm shows.
    a = abs(fraction)
    over_pi = k.select(a < 2.0**-30, a, abs(sine) * (1.0 / math.pi))
    mirrored = -log(k, over_pi) - above
    result = k.select(is_below, mirrored, above)
    is_pole = is_below & (fraction == 0.0)
    result = k.select(isinf(k, x) | is_pole, math.inf, result)
    return k.select(isnan(k, x), x, result)


def _lgamma_above_zero(k: KernelBuilder, x: Value) -> Value:
    """Stirling's series from 8 on; below, steps of 1 to 2 + z with |z| <= 1/2."""
    steps = k.max(k.min(k.floor(x - 1.5), 6.0), -2.0)
    z = x - (steps + 2.0)
    product = k.const(1.0, x.type)
    for i in range(1, 7):
        product = product * k.select(steps >= float(i), x - float(i), 1.0)
    is_large = x >= _LARGE_FOR_LGAMMA
    inner = k.select(steps <= -2.0, x, product)
    logarithm = log(k, k.select(is_large, x, inner))
    terms = 13 if x.dtype is float32 else len(_LOG_GAMMA_AT_2)
    near = z * polynomial(k, z, _LOG_GAMMA_AT_2[:terms])
    near = near - k.select(steps <= -1.0, log1p(k, z), 0.0)
    near = near + k.select(steps <= -2.0, -logarithm, k.select(steps >= 1.0, logarithm, 0.0))
    series = polynomial(k, 1.0 / (x * x), _STIRLING) / x
    far = (x - 0.5) * (logarithm - 1.0) + (0.5 * math.log(2.0 * math.pi) - 0.5 + series)
    return k.select(is_large, far, near)


def digamma(k: KernelBuilder, x: Value) -> Value:
    """Derivative of lgamma, within 4 ulp of it or of 1, whichever is greater.

    NaN at -1, -2 and so on; -inf at 0.0 and inf at -0.0.
    """
    is_below = signbit(k, x)
    y = k.select(is_below, 1.0 - x, x)
    above = _digamma_single(k, y) if x.dtype is float32 else _digamma_double(k, y)
    fraction = _fraction(k, x)
    sine, cosine = _sin_cos_pi(k, fraction)
    is_pole = fraction == 0.0
    cotangent = cosine / k.select(is_pole, 1.0, sine)
    result = k.select(is_below, above - math.pi * cotangent, above)
    result = nan_where(k, is_below & is_pole, result)
    pole = copysign(k, k.const(math.inf, x.type), -x)
    return k.select(x == 0.0, pole, k.select(isnan(k, x), x, result))


# The positive root, as two numbers of float32.
_ROOT = (1.4616321325302124, 1.24381499389189e-8)


def _digamma_single(k: KernelBuilder, y: Value) -> Value:
    """A polynomial on [1, 2], recurrence to 4, the series beyond."""
    is_small = y < 1.0
    zero, one = k.const(0.0, y.type), k.const(1.0, y.type)
    steps = k.select(y >= 3.0, 2.0, k.select(y >= 2.0, one, zero))
    t = k.select(is_small, y + 1.0, y - steps)
    root_upper, root_lower = _ROOT
    near = ((t - root_upper) - root_lower) * polynomial(k, t - 1.5, of(y, DIGAMMA))
    first = k.select(is_small, -1.0 / y, k.select(y >= 2.0, 1.0 / (y - 1.0), zero))
    second = k.select(y >= 3.0, 1.0 / (y - 2.0), zero)
    return k.select(y < 4.0, near + (first + second), _digamma_series(k, y))


def _digamma_series(k: KernelBuilder, y: Value) -> Value:
    inverse = 1.0 / y
    square = inverse * inverse
    return log(k, y) - 0.5 * inverse - square * polynomial(k, square, _DIGAMMA_SERIES)


def _digamma_double(k: KernelBuilder, y: Value) -> Value:
    large, total = _shifted(k, y, 10, lambda x: -1.0 / x)
    return _digamma_series(k, large) + total


def trigamma(k: KernelBuilder, x: Value) -> Value:
    """Derivative of digamma, within 4 ulp (float64: 16); inf at 0, -1, -2 and so on."""
    is_below = x < 0.0
    steps = 5 if x.dtype is float32 else 10
    y, total = _shifted(k, k.select(is_below, 1.0 - x, x), steps, _inverse_square)
    inverse = 1.0 / y
    square = inverse * inverse
    above = inverse + square * (0.5 + inverse * polynomial(k, square, _TRIGAMMA_SERIES))
    above = above + total
    sine, _ = _sin_cos_pi(k, _fraction(k, x))
    ratio = math.pi / sine
    result = k.select(is_below, ratio * ratio - above, above)
    return k.select(isnan(k, x), x, result)


def _shifted(
    k: KernelBuilder, x: Value, steps: int, term: Callable[[Value], Value]
) -> tuple[Value, Value]:
    """Return x, or x + steps where it is less than steps; and the sum of the terms passed by."""
    is_small = x < float(steps)
    total = term(x + float(steps - 1))
    # The least terms first, which loses least.
    for i in reversed(range(steps - 1)):
        total = total + term(x + float(i))
    return k.select(is_small, x + float(steps), x), k.select(is_small, total, 0.0)


def _inverse_square(x: Value) -> Value:
    inverse = 1.0 / x
    return inverse * inverse
