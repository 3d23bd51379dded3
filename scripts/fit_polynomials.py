"""How src/pyrite/kernel/polyfill/coefficients.py was made: `python scripts/fit_polynomials.py`.

Remez's exchange in 60 digits: the polynomial p of a degree that makes the greatest |f - p| * weight
on an interval least.  The weight is chosen so that this is the relative error of the whole
function, of which p is a correction.  Needs mpmath (pip install pyrite[test]).
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp

mp.mp.dps = 60

Function = Callable[[mp.mpf], mp.mpf]


def fit(f: Function, weight: Function, low: float, high: float, degree: int) -> tuple[list, float]:
    """Return the coefficients, constant first, and the greatest weighted error."""
    a, b, n = mp.mpf(low), mp.mpf(high), degree + 2
    points = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * i / (n - 1)) for i in range(n)]
    grid = [(a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * i / (40 * n)) for i in range(40 * n + 1)]
    values = [(x, f(x), weight(x)) for x in grid]
    for _ in range(12):
        rows = [[x**k for k in range(degree + 1)] + [(-1) ** i / weight(x)]
                for i, x in enumerate(points)]  # fmt: skip
        *coefficients, level = mp.lu_solve(mp.matrix(rows), mp.matrix([f(x) for x in points]))
        errors = [(x, (y - mp.polyval(coefficients[::-1], x)) * w) for x, y, w in values]
        points = extrema(errors, n)
        worst = max(abs(e) for _, e in errors)
        if worst < abs(level) * mp.mpf("1.001"):
            break
    return coefficients, float(worst)


def extrema(errors: list, count: int) -> list:
    """Return the places of the greatest errors of alternating sign."""
    found = [errors[0]]
    for x, e in errors[1:]:
        if mp.sign(e) == mp.sign(found[-1][1]):
            if abs(e) > abs(found[-1][1]):
                found[-1] = (x, e)
        else:
            found.append((x, e))
    while len(found) > count:
        found.pop(0 if abs(found[0][1]) < abs(found[-1][1]) else -1)
    assert len(found) == count, "the error does not alternate; lower the degree"
    return [x for x, _ in found]


def series(f: Function, near: Function) -> Function:
    """F, but near 0, where it cancels, its limit form."""
    return lambda x: near(x) if abs(x) < mp.mpf("1e-12") else f(x)


LOG2 = mp.log(2)
ROOT = mp.findroot(mp.digamma, 1.4616)
R = float(LOG2 / 2) * 1.0001
M = float(mp.sqrt(2) - 1) * 1.0001
Q = float(mp.pi / 4) * 1.0001
S = float(((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2) * 1.0001
T = float(mp.tan(mp.pi / 8) ** 2) * 1.0001


def root_of(f: Function) -> Function:
    """F of the square root, for functions of x²; at 0 its limit is taken from beside it."""
    return lambda z: f(mp.sqrt(max(z, mp.mpf("1e-24"))))


def expand(f: Function) -> Function:
    """F, at 0 and beside it by its value at a small distance: all fitted functions are smooth."""
    return lambda x: f(x if abs(x) > mp.mpf("1e-14") else mp.mpf("1e-14"))


# name: function, weight, interval, degrees for float32 and float64
FITS: dict[str, tuple[Function, Function, float, float, int | None, int | None]] = {
    # exp(r) = 1 + r + r² p(r)
    "EXP": (expand(lambda r: (mp.expm1(r) - r) / r**2), lambda r: r**2 / mp.exp(r) + mp.mpf(10)**-3,
            -R, R, 4, 10),
    # log(1 + f) = f - f²/2 + f³ p(f)
    "LOG": (expand(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3),
            expand(lambda f: f**3 / mp.log1p(f) + mp.mpf(10)**-4), 1 / 1.41431 - 1, M, 8, None),
    # log((1 + s) / (1 - s)) = 2 s (1 + z p(z)), z = s²
    "LOG_RATIO": (root_of(lambda s: (mp.atanh(s) / s - 1) / s**2),
                  lambda z: z + mp.mpf(10)**-4, 0, S, None, 7),
    # 3 atanh(s) / s = 3 + z + z² p(z)
    "POW": (root_of(lambda s: (3 * mp.atanh(s) / s - 3 - s**2) / s**4),
            lambda z: z**2 + mp.mpf(10)**-6, 0, S, 3, 7),
    # sin(r) = r + r³ p(r²), cos(r) = 1 - r²/2 + r⁴ p(r²)
    "SIN": (root_of(lambda r: (mp.sin(r) / r - 1) / r**2), lambda z: z, 1e-9, Q * Q, 2, 6),
    "COS": (root_of(lambda r: (mp.cos(r) - 1 + r * r / 2) / r**4), lambda z: z * z, 1e-9, Q * Q,
            2, 6),
    # asin(x) = x + x³ p(x²) up to 1/2, atan(x) = x + x³ p(x²) up to tan(π/8)
    "ASIN": (root_of(lambda x: (mp.asin(x) / x - 1) / x**2), lambda z: z, 1e-9, 0.25, 4, 12),
    "ATAN": (root_of(lambda x: (mp.atan(x) / x - 1) / x**2), lambda z: z, 1e-9, T, 4, 11),
    # sinh(x) = x + x³ p(x²) up to 1
    "SINH": (root_of(lambda x: (mp.sinh(x) / x - 1) / x**2), lambda z: z, 1e-9, 1.0, 2, 7),
    # erf(x) = x + x p(x²) up to 0.9375; beyond, 1 - p(x) ** 4
    "ERF": (root_of(lambda x: mp.erf(x) / x - 1), lambda z: mp.mpf(1), 1e-9, 0.9375**2, 6, None),
    "ERFC_ROOT": (lambda x: mp.root(mp.erfc(x), 4),
                  lambda x: 4 * mp.root(mp.erfc(x), 4) ** 3 + mp.mpf(10) ** -3, 0.93, 4.0, 8, None),
    # the normal distribution below -x, for x >= 0, is p(x) ** 4, up to 6
    "NORMAL_ROOT": (lambda x: mp.root(mp.ncdf(-x), 4),
                    lambda x: 4 * mp.root(mp.ncdf(-x), 4) ** 3 / (mp.ncdf(-x) + mp.mpf(10) ** -3)
                    + mp.mpf(10) ** -3, 0.0, 6.0, 11, None),
    # erfinv(x) = x p(w - 3), w = -log(1 - x²) up to 6; beyond, x p(sqrt(w) - 3.2)
    "ERFINV": (lambda t: (lambda x: mp.erfinv(x) / x)(mp.sqrt(-mp.expm1(-(t + 3)))),
               lambda t: 1 / (lambda x: mp.erfinv(x) / x)(mp.sqrt(-mp.expm1(-(t + 3)))),
               -2.9999999, 3.0, 9, None),
    "ERFINV_TAIL": (lambda t: (lambda x: mp.erfinv(x) / x)(mp.sqrt(-mp.expm1(-((t + 3.25) ** 2)))),
                    lambda t: 1 / (t + 3.25), -0.81, 0.85, 8, None),
    # digamma(x) = (x - root) p(x - 1.5) on [1, 2]
    "DIGAMMA": (lambda t: mp.digamma(t + 1.5) / (t + 1.5 - ROOT) if abs(t + 1.5 - ROOT) > 1e-20
                else mp.psi(1, ROOT), lambda t: mp.mpf(1), -0.5, 0.5, 11, None),
}  # fmt: skip


def main() -> None:
    """Print coefficients.py."""
    print(HEAD)
    for name, (f, weight, low, high, single, double) in FITS.items():
        print(f"{name}: Table = (")
        for degree, digits in ((single, 11), (double, 19)):
            if degree is None:
                print("    (),")
            else:
                coefficients, worst = fit(f, weight, low, high, degree)
                print("    (" + ", ".join(mp.nstr(c, digits) for c in coefficients) + "),")
                print(f"    # within {worst:.1e} on [{low:.4g}, {high:.4g}]")
        print(")")
    for name, bits in (("HALF_PI", (8, 26)), ("LN_2", (12, 33)), ("LOG10_2", (12, 33))):
        value = {"HALF_PI": mp.pi / 2, "LN_2": LOG2, "LOG10_2": mp.log10(2)}[name]
        print(f"{name}: Table = (")
        for width in bits:
            parts = 4 if name == "HALF_PI" else 2
            print("    (" + ", ".join(repr(float(p)) for p in split(value, width, parts)) + "),")
        print(")")
    print("#: The first bits of 2/π behind the point, as a whole number, and how many.")
    digits = f"{int(2 / pi_of(TWO_PER_PI_BITS) * 2**TWO_PER_PI_BITS):x}"
    print(f"TWO_PER_PI_BITS = {TWO_PER_PI_BITS}")
    print("TWO_PER_PI = int(")
    print(*(f'    "{digits[i : i + 75]}"' for i in range(0, len(digits), 75)), sep="\n")
    print("    , 16)")


#: More than the greatest float64 needs; a multiple of 4.
TWO_PER_PI_BITS = 1200


def pi_of(bits: int) -> mp.mpf:
    """Return π with more than so many bits; from here on that is the precision."""
    mp.mp.prec = bits + 100
    return +mp.pi


def split(value: mp.mpf, bits: int, parts: int) -> list:
    """Return numbers of so many bits that add up to the value; the last one is not cut."""
    found = []
    for _ in range(parts - 1):
        scale = mp.mpf(2) ** (bits - 1 - mp.floor(mp.log(abs(value), 2)))
        found.append(mp.floor(value * scale) / scale)
        value -= found[-1]
    return [*found, value]


HEAD = '''\
"""Coefficients of the polyfills, for float32 and float64; made by scripts/fit_polynomials.py.

Each table holds polynomials, constant first, that are nearest to their function (Remez) in the
sense said in that script, where each function stands in a comment; or a number as a sum of parts,
of which all but the last have few bits, so that products with whole numbers are exact.
"""

from __future__ import annotations

Table = tuple[tuple[float, ...], tuple[float, ...]]
'''

if __name__ == "__main__":
    main()
