"""Every intrinsic of the algebra, recorded and interpreted, against the NumPy algebra."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite.algebra import Algebra
from pyrite.backend.numpy.algebra import NumPyAlgebra
from pyrite.backend.numpy.backend import _elementwise
from pyrite.errors import KernelError
from pyrite.kernel import KernelBuilder, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.trace import RecordingAlgebra, trace
from pyrite.op import Op
from pyrite.testing import Example, examples
from pyrite.types import (
    DTYPES,
    INTEGERS,
    Array,
    DType,
    TensorType,
    bfloat16,
    bool_,
    dtype,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
)  # fmt: skip

NUMPY = NumPyAlgebra()
COMPUTED = (float32, float64)
NUMBERS = (*INTEGERS, *COMPUTED)

#: Intrinsics of exact meaning, with the dtypes that they take.
EXACT: dict[str, tuple[int, tuple[DType, ...]]] = {
    "minimum": (2, (bool_, *NUMBERS)), "maximum": (2, (bool_, *NUMBERS)),
    "isnan": (1, COMPUTED), "isinf": (1, COMPUTED),
    "exceeds": (2, NUMBERS), "abs": (1, (bool_, *NUMBERS)),
    "sign": (1, NUMBERS), "signbit": (1, COMPUTED), "copysign": (2, COMPUTED),
    "nextafter": (2, COMPUTED),
    "floor": (1, NUMBERS), "ceil": (1, NUMBERS), "trunc": (1, NUMBERS), "rint": (1, NUMBERS),
    "floor_divide": (2, NUMBERS), "remainder": (2, NUMBERS), "truncated_remainder": (2, NUMBERS),
    "sqrt": (1, COMPUTED), "rsqrt": (1, COMPUTED), "shift_left": (2, INTEGERS),
    "shift_right": (2, INTEGERS), "popcount": (1, INTEGERS), "multiply_high": (2, (uint32,)),
}  # fmt: skip
#: Those that round, with float32's and float64's bounds in ulp; and an absolute one near roots.
ROUNDED: dict[str, tuple[int, float, float]] = {
    "exp": (1, 1, 0), "exp2": (1, 1, 0), "expm1": (1, 2, 0), "log": (1, 1, 0), "log2": (1, 2, 0),
    "log10": (1, 2, 0), "log1p": (1, 3, 0), "hypot": (2, 2, 0), "pow": (2, 4, 0),
    "sin": (1, 3, 1e-7), "cos": (1, 3, 1e-7), "tan": (1, 4, 1e-7), "asin": (1, 3, 0),
    "acos": (1, 2, 0), "atan": (1, 2, 0), "atan2": (2, 3, 0), "sinh": (1, 3, 0),
    "cosh": (1, 3, 0), "tanh": (1, 3, 0), "asinh": (1, 4, 0), "acosh": (1, 4, 0),
    "atanh": (1, 4, 0), "erf": (1, 4, 0), "erfinv": (1, 8, 0), "ndtr": (1, 4, 2e-7),
    "lgamma": (1, 16, 1e-6), "digamma": (1, 16, 1e-6), "trigamma": (1, 32, 0),
}  # fmt: skip


def specials(of: DType) -> Array:
    if of.is_bool:
        return np.array([False, True])
    if of.is_integer:
        low, high = int(of.lowest), int(of.highest)
        numbers = [0, 1, 2, 3, 7, low, low + 1, high, high - 1, min(31, high), min(65, high)]
        return np.array(numbers if of.kind == "uint" else [*numbers, -1, -2, -3], of.numpy)
    info = np.finfo(of.numpy)
    positive = [0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0, 1e9, float(info.max),
                float(info.tiny), float(info.smallest_subnormal), np.inf, np.nan]  # fmt: skip
    return np.array([*positive, *(-x for x in positive)], of.numpy)


def samples(name: str, of: DType, arity: int, *, large: bool = True) -> list[Array]:
    """All pairs of special values, and random ones."""
    random = np.random.default_rng(zlib.crc32(f"{name} {of.name}".encode()))
    edges = np.meshgrid(*[specials(of)] * arity)
    count = 500
    found = []
    for edge in edges:
        if of.is_bool:
            drawn = random.integers(0, 2, count).astype(bool)
        elif of.is_integer:
            drawn = random.integers(of.lowest, of.highest, count, of.numpy, endpoint=True)
        else:
            exponents = random.uniform(-30 if large else -6, 30 if large else 6, count)
            drawn = (random.normal(size=count) * 2.0**exponents).astype(of.numpy)
        found.append(np.concatenate([edge.ravel(), drawn]))
    return found


def evaluate(
    rule: Callable[..., Any], inputs: list[Array], out: DType, *, width: int = 1, **attrs: Any
) -> Array:
    """Return the rule at the inputs, traced and interpreted."""
    b = KernelBuilder("traced", workgroup_size=32)
    buffers = [b.buffer(f"x{i}", dtype(x.dtype), "read") for i, x in enumerate(inputs)]
    y = b.buffer("y", out, "write")
    i = b.global_id() * width
    y.store(i, trace(b, rule, [x.load(i, width=width) for x in buffers], out, **attrs))
    size = len(inputs[0])
    padding = -size % (32 * width)
    padded = [np.pad(x, (0, padding), mode="edge") for x in inputs]
    result = np.zeros(size + padding, out.numpy)
    interpret(verify(b.build()), len(result) // (32 * width), *padded, result)
    return result[:size]


def intrinsics() -> list[str]:
    return [n for n, f in vars(Algebra).items() if inspect.isfunction(f) and n[0] != "_"]


def test_every_intrinsic_of_the_algebra_is_recorded_and_tested() -> None:
    tested = {*EXACT, *ROUNDED, "where", "cast", "bitcast", "constant"}

    assert set(intrinsics()) - {"__init__"} == tested
    assert all(callable(getattr(RecordingAlgebra, name)) for name in tested)


@pytest.mark.parametrize(
    ("name", "of"), [(n, d) for n, (_, dtypes) in EXACT.items() for d in dtypes], ids=str
)
def test_an_exact_intrinsic_equals_numpys(name: str, of: DType) -> None:
    inputs = samples(name, of, EXACT[name][0])
    with np.errstate(all="ignore"):
        wanted = np.asarray(getattr(NUMPY, name)(*inputs))

    found = evaluate(lambda k, *x: getattr(k, name)(*x), inputs, dtype(wanted.dtype))

    np.testing.assert_array_equal(found, wanted)
    if wanted.dtype.kind == "f":
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))


@pytest.mark.parametrize("of", COMPUTED, ids=str)
@pytest.mark.parametrize("name", ROUNDED)
def test_a_rounded_intrinsic_is_within_its_bound_of_numpys(name: str, of: DType) -> None:
    arity, ulps, absolute = ROUNDED[name]
    inputs = samples(name, of, arity, large=name not in ("sin", "cos", "tan"))
    if name in ("sin", "cos", "tan"):
        inputs = [x[~(abs(x) > 60000) | np.isinf(x)] for x in inputs]
    if name == "lgamma" and of is float64:  # of denormals NumPy's has lost bits
        inputs = [x[(x == 0) | ~(abs(x) < np.finfo(x.dtype).tiny)] for x in inputs]
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float64) for x in inputs]
        wanted = getattr(NUMPY, name)(*wide).astype(of.numpy)

    found = evaluate(lambda k, *x: getattr(k, name)(*x), inputs, of)

    finite = np.isfinite(wanted) & np.isfinite(found)
    np.testing.assert_array_equal(found[~finite], wanted[~finite])
    # The step at the greatest number goes to infinity: taken from 0 it does not.
    toward_zero = np.nextafter(np.abs(wanted[finite]), of.numpy.type(0))
    ulp = np.abs(np.abs(wanted[finite]).astype(float) - toward_zero)
    ulp = np.maximum(ulp, float(np.finfo(of.numpy).smallest_subnormal))
    # NumPy's own float64 is an ulp off here and there, and denormals underflow twice.
    bound = (ulps + 2) * ulp + (absolute if of is float32 else absolute * 1e-8)
    error = np.abs(found[finite].astype(np.float64) - wanted[finite])
    assert (error <= bound).all(), [x[finite][error > bound][:3] for x in inputs]


@pytest.mark.parametrize(
    ("of", "to"), [(float32, int32), (float32, uint32), (uint64, float64), (int64, uint64)], ids=str
)
def test_a_bitcast_keeps_the_bits_as_numpys(of: DType, to: DType) -> None:
    (x,) = samples("bitcast", of, 1)
    found = evaluate(lambda k, x: k.bitcast(x, to), [x], to)

    np.testing.assert_array_equal(found.view(of.numpy), x)
    np.testing.assert_array_equal(NUMPY.bitcast(x, to).view(of.numpy), x)


@pytest.mark.parametrize("of", [*INTEGERS, *COMPUTED], ids=str)
def test_a_constant_is_the_number_in_its_dtype(of: DType) -> None:
    (x,) = samples("constant", of, 1)
    found = evaluate(lambda k, x: x + k.constant(of.highest, of), [x], of)

    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, x + NUMPY.constant(of.highest, of))


@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_pow_of_integers_wraps_around(of: DType) -> None:
    inputs = samples("pow", of, 2)
    with np.errstate(all="ignore"):
        wanted = NUMPY.pow(*inputs)

    found = evaluate(lambda k, x, y: k.pow(x, y), inputs, of)

    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("to", DTYPES, ids=str)
@pytest.mark.parametrize("of", DTYPES, ids=str)
def test_cast_saturates_and_keeps_low_bits_as_numpys(of: DType, to: DType) -> None:
    (x,) = samples("cast", of.compute, 1)
    with np.errstate(all="ignore"):
        x = x.astype(of.numpy)
        wanted = NUMPY.cast(x.astype(of.compute.numpy), to)

    found = evaluate(lambda k, x: k.cast(x, to), [x], to)

    if to.is_float:  # NaN of bfloat16 is not known to NumPy's comparison
        found, wanted = found.astype(float), wanted.astype(float)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("of", [bool_, uint8, int32, float32], ids=str)
def test_where_chooses_and_takes_numbers(of: DType) -> None:
    (x,) = samples("where", of, 1)

    found = evaluate(lambda k, x: k.where(x == 1, x, 0), [x], of)

    np.testing.assert_array_equal(found, np.where(x == 1, x, 0))


def test_operators_of_integers_wrap_around() -> None:
    x, y = samples("operators", int32, 2)
    with np.errstate(all="ignore"):
        wanted = (-x + 3 * y - x * y) ^ ~(x & y | 5)

    found = evaluate(lambda k, x, y: (-x + 3 * y - x * y) ^ ~(x & y | 5), [x, y], int32)

    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("of", [float16, bfloat16], ids=str)
def test_a_16_bit_rule_is_computed_in_float32_and_rounded_once(of: DType) -> None:
    x = np.linspace(-3, 3, 200).astype(of.numpy)

    found = evaluate(lambda k, x: k.exp(x) * 3 + x, [x], of)

    wide = x.astype(np.float32)
    np.testing.assert_array_equal(found, (np.exp(wide.astype(float)) * 3 + wide).astype(of.numpy))


@pytest.mark.parametrize("name", ["exp", "remainder", "pow", "sin"])
def test_a_rule_of_vectors_gives_what_it_gives_of_scalars(name: str) -> None:
    arity = 2 if name in ("remainder", "pow") else 1
    inputs = samples(name, float32, arity)

    def rule(k: Algebra, *x: Any) -> Any:
        return getattr(k, name)(*x)

    scalars = evaluate(rule, inputs, float32)

    np.testing.assert_array_equal(evaluate(rule, inputs, float32, width=8), scalars)


def test_a_rule_that_gives_a_number_is_a_constant() -> None:
    x = np.zeros(5, np.float32)

    np.testing.assert_array_equal(evaluate(lambda k, x: 2.5, [x], float32), x + 2.5)


def test_a_rule_of_another_dtype_is_refused() -> None:
    b = KernelBuilder("wrong")
    x = b.scalar("x", float32)

    with pytest.raises(KernelError, match="a rule requires a result of int32, got float32"):
        trace(b, lambda k, x: x, [x], int32)


def test_attributes_reach_the_rule() -> None:
    x = np.ones(3, np.float32)

    found = evaluate(lambda k, x, *, by: x * by, [x], float32, by=4.0)

    np.testing.assert_array_equal(found, x * 4)


#: Beside a reference NumPy does not evaluate a rule; tests/backend/test_rules.py does.
RULES = [e for e in examples() if e.op.scalar is not None and e.op.reference is None]


@pytest.mark.parametrize("of", [float32, float16], ids=str)
@pytest.mark.parametrize("example", RULES, ids=str)
def test_every_scalar_rule_of_the_op_table_is_recorded(
    example: Example, of: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Op, list[Any], dict[str, Any], Array]] = []

    def spy(op: Op, arrays: list[Any], attrs: dict[str, Any], out: TensorType) -> Array:
        result = _elementwise(op, arrays, attrs, out)
        calls.append((op, arrays, attrs, result))
        return result

    monkeypatch.setattr("pyrite.backend.numpy.backend._elementwise", spy)
    example.run(of, "numpy")

    for op, arrays, attrs, wanted in calls:
        assert op.scalar is not None
        present = [np.broadcast_to(a, wanted.shape).ravel() for a in arrays if a is not None]
        if not wanted.size:
            continue

        def rule(
            k: Any, *values: Any, op: Op = op, attrs: Any = attrs, arrays: Any = arrays
        ) -> Any:
            given = iter(values)
            assert op.scalar is not None
            return op.scalar(k, *(a if a is None else next(given) for a in arrays), **attrs)

        found = evaluate(rule, present, dtype(wanted.dtype)).reshape(wanted.shape)
        epsilon = 1e-3 if of is float16 else 2e-6
        np.testing.assert_allclose(
            found.astype(float), wanted.astype(float), rtol=epsilon, atol=epsilon
        )
