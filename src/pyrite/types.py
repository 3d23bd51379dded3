"""What a tensor is, before it has values: dtype and shape, broadcasting and promotion.

Promotion follows the array API standard 2024.12 within a kind.  Across kinds: an int tensor with a
float tensor gives the float's dtype, bool gives way to both, Python scalars are weak (they take the
tensor's dtype, or the default of their own kind when that kind is higher), and uint64 with a signed
integer is an error because no integer holds both.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from pyrite.cached import cached
from pyrite.errors import ArgumentError, AxisError, DTypeError, ShapeError

Kind = Literal["bool", "int", "uint", "float"]
Shape = tuple[int, ...]
Number = bool | int | float
Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type.  Compare with ``is`` or ``==``; each exists once per process."""

    name: str
    kind: Kind
    itemsize: int

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the same name (bfloat16 through ml_dtypes)."""
        return _NUMPY[self.name]

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point dtype."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether it is a signed or unsigned integer dtype (bool is not)."""
        return self.kind in ("int", "uint")

    @property
    def is_bool(self) -> bool:
        """Whether it is ``bool``."""
        return self.kind == "bool"

    @property
    def bits(self) -> int:
        """Its width in bits."""
        return 8 * self.itemsize

    @property
    def compute(self) -> DType:
        """The dtype in which its arithmetic is done: float32 for float16 and bfloat16, else itself.

        Results are rounded to the dtype once per op, so every backend agrees on the meaning.
        """
        return float32 if self.itemsize == 2 and self.is_float else self

    @property
    def lowest(self) -> Number:
        """The least value: -inf for floats."""
        if self.is_float:
            return float("-inf")
        return False if self.is_bool else _range_of(self.name)[0]

    @property
    def highest(self) -> Number:
        """The greatest value: inf for floats."""
        if self.is_float:
            return float("inf")
        return True if self.is_bool else _range_of(self.name)[1]

    def __repr__(self) -> str:
        return f"pyrite.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (dtype, (self.name,))


@cache
def _range_of(name: str) -> tuple[int, int]:
    """Return the least and the greatest integer of a dtype."""
    found = np.iinfo(_NUMPY[name])
    return int(found.min), int(found.max)


bool_ = DType("bool", "bool", 1)
int8 = DType("int8", "int", 1)
int16 = DType("int16", "int", 2)
int32 = DType("int32", "int", 4)
int64 = DType("int64", "int", 8)
uint8 = DType("uint8", "uint", 1)
uint16 = DType("uint16", "uint", 2)
uint32 = DType("uint32", "uint", 4)
uint64 = DType("uint64", "uint", 8)
float16 = DType("float16", "float", 2)
bfloat16 = DType("bfloat16", "float", 2)
float32 = DType("float32", "float", 4)
float64 = DType("float64", "float", 8)

DTYPES: tuple[DType, ...] = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float16, bfloat16, float32, float64,
)  # fmt: skip
FLOATS = tuple(d for d in DTYPES if d.is_float)
INTEGERS = tuple(d for d in DTYPES if d.is_integer)

#: What Python ints and floats become, and what int tensors become in float-only functions.
default_int, default_float = int32, float32

_BY_NAME = {d.name: d for d in DTYPES}
_NUMPY: dict[str, np.dtype[Any]] = {
    d.name: np.dtype(ml_dtypes.bfloat16 if d.name == "bfloat16" else d.name) for d in DTYPES
}
_BY_NUMPY = {n: _BY_NAME[name] for name, n in _NUMPY.items()}

DTypeLike = DType | str | type | np.dtype[Any]


def dtype(of: DTypeLike) -> DType:
    """Return the DType meant: a DType, its name, a NumPy dtype, or Python's bool, int, float.

    Python's ``int`` and ``float`` mean the defaults, int32 and float32.
    Raises DTypeError when there is no such dtype.

    >>> dtype("float16"), dtype(float)
    (pyrite.float16, pyrite.float32)
    """
    if isinstance(of, DType):
        return of
    if of is bool:
        return bool_
    if of is int:
        return default_int
    if of is float:
        return default_float
    if of is None:  # To NumPy that is float64.
        raise DTypeError("dtype requires a dtype, got None; leave it out for the default")
    try:
        found = _BY_NAME.get(of) if isinstance(of, str) else _BY_NUMPY.get(np.dtype(of))
    except (TypeError, ValueError):
        found = None
    if found is None:
        names = ", ".join(_BY_NAME)
        raise DTypeError(f"dtype requires one of {names}, got {of!r}")
    return found


class _Keyed:
    """A number beside what a dataclass compares."""

    __slots__ = ("key",)

    key: int


@dataclass(frozen=True, slots=True)
class TensorType(_Keyed):
    """Shape and dtype: all that shape inference knows of a tensor.

    Types of one ``key`` are equal, and mostly equal types have one: what is looked up by types is
    looked up by these, since a number hashes faster.  Under 0, that of a shape which is no key,
    nothing is kept.
    """

    shape: Shape
    dtype: DType

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", _key_of_type(self.shape, self.dtype))

    def __reduce__(self) -> tuple[type[TensorType], tuple[Shape, DType]]:
        # Its key is of this process.
        return TensorType, (self.shape, self.dtype)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return element_count(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes of a dense tensor of this type."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"


_keys: dict[tuple[Shape, DType], int] = {}
_new_keys = itertools.count(1)
#: So many types have keys; then equal ones get others.
_MOST_KEYS: Final = 1 << 16


def _key_of_type(shape: Shape, dtype: DType) -> int:
    try:
        found = _keys.get((shape, dtype))
        if found is None:
            if len(_keys) >= _MOST_KEYS:
                _keys.clear()
            found = _keys.setdefault((shape, dtype), next(_new_keys))
    except TypeError:
        # No shape at all, which whoever looks at it says; or one of symbols.
        return 0
    return found


@lru_cache(maxsize=4096)
def array_type(shape: Shape, dtype: DType) -> TensorType:
    """Return the type of an array of the host, which is mostly one that was made before.

    Its shape has no symbols, so it is looked up without asking, in a quarter of the time.

    >>> array_type((2, 3), float32) is array_type((2, 3), float32)
    True
    """
    return TensorType(shape, dtype)


def element_count(shape: Iterable[int]) -> int:
    """Return the product of the sizes; 1 for a zero-d shape."""
    count = 1
    for size in shape:
        count *= size
    return count


@cached(maxsize=4096)
def broadcast(op: str, *shapes: Shape) -> Shape:
    """Return the shape to which all shapes broadcast, by NumPy's rule.

    Raises ShapeError, in the name of ``op``, when sizes differ and neither is 1.

    >>> broadcast("add", (5, 1), (3,))
    (5, 3)
    """
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    out: list[int] = []
    for sizes in zip(*padded, strict=True):
        wanted: list[int] = []
        for s in sizes:
            if s != 1 and s not in wanted:
                wanted.append(s)
        if len(wanted) > 1:
            got = " and ".join(map(str, shapes))
            axis = len(out) - rank
            raise ShapeError(
                f"{op} requires sizes that are equal or 1 on every axis, got {got}, which differ "
                f"on axis {axis}"
            )
        out.append(wanted[0] if wanted else 1)
    return tuple(out)


_KIND_RANK = {"bool": 0, "uint": 1, "int": 1, "float": 2}


@lru_cache(maxsize=1024)
def promote(op: str, x: DType, y: DType) -> DType:
    """Return the dtype in which x and y meet.  Raises DTypeError for uint64 with a signed integer.

    >>> promote("add", int32, float16), promote("add", uint8, int8)
    (pyrite.float16, pyrite.int16)
    """
    if x is y:
        return x
    low, high = sorted((x, y), key=lambda d: (_KIND_RANK[d.kind], d.itemsize))
    if _KIND_RANK[low.kind] < _KIND_RANK[high.kind] or low.kind == high.kind == "uint":
        return high
    if high.is_float:
        # float16 and bfloat16 have the same width and neither holds the other.
        return float32 if low.itemsize == high.itemsize else high
    if low.kind == high.kind:
        return high
    signed, unsigned = (x, y) if x.kind == "int" else (y, x)
    if unsigned is uint64:
        raise DTypeError(
            f"{op} requires an integer dtype that holds both, got {x.name} and {y.name}; "
            f"cast one: y.astype({signed.name})"
        )
    wider = _BY_NAME[f"int{2 * unsigned.bits}"]
    return signed if signed.itemsize >= wider.itemsize else wider


def promote_scalar(op: str, x: DType, value: Number) -> DType:
    """Return the dtype in which a tensor of dtype x meets a Python number, which is weak.

    Raises DTypeError when an integer dtype cannot hold an integer value.

    >>> promote_scalar("mul", float16, 3), promote_scalar("mul", int8, 0.5)
    (pyrite.float16, pyrite.float32)
    """
    if isinstance(value, bool):
        return x
    if isinstance(value, int):
        found = default_int if x.is_bool else x
        if found.is_integer and not int(found.lowest) <= value <= int(found.highest):
            raise DTypeError(
                f"{op} requires a number between {found.lowest} and {found.highest} beside "
                f"{x.name}, got {value}; cast the tensor to a wider dtype"
            )
        return found
    return x if x.is_float else default_float


def normalize_axis(op: str, axis: int, ndim: int) -> int:
    """Return axis as 0 <= axis < ndim.  Raises AxisError unless -ndim <= axis < ndim."""
    if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
        raise ArgumentError(f"{op} requires an integer axis, got {axis!r}")
    if not -ndim <= axis < ndim:
        raise AxisError(f"{op} requires {-ndim} <= axis < {ndim}, got axis={axis}")
    return int(axis) % ndim


def normalize_axes(op: str, axes: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Return axes as a sorted tuple of distinct axes; None means all.

    Raises AxisError when one is out of range or named twice.
    """
    if axes is None:
        return tuple(range(ndim))
    if isinstance(axes, int | np.integer):
        axes = (axes,)
    elif not isinstance(axes, Sequence | np.ndarray) or isinstance(axes, str):
        raise AxisError(f"{op} requires an axis or a sequence of them, got axis={axes!r}")
    given = tuple(axes)
    found = sorted(normalize_axis(op, a, ndim) for a in given)
    if len(set(found)) != len(found):
        raise AxisError(f"{op} requires distinct axes, got axis={tuple(given)}")
    return tuple(found)


def normalize_shape(op: str, shape: int | Sequence[int]) -> Shape:
    """Return shape as a tuple of ints >= 0.  Raises ShapeError for anything else.

    A bool is no size, as in NumPy and PyTorch: (True,) equals (1,), so that what is kept by shape
    would be found with it.
    """
    try:
        sizes = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        found = tuple(s if isinstance(s, int) else operator.index(s) for s in sizes)
    except TypeError:
        found = None
    if found is None or any(isinstance(s, bool) for s in found):
        raise ShapeError(f"{op} requires a shape of integers, got {shape!r}")
    if any(s < 0 for s in found):
        raise ShapeError(f"{op} requires sizes >= 0, got shape {found}")
    return found
