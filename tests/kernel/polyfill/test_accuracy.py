"""The greatest errors of the polyfills on dense grids, against SciPy and mpmath.

In float32 the reference is SciPy's in float64, on some 40,000 values; in float64 it is mpmath's
with 40 digits, on a few hundred.  The bounds are those that the docstrings state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath
import numpy as np
import pytest
import scipy.special

from pyrite.kernel import KernelBuilder, Value, polyfill
from pyrite.kernel.arithmetic import ALU
from pyrite.kernel.interpret import interpret
from pyrite.kernel.ir import BOOL
from pyrite.kernel.polyfill.floats import isnan
from pyrite.types import Array, DType, bool_, dtype, float32, float64

Function = Callable[..., Value]


@dataclass(frozen=True)
class Case:
    """A function on an interval: its references, and its bounds in ulp for both dtypes.

    An error is allowed within the bound, or up to ``absolute`` (float64: times 2 ** -29).
    """

    low: float
    high: float
    reference: Callable[[Array], Array]
    exact: Callable[[mpmath.mpf], mpmath.mpf]
    single: float
    double: float
    absolute: float = 0.0


def trigamma(x: Array) -> Array:
    result: Array = scipy.special.polygamma(1, x)
    return result


LARGE = 3e38

CASES: dict[str, list[Case]] = {
    "exp": [Case(-103.9, 88.7, np.exp, mpmath.exp, 1, 1)],
    "exp_of_difference": [Case(-87, 1, np.exp, mpmath.exp, 1, 1)],
    "exp2": [Case(-149, 127.9, np.exp2, lambda x: mpmath.mpf(2) ** x, 1.1, 1.1)],
    "expm1": [Case(-20, 88.7, np.expm1, mpmath.expm1, 2, 2)],
    "log": [Case(0, LARGE, np.log, mpmath.log, 1, 1), Case(0.3, 3, np.log, mpmath.log, 1, 1)],
    "log2": [Case(0.3, 3, np.log2, lambda x: mpmath.log(x, 2), 2, 2)],
    "log10": [Case(0.3, 3, np.log10, mpmath.log10, 2, 2)],
    "log1p": [Case(-0.999, 3, np.log1p, mpmath.log1p, 3, 3)],
    "sinh": [Case(-89, 89, np.sinh, mpmath.sinh, 3, 3), Case(-2, 2, np.sinh, mpmath.sinh, 3, 3)],
    "cosh": [Case(-89, 89, np.cosh, mpmath.cosh, 2, 2)],
    "tanh": [Case(-12, 12, np.tanh, mpmath.tanh, 2, 2)],
    "asinh": [Case(-9, 9, np.arcsinh, mpmath.asinh, 4, 4),
              Case(-LARGE, LARGE, np.arcsinh, mpmath.asinh, 4, 4)],
    "acosh": [Case(1, 9, np.arccosh, mpmath.acosh, 4, 4),
              Case(1, LARGE, np.arccosh, mpmath.acosh, 4, 4)],
    "atanh": [Case(-1, 1, np.arctanh, mpmath.atanh, 4, 4)],
    "sin": [Case(-20, 20, np.sin, mpmath.sin, 2, 2, 1e-7),
            Case(-65536, 65536, np.sin, mpmath.sin, 2, 2, 1e-7)],
    "cos": [Case(-20, 20, np.cos, mpmath.cos, 2, 2, 1e-7),
            Case(-65536, 65536, np.cos, mpmath.cos, 2, 2, 1e-7)],
    "tan": [Case(-20, 20, np.tan, mpmath.tan, 4, 4, 1e-7)],
    "asin": [Case(-1, 1, np.arcsin, mpmath.asin, 3, 3)],
    "acos": [Case(-1, 1, np.arccos, mpmath.acos, 2, 2)],
    "atan": [Case(-9, 9, np.arctan, mpmath.atan, 2, 2),
             Case(-LARGE, LARGE, np.arctan, mpmath.atan, 2, 2)],
    "erf": [Case(-5, 5, scipy.special.erf, mpmath.erf, 3, 4)],
    "ndtr": [Case(0, 9, scipy.special.ndtr, mpmath.ncdf, 3, 3),
             Case(-9, 9, scipy.special.ndtr, mpmath.ncdf, 0, 0, 2e-7)],
    "erfinv": [Case(-1, 1, scipy.special.erfinv, mpmath.erfinv, 4, 8)],
    "lgamma": [Case(0, 100, scipy.special.gammaln, mpmath.loggamma, 4, 8, 1e-7)],
    "digamma": [Case(0, 100, scipy.special.digamma, mpmath.digamma, 4, 8, 4e-7)],
    "trigamma": [Case(0, 100, trigamma, lambda x: mpmath.psi(1, x), 4, 16)],
}  # fmt: skip


EACH = [
    pytest.param(name, case, id=f"{name}-{case.low:g}-{case.high:g}")
    for name, cases in CASES.items()
    for case in cases
]


def evaluate(function: Function, *inputs: Array) -> Array:
    """Return a polyfill at the inputs, by the interpreter."""
    b = KernelBuilder("polyfill", workgroup_size=64)
    of = dtype(inputs[0].dtype)
    buffers = [b.buffer(f"x{i}", of, "read") for i in range(len(inputs))]
    y, i = b.buffer("y", of, "write"), b.global_id()
    y[i] = function(b, *(x[i] for x in buffers))
    size = len(inputs[0])
    padded = [np.pad(x, (0, -size % 64), mode="edge") for x in inputs]
    result = np.zeros_like(padded[0])
    interpret(b.build(), len(result) // 64, *padded, result)
    return result[:size]


def grid(case: Case, count: int, of: type) -> Array:
    """Values spread evenly, and evenly in the exponent."""
    even = np.linspace(case.low, case.high, count)
    greatest = max(abs(case.low), abs(case.high))
    sizes = np.geomspace(1e-37, greatest, count // 2)
    values = np.concatenate([even, sizes, -sizes]).astype(of)
    return values[(values >= case.low) & (values <= case.high)]


def ulps(found: Array, wanted: Sequence[object] | Array, of: type, absolute: float) -> float:
    """The greatest error in units of the last place of what is wanted."""
    errors = np.array([abs(float(f - w)) for f, w in zip(found.tolist(), wanted, strict=True)])
    near = np.array([float(w) for w in wanted]).astype(of)
    errors[errors <= absolute] = 0.0
    return float((errors / np.spacing(np.abs(near)).astype(float)).max())


@pytest.mark.parametrize(("name", "case"), EACH)
def test_float32_is_within_its_bound(name: str, case: Case) -> None:
    x = grid(case, 20_000, np.float32)
    with np.errstate(all="ignore"):
        wanted = case.reference(x.astype(np.float64))
        inside = np.isfinite(wanted.astype(np.float32))
        rounded = wanted.astype(np.float32)

    found = evaluate(getattr(polyfill, name), x)

    np.testing.assert_array_equal(found[~inside], rounded[~inside])
    errors = np.abs(found[inside].astype(np.float64) - wanted[inside])
    spacing = np.spacing(np.abs(rounded[inside])).astype(np.float64)
    errors[errors <= case.absolute] = 0.0
    worst = int(np.argmax(errors / spacing))
    assert errors[worst] / spacing[worst] <= case.single, x[inside][worst]


@pytest.mark.parametrize(("name", "case"), EACH)
def test_float64_is_within_its_bound(name: str, case: Case) -> None:
    x = grid(case, 100, np.float64)
    x = x[(x != case.low) & (x != case.high)]
    found = evaluate(getattr(polyfill, name), x)
    with mpmath.workdps(40):
        wanted = [mpmath.re(case.exact(mpmath.mpf(float(v)))) for v in x]

        assert ulps(found, wanted, np.float64, case.absolute * 2.0**-29) <= case.double


def test_pow_is_within_4_ulp() -> None:
    random = np.random.default_rng(0)
    x = np.concatenate([2.0 ** random.uniform(-100, 100, 20_000), random.uniform(0.9, 1.1, 20_000)])
    y = random.uniform(-1, 1, 40_000) * np.minimum(120 / np.maximum(abs(np.log2(x)), 1e-9), 1e4)
    x, y = x.astype(np.float32), y.astype(np.float32)
    wanted = x.astype(np.float64) ** y.astype(np.float64)

    found = evaluate(polyfill.pow, x, y)

    assert ulps(found, wanted, np.float32, 0.0) <= 4


def test_pow_of_float64_is_within_4_ulp() -> None:
    random = np.random.default_rng(0)
    x = np.concatenate([2.0 ** random.uniform(-900, 900, 200), random.uniform(0.9, 1.1, 200)])
    y = random.uniform(-1, 1, 400) * np.minimum(1000 / np.maximum(abs(np.log2(x)), 1e-9), 1e5)
    found = evaluate(polyfill.pow, x, y)
    with mpmath.workdps(40):
        wanted = [
            mpmath.power(mpmath.mpf(a), b) for a, b in zip(x.tolist(), y.tolist(), strict=True)
        ]

        assert ulps(found, wanted, np.float64, 0.0) <= 4


@pytest.mark.parametrize("of", [np.float32, np.float64])
def test_the_remainder_is_exact_for_quotients_of_any_size(of: type) -> None:
    random = np.random.default_rng(0)
    exponents = 120 if of is np.float32 else 1000
    x = (random.normal(size=4000) * 2.0 ** random.uniform(-exponents, exponents, 4000)).astype(of)
    y = (random.normal(size=4000) * 2.0 ** random.uniform(-exponents, exponents, 4000)).astype(of)

    found = evaluate(polyfill.truncated_remainder, x, y)

    np.testing.assert_array_equal(found, np.fmod(x, y))


@pytest.mark.parametrize("of", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_saturating_functions_reach_one(name: str, of: type) -> None:
    x = np.array([4.1, 6.0, 10.0, 20.0, 1e30, np.inf], dtype=of)[0 if of is np.float32 else 1 :]
    if name == "tanh":
        x = x[x >= 10] if of is np.float32 else x[x >= 20]

    np.testing.assert_array_equal(evaluate(getattr(polyfill, name), x), np.ones_like(x))
    np.testing.assert_array_equal(evaluate(getattr(polyfill, name), -x), -np.ones_like(x))


@pytest.mark.parametrize(("of", "bound"), [(np.float32, 3e-6), (np.float64, 3e-14)])
def test_the_tail_of_the_normal_distribution_keeps_its_digits(of: type, bound: float) -> None:
    x = np.linspace(-3, 0, 3000, dtype=of)

    found = evaluate(polyfill.ndtr, x)

    np.testing.assert_allclose(found, scipy.special.ndtr(x.astype(np.float64)), rtol=bound)


# ---- large angles ----

#: By the mantissas of Kahan and of Muller: near multiples of π/2, and what is near to the least
#: large number.
ANGLES = {
    np.float32: [65535.996, 65536.0, 65536.01, 1e5, 16367173.0 * 2.0**72, 3.4e38, 1e10, 71476.0],
    np.float64: [2.0**26 - 2.0**-26, 2.0**26, 1e15, 1e22, 6381956970095103.0 * 2.0**797, 1.7e308],
}  # fmt: skip
TRIGONOMETRY = {"sin": (mpmath.sin, 2.0), "cos": (mpmath.cos, 2.0), "tan": (mpmath.tan, 4.0)}


def angles(of: type, count: int) -> Array:
    """Return large numbers of all sizes, and small ones between them."""
    random = np.random.default_rng(0)
    greatest = 38.5 if of is np.float32 else 308.2
    large = 10 ** random.uniform(4.8, greatest, count)
    small = random.uniform(-1e4, 1e4, count // 8)
    values = np.concatenate([large[::2], -large[1::2], small, ANGLES[of]])
    return random.permutation(values).astype(of)


def errors_of(name: str, x: Array, found: Array) -> Array:
    """Return the errors of a function of angles in units of the last place, 0 up to 1e-7.

    In float64 up to 2e-16.
    """
    exact, _ = TRIGONOMETRY[name]
    with mpmath.workprec(1400):
        wanted = [exact(mpmath.mpf(v)) for v in x.tolist()]
        errors = np.array([float(abs(f - w)) for f, w in zip(found.tolist(), wanted, strict=True)])
    errors[errors <= (2e-16 if x.dtype == np.float64 else 1e-7)] = 0.0
    near = np.array([float(w) for w in wanted]).astype(x.dtype)
    units: Array = errors / np.spacing(np.abs(near)).astype(np.float64)
    return units


@pytest.mark.parametrize("of", [np.float32, np.float64])
@pytest.mark.parametrize("name", TRIGONOMETRY)
def test_angles_of_any_size_are_reduced_exactly(name: str, of: type) -> None:
    x = angles(of, 1500)

    errors = errors_of(name, x, evaluate(getattr(polyfill, name), x))

    assert errors.max() <= TRIGONOMETRY[name][1], x[errors.argmax()]


@pytest.mark.parametrize("name", TRIGONOMETRY)
def test_an_infinite_angle_gives_nan_beside_others(name: str) -> None:
    x = np.array([math.inf, 1e30, -math.inf, math.nan, 0.5], np.float32)

    found = evaluate(getattr(polyfill, name), x)

    np.testing.assert_array_equal(np.isnan(found), [True, False, True, True, False])


# ---- denormals ----


@dataclass(frozen=True)
class Denormals:
    """A range where results, or what is on the way to them, might be denormals."""

    low: float
    high: float
    #: Whether the results are denormals.
    are_results: bool = False


#: By dtype, float32 and float64.
UNNORMAL = {
    "exp": ((Denormals(-103.9, -87.4, True), Denormals(-1e4, -104), Denormals(-1e-25, 1e-25)),
            (Denormals(-745, -708.5, True), Denormals(-1e4, -746), Denormals(-1e-200, 1e-200))),
    "exp2": ((Denormals(-149, -126, True), Denormals(-1e4, -152), Denormals(-1e-25, 1e-25)),
             (Denormals(-1074, -1022, True), Denormals(-1e5, -1077), Denormals(-1e-200, 1e-200))),
    "log1p": ((Denormals(-1e-25, 1e-25), Denormals(-1e-19, 1e-19)),
              (Denormals(-1e-200, 1e-200), Denormals(-1e-150, 1e-150))),
    "cosh": ((Denormals(85, 88), Denormals(88, 1e4)), (Denormals(700, 709), Denormals(710, 1e4))),
    "sinh": ((Denormals(85, 88), Denormals(88, 1e4)), (Denormals(700, 709), Denormals(710, 1e4))),
}  # fmt: skip


@pytest.mark.parametrize("of", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNNORMAL)
def test_nothing_is_computed_with_denormals(
    name: str, of: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A processor takes up to a hundred cycles for one; only what is returned may be one."""
    tiny, met = np.finfo(of).tiny, 0

    def watched(opcode: str) -> Callable[..., Array]:
        operation = ALU[opcode]

        def run(*operands: Array) -> Array:
            nonlocal met
            result = operation(*operands)
            if result.dtype == of:
                met += sum(int(((x != 0) & (np.abs(x) < tiny)).sum()) for x in (result, *operands))
            if result.dtype == of and opcode == "mul":
                met += int(((result == 0) & (operands[0] != 0) & (operands[1] != 0)).sum())
            return result

        return run

    for opcode in ("add", "sub", "mul", "div", "fma"):
        monkeypatch.setitem(ALU, opcode, watched(opcode))
    for case in UNNORMAL[name][of is np.float64]:
        x = np.linspace(case.low, case.high, 777, dtype=of)
        x = x[np.abs(x) >= tiny]

        found = evaluate(getattr(polyfill, name), x)

        assert met == 0, case
        if case.are_results:
            assert (found[1:-1] < tiny).all()


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
def test_what_is_nan_is_told_by_bits(dtype: DType) -> None:
    """A driver of a GPU takes x != x for false, where x was computed: in float64 too."""
    b = KernelBuilder("isnan")
    x, out = b.buffer("x", dtype, "read"), b.buffer("out", bool_, "write")
    out[0] = isnan(b, -x[0])

    compared = [n for n in b.build().walk() if n.kind == "alu" and n.type is BOOL]
    assert compared
    assert all(i.value_type.dtype.is_integer for n in compared for i in n.inputs)
