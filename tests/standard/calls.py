"""Calls of every function of the array API standard, drawn by Hypothesis.

``CALLS`` has a strategy for each function; a test asserts that none is left out.  What a family of
functions has in common is one strategy with a list of names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

import pyrite
from pyrite import DType, Tensor

from .judge import Call

Draw = Callable[[st.SearchStrategy[Any]], Any]
Calls = st.SearchStrategy[Call]

xps = make_strategies_namespace(pyrite, api_version="2024.12")

BOOL = st.just(pyrite.bool)
SIGNED = st.sampled_from([pyrite.int8, pyrite.int16, pyrite.int32, pyrite.int64])
UNSIGNED = st.sampled_from([pyrite.uint8, pyrite.uint16, pyrite.uint32, pyrite.uint64])
INTEGERS = SIGNED | UNSIGNED
FLOATS = st.sampled_from([pyrite.float32, pyrite.float64])
NUMBERS = FLOATS | INTEGERS
BITS = INTEGERS | BOOL
ANY = NUMBERS | BOOL

#: Two dtypes that the standard lets meet: of one kind, and not uint64 with a signed integer.
_WIDER = [pyrite.int16, pyrite.int32, pyrite.int64]
PAIRS = {
    "bool": st.tuples(BOOL, BOOL),
    "float": st.tuples(FLOATS, FLOATS),
    "int": st.tuples(SIGNED, SIGNED)
    | st.tuples(UNSIGNED, UNSIGNED)
    | st.tuples(SIGNED, st.sampled_from([pyrite.uint8, pyrite.uint16, pyrite.uint32])),
}
PAIRS["number"] = PAIRS["float"] | PAIRS["int"]
PAIRS["bits"] = PAIRS["int"] | PAIRS["bool"]
PAIRS["any"] = PAIRS["number"] | PAIRS["bool"]

SHAPES = xps.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
FULL_SHAPES = xps.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4)
RANKED = xps.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)

#: So that sums and products stay far from overflow.
TAME = {"min_value": -8, "max_value": 8}


def tensors(dtypes: Any = ANY, shapes: Any = SHAPES, **elements: Any) -> st.SearchStrategy[Tensor]:
    """Tensors, with elements of the whole range of their dtype unless bounds are given."""

    def of(dtype: DType) -> st.SearchStrategy[Tensor]:
        if dtype.is_bool:
            return xps.arrays(dtype, shapes)
        bounds = dict(elements)
        if dtype.kind == "uint" and bounds.get("min_value", 0) < 0:
            bounds["min_value"] = 0
        if dtype.is_float and not bounds:
            bounds = {"allow_subnormal": False}
        return xps.arrays(dtype, shapes, elements=bounds)

    return dtypes.flatmap(of) if not isinstance(dtypes, DType) else of(dtypes)


def tame(dtypes: Any = NUMBERS, shapes: Any = SHAPES) -> st.SearchStrategy[Tensor]:
    """Tensors of small numbers."""
    return tensors(dtypes, shapes, **TAME)


def call(*args: Any, **kwargs: Any) -> Call:
    """A call with these arguments."""
    return Call(args, kwargs)


def optional(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these keywords."""
    return st.fixed_dictionaries({}, optional=strategies)


# ---- elementwise ----


def unary(dtypes: Any, **elements: Any) -> Calls:
    """One tensor."""
    return tensors(dtypes, **elements).map(call)


@st.composite
def binary(draw: Draw, kind: str, **elements: Any) -> Call:
    """Two tensors of two dtypes that broadcast, or a Python number beside one."""
    x_type, y_type = draw(PAIRS[kind])
    x_shape, y_shape = draw(
        xps.mutually_broadcastable_shapes(2, min_dims=0, max_dims=3, min_side=0, max_side=3)
    ).input_shapes
    x = draw(tensors(x_type, st.just(x_shape), **elements))
    y = draw(tensors(y_type, st.just(y_shape), **elements))
    which = draw(st.sampled_from(["both", "both", "left", "right"]))
    if which == "both":
        return call(x, y)
    number = draw(number_for(x_type, **elements))
    return call(x, number) if which == "right" else call(number, x)


def number_for(dtype: DType, **elements: Any) -> st.SearchStrategy[Any]:
    """Python numbers of the kind of a dtype."""
    if dtype.is_bool:
        return st.booleans()
    if dtype.is_float:
        return st.floats(-8, 8, width=32) | st.integers(-3, 3)
    low = max(elements.get("min_value", -8), int(dtype.lowest))
    return st.integers(low, min(8, elements.get("max_value", 8)))


@st.composite
def whole_powers(draw: Draw) -> Call:
    """A base, and an exponent that is not negative where both are integers."""
    x_type, y_type = draw(PAIRS["number"])
    shape = draw(SHAPES)
    low = 0.125 if x_type.is_float else 0
    x = draw(tensors(x_type, st.just(shape), min_value=low, max_value=5))
    bound = (
        {"min_value": -3, "max_value": 3} if y_type.is_float else {"min_value": 0, "max_value": 3}
    )
    return call(x, draw(tensors(y_type, st.just(shape), **bound)))


@st.composite
def shifts(draw: Draw) -> Call:
    """Integers, and places below the width."""
    dtype = draw(INTEGERS)
    shape = draw(SHAPES)
    x = draw(tensors(dtype, st.just(shape)))
    return call(x, draw(tensors(dtype, st.just(shape), min_value=0, max_value=dtype.bits - 1)))


@st.composite
def clips(draw: Draw) -> Call:
    """A tensor, and bounds of its dtype or numbers, the lower one not above the other."""
    x = draw(tame())
    low, high = (1, 3) if x.dtype.kind == "uint" else (-3, 2)
    bounds = draw(optional(min=st.just(low), max=st.just(high)))
    if draw(st.booleans()):
        bounds = {k: pyrite.full((), v, dtype=x.dtype) for k, v in bounds.items()}
    return call(x, **bounds)


@st.composite
def choices(draw: Draw) -> Call:
    """A condition, and what is chosen."""
    shape = draw(SHAPES)
    x_type, y_type = draw(PAIRS["any"])
    return call(*(draw(tensors(d, st.just(shape))) for d in (pyrite.bool, x_type, y_type)))


# ---- reductions ----


@st.composite
def reductions(
    draw: Draw, dtypes: Any, shapes: Any = SHAPES, *, one: bool = False, **others: Any
) -> Call:
    """A tensor, some axes of it, and what a function has beside them."""
    x = draw(tame(dtypes, shapes))
    axis: st.SearchStrategy[Any] = st.none()
    if x.ndim:
        each = st.integers(-x.ndim, x.ndim - 1)
        axis |= each if one else each | xps.valid_tuple_axes(x.ndim)
    return call(x, **draw(optional(axis=axis, keepdims=st.booleans(), **others)))


@st.composite
def spreads(draw: Draw) -> Call:
    """As `reductions`, with a correction below the count."""
    drawn = draw(reductions(FLOATS, FULL_SHAPES))
    x, axis = drawn.args[0], drawn.kwargs.get("axis")
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    count = 1
    for a in axes:
        count *= x.shape[a]
    correction = draw(st.sampled_from([0.0, 1.0, 0.5]))
    kwargs = dict(drawn.kwargs, correction=correction) if count > correction else drawn.kwargs
    return Call(drawn.args, kwargs)


@st.composite
def along(draw: Draw, dtypes: Any, shapes: Any = RANKED, **others: Any) -> Call:
    """A tensor, one axis of it, and what a function has beside it."""
    x = draw(tame(dtypes, shapes))
    return call(x, axis=draw(st.integers(-x.ndim, x.ndim - 1)), **draw(optional(**others)))


@st.composite
def differences(draw: Draw) -> Call:
    """A tensor, and what is put before and behind it."""
    x = draw(tame(NUMBERS, RANKED))
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    end = tame(x.dtype, st.just(x.shape))
    # What no difference with something put before it is, the standard leaves open.
    kwargs = draw(optional(prepend=end, append=end, n=st.integers(1, 3)))
    return call(x, axis=axis, **kwargs)


# ---- shapes ----


@st.composite
def with_shape(draw: Draw) -> Call:
    """A tensor, and a shape to which it broadcasts."""
    shape = draw(SHAPES)
    x = draw(tensors(ANY, st.just(shape)))
    front = draw(xps.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    return call(x, front + tuple(3 if n == 1 and draw(st.booleans()) else n for n in shape))


@st.composite
def reshapes(draw: Draw) -> Call:
    """A tensor, and a shape of as many elements, by position or name."""
    x = draw(tensors(ANY, FULL_SHAPES))
    shape = draw(st.permutations([*x.shape, 1]).map(tuple))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(shape) - 1))
        shape = (*shape[:at], -1, *shape[at + 1 :])
    copy = draw(optional(copy=st.sampled_from([None, True])))
    return call(x, shape=shape, **copy) if draw(st.booleans()) else call(x, shape, **copy)


@st.composite
def with_axes(draw: Draw, name: str) -> Call:
    """A tensor with axes for one of the functions that move them."""
    x = draw(tensors(ANY, RANKED))
    each = st.integers(-x.ndim, x.ndim - 1)
    if name == "permute_dims":
        return call(x, axes=draw(st.permutations(range(x.ndim)).map(tuple)))
    if name == "moveaxis":
        return call(x, draw(each), draw(each))
    if name == "expand_dims":
        return call(x, axis=draw(st.integers(-x.ndim - 1, x.ndim)))
    if name == "unstack":
        return call(x, **draw(optional(axis=each)))
    axes = st.none() | each | xps.valid_tuple_axes(x.ndim, min_size=1)
    return call(x, **draw(optional(axis=axes)))  # flip


@st.composite
def squeezes(draw: Draw) -> Call:
    """A tensor, and axes of size 1."""
    shape = draw(SHAPES)
    at = draw(st.integers(0, len(shape)))
    x = draw(tensors(ANY, st.just((*shape[:at], 1, *shape[at:]))))
    return call(x, draw(st.sampled_from([at, (at,), at - x.ndim])))


@st.composite
def rolls(draw: Draw) -> Call:
    """A tensor, and how far which axes roll."""
    x = draw(tensors(ANY, RANKED))
    shift = st.integers(-5, 5)
    if draw(st.booleans()):
        return call(x, draw(shift), **draw(optional(axis=st.none() | st.integers(0, x.ndim - 1))))
    axes = draw(xps.valid_tuple_axes(x.ndim, min_size=1))
    return call(x, tuple(draw(shift) for _ in axes), axis=axes)


@st.composite
def repeats(draw: Draw) -> Call:
    """A tensor, and how often each of its elements is repeated: a number, or one for each."""
    x = draw(tensors(ANY, RANKED))
    axis = draw(st.none() | st.integers(-x.ndim, x.ndim - 1))
    n = x.size if axis is None else x.shape[axis]
    each = tensors(st.sampled_from([pyrite.int32, pyrite.int64]), st.just((n,)),
                   min_value=0, max_value=3)  # fmt: skip
    return call(x, draw(st.integers(0, 3) | each), **({} if axis is None else {"axis": axis}))


@st.composite
def tiles(draw: Draw) -> Call:
    """A tensor, and how often it stands along each axis."""
    x = draw(tensors(ANY, SHAPES))
    return call(x, draw(st.lists(st.integers(0, 3), max_size=4).map(tuple)))


@st.composite
def joined(draw: Draw, name: str) -> Call:
    """Tensors of one kind for concat or stack."""
    kind = draw(st.sampled_from(["float", "int", "bool"]))
    dtypes = draw(PAIRS[kind])
    shape = draw(RANKED)
    xs = [draw(tensors(d, st.just(shape))) for d in dtypes]
    axis = st.integers(-len(shape), len(shape) - 1)
    if name == "concat":
        axis |= st.none()
    return call(draw(st.sampled_from([list, tuple]))(xs), **draw(optional(axis=axis)))


@st.composite
def together(draw: Draw, name: str) -> Call:
    """Several tensors for broadcast_arrays or meshgrid."""
    if name == "meshgrid":
        dtype = draw(NUMBERS)
        vectors = xps.array_shapes(min_dims=1, max_dims=1, min_side=1, max_side=3)
        xs = draw(st.lists(tensors(dtype, vectors), min_size=1, max_size=3))
        return call(*xs, **draw(optional(indexing=st.sampled_from(["xy", "ij"]))))
    shapes = draw(xps.mutually_broadcastable_shapes(3, max_dims=3, max_side=3)).input_shapes
    return call(*(draw(tensors(ANY, st.just(s))) for s in shapes))


# ---- indices, order, sets ----


@st.composite
def takes(draw: Draw) -> Call:
    """A tensor, and indices of one of its axes."""
    x = draw(tensors(ANY, RANKED))
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    n = x.shape[axis]
    vectors = xps.array_shapes(min_dims=1, max_dims=1, min_side=0, max_side=4)
    kinds = st.sampled_from([pyrite.int32, pyrite.int64])
    indices = draw(tensors(kinds, vectors, min_value=-n, max_value=n - 1))
    return call(x, indices, axis=axis)


@st.composite
def takes_along(draw: Draw) -> Call:
    """A tensor, and an index of one of its axes for each element."""
    x = draw(tensors(ANY, RANKED))
    axis = draw(st.integers(-x.ndim, x.ndim - 1))
    n, places = x.shape[axis], list(x.shape)
    places[axis] = draw(st.integers(0, 3))
    kinds = st.sampled_from([pyrite.int32, pyrite.int64])
    indices = draw(tensors(kinds, st.just(tuple(places)), min_value=-n, max_value=n - 1))
    return call(x, indices, axis=axis)


@st.composite
def searches(draw: Draw) -> Call:
    """Sorted numbers, or numbers and what sorts them, and values to find among them."""
    dtype = draw(NUMBERS)
    vectors = xps.array_shapes(min_dims=1, max_dims=1, min_side=1, max_side=5)
    x = draw(tame(dtype, vectors))
    values = draw(tame(dtype, SHAPES))
    side = draw(optional(side=st.sampled_from(["left", "right"])))
    if draw(st.booleans()):
        return call(x, values, sorter=pyrite.argsort(x), **side)
    return call(pyrite.sort(x), values, **side)


# ---- products ----


@st.composite
def products(draw: Draw, name: str) -> Call:
    """Two tensors whose shapes fit a product."""
    x_type, y_type = draw(PAIRS["number"])
    m, n, p, batch = (draw(st.integers(0, 3)) for _ in range(4))
    shapes: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {
        "matmul": [((m, n), (n, p)), ((n,), (n, p)), ((m, n), (n,)), ((n,), (n,)),
                   ((batch, m, n), (n, p)), ((batch, m, n), (1, n, p))],
        "vecdot": [((n,), (n,)), ((m, n), (n,)), ((m, n), (m, n))],
        "tensordot": [((m, n, p), (n, p))],
    }  # fmt: skip
    x_shape, y_shape = draw(st.sampled_from(shapes[name]))
    x, y = draw(tame(x_type, st.just(x_shape))), draw(tame(y_type, st.just(y_shape)))
    if name == "tensordot":
        axes = st.sampled_from([2, ((1, 2), (0, 1)), ((-2,), (0,))])
        return call(x, y, **draw(optional(axes=axes)))
    return call(x, y)


# ---- creation, dtypes ----

SIZES = st.integers(0, 4) | xps.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
DTYPE = ANY | st.none()


@st.composite
def filled(draw: Draw) -> Call:
    """A shape, a value and its dtype."""
    dtype = draw(ANY)
    value = draw(number_for(dtype))
    given_dtype = (draw(st.booleans()) and {"dtype": dtype}) or {}
    if isinstance(value, bool) != dtype.is_bool or isinstance(value, int) == dtype.is_float:
        given_dtype = {"dtype": dtype}
    if draw(st.booleans()):
        return call(draw(SIZES), value, **given_dtype)
    return call(draw(SIZES), fill_value=value, **given_dtype)


@st.composite
def filled_like(draw: Draw) -> Call:
    """A tensor, and a value."""
    x = draw(tensors())
    value = draw(number_for(x.dtype))
    return call(x, value) if draw(st.booleans()) else call(x, fill_value=value)


@st.composite
def ranges(draw: Draw) -> Call:
    """Bounds and a step of whole numbers, or of halves, which floats hold exactly."""
    scale = draw(st.sampled_from([1, 0.5]))
    bound = st.integers(-8, 8).map(lambda n: n * scale)
    step = draw(st.integers(-3, 3).filter(bool)) * scale
    dtype = {} if scale == 1 else draw(optional(dtype=FLOATS))
    if draw(st.booleans()):
        return call(draw(bound), **dtype)
    return call(draw(bound), stop=draw(bound), step=step, **dtype)


@st.composite
def spaced(draw: Draw) -> Call:
    """Bounds, and how many numbers between them."""
    bound = st.floats(-8, 8, width=32)
    kwargs = draw(optional(dtype=FLOATS | st.none(), endpoint=st.booleans()))
    num = draw(st.integers(0, 7))
    return call(draw(bound), draw(bound), num=num, **kwargs)


@st.composite
def eyes(draw: Draw) -> Call:
    """Sizes of a matrix, and which diagonal."""
    sizes = [draw(st.integers(0, 4)) for _ in range(draw(st.integers(1, 2)))]
    return call(*sizes, **draw(optional(k=st.integers(-4, 4), dtype=DTYPE)))


@st.composite
def nested(draw: Draw) -> Call:
    """What asarray takes: nested lists, a number, a tensor."""
    x = draw(tame(ANY))
    if draw(st.booleans()):
        return call(x, **draw(optional(copy=st.sampled_from([None, True]))))
    return call(x.tolist(), dtype=x.dtype)


@st.composite
def casts(draw: Draw) -> Call:
    """A tensor, and a dtype that holds its values."""
    x = draw(tensors(ANY, SHAPES, min_value=0, max_value=100))
    return call(x, draw(ANY), **draw(optional(copy=st.booleans())))


@st.composite
def meetings(draw: Draw) -> Call:
    """Tensors, dtypes and a number that meet in a dtype."""
    kind = draw(st.sampled_from(["float", "int", "bool"]))
    dtypes = draw(PAIRS[kind])
    found = [d if draw(st.booleans()) else pyrite.zeros((2,), dtype=d) for d in dtypes]
    return call(*found)


KINDS = [
    "bool", "signed integer", "unsigned integer", "integral", "real floating", "numeric",
    "complex floating",
]  # fmt: skip

CALLS: dict[str, Calls] = {
    **dict.fromkeys(
        ("abs", "ceil", "conj", "floor", "isfinite", "isinf", "isnan", "negative", "positive",
         "real", "round", "sign", "square", "trunc"),
        unary(NUMBERS),
    ),
    **dict.fromkeys(
        ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log",
         "log10", "log1p", "log2", "reciprocal", "signbit", "sin", "sinh", "sqrt", "tan", "tanh"),
        unary(FLOATS, min_value=-50, max_value=50),
    ),
    "bitwise_invert": unary(BITS),
    "logical_not": unary(BOOL),
    **dict.fromkeys(("add", "maximum", "minimum", "multiply", "subtract"), binary("number")),
    **dict.fromkeys(("greater", "greater_equal", "less", "less_equal"), binary("number")),
    **dict.fromkeys(("equal", "not_equal"), binary("any")),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), binary("bits")),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), shifts()),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), binary("bool")),
    **dict.fromkeys(("atan2", "copysign", "divide", "hypot", "logaddexp"),
                    binary("float", min_value=-50, max_value=50)),
    "nextafter": binary("float", min_value=-50, max_value=50),
    **dict.fromkeys(("floor_divide", "remainder"), binary("number", min_value=1, max_value=8)),
    "pow": whole_powers(),
    "clip": clips(),
    "where": choices(),
    **dict.fromkeys(("all", "any", "count_nonzero"), reductions(ANY)),
    **dict.fromkeys(("max", "min"), reductions(NUMBERS, FULL_SHAPES)),
    "mean": reductions(FLOATS, FULL_SHAPES),
    **dict.fromkeys(("sum", "prod"), reductions(NUMBERS)),
    **dict.fromkeys(("std", "var"), spreads()),
    **dict.fromkeys(("argmax", "argmin"), reductions(NUMBERS, FULL_SHAPES, one=True)),
    **dict.fromkeys(("cumulative_prod", "cumulative_sum"),
                    along(NUMBERS, include_initial=st.booleans())),
    "diff": differences(),
    **dict.fromkeys(("sort", "argsort"), along(NUMBERS, descending=st.booleans())),
    "searchsorted": searches(),
    "nonzero": tensors(ANY, RANKED).map(call),
    **dict.fromkeys(("unique_all", "unique_counts", "unique_inverse", "unique_values"),
                    tame(ANY).map(call)),
    "take": takes(),
    "take_along_axis": takes_along(),
    "broadcast_to": with_shape(),
    "reshape": reshapes(),
    **{name: with_axes(name)
       for name in ("expand_dims", "flip", "moveaxis", "permute_dims", "unstack")},
    "squeeze": squeezes(),
    "roll": rolls(),
    "repeat": repeats(),
    "tile": tiles(),
    **{name: joined(name) for name in ("concat", "stack")},
    **{name: together(name) for name in ("broadcast_arrays", "meshgrid")},
    "matrix_transpose": tensors(
        ANY, xps.array_shapes(min_dims=2, max_dims=3, min_side=0, max_side=3)
    ).map(call),
    **{name: products(name) for name in ("matmul", "tensordot", "vecdot")},
    **dict.fromkeys(("tril", "triu"), st.builds(
        lambda x, k: call(x, **k),
        tensors(ANY, xps.array_shapes(min_dims=2, max_dims=3, max_side=4)),
        optional(k=st.integers(-4, 4)),
    )),
    **dict.fromkeys(("ones", "zeros", "empty"), st.builds(
        lambda shape, kw: call(shape, **kw), SIZES, optional(dtype=DTYPE)
    )),
    **dict.fromkeys(("ones_like", "zeros_like", "empty_like"), st.builds(
        lambda x, kw: call(x, **kw), tensors(), optional(dtype=DTYPE)
    )),
    "full": filled(),
    "full_like": filled_like(),
    "arange": ranges(),
    "linspace": spaced(),
    "eye": eyes(),
    "asarray": nested(),
    "from_dlpack": tensors(ANY).map(call),
    "astype": casts(),
    "can_cast": PAIRS["any"].map(lambda pair: call(*pair)),
    "result_type": meetings(),
    **dict.fromkeys(("finfo", "iinfo"), st.just(call())),
    "isdtype": st.builds(call, ANY, st.sampled_from(KINDS) | ANY
                         | st.lists(st.sampled_from(KINDS), min_size=1).map(tuple)),
    "imag": st.just(call()),
}  # fmt: skip
