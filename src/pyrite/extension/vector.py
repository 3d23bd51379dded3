"""Vectors and small matrices of a kernel: tuples of numbers with the operators of mathematics.

    p, v = position[i], velocity[i]           # rows of tensors whose last axis has 2, 3 or 4
    out[i] = p + v * dt - p.normalized() * 0.5

They are there while the kernel is written: what is recorded is arithmetic of numbers, which a GPU
has as scalars anyway.  So they work in branches, loops and derivatives, and where Python runs the
kernel.  Vectors have two to four items, matrices as many rows of them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, NoReturn, Self, TypeVar, cast

import numpy as np

from pyrite.errors import KernelError
from pyrite.extension.mistake import shown
from pyrite.kernel import Value

F = TypeVar("F", bound=Callable[..., Any])

#: How many items a vector may have.
SIZES = (2, 3, 4)

Binary = Callable[[Any, Any], Any]


class Items(tuple[Any, ...]):
    """What vectors and matrices share: arithmetic item by item, with a number or their like."""

    __slots__ = ()
    #: A number of NumPy leaves its operators to ours.
    __array_ufunc__ = None
    __hash__ = tuple.__hash__

    @classmethod
    def of(cls, items: Iterable[Any]) -> Self:
        """Return one of items."""
        return tuple.__new__(cls, tuple(items))

    def __new__(cls, *items: Any) -> Self:
        return cls.of(items)

    def _with(self, apply: Binary, other: Any) -> Self:
        if not isinstance(other, tuple):
            return self.of(apply(x, other) for x in self)
        if type(other) is not type(self) or len(other) != len(self):
            raise KernelError(
                f"{self._named} requires a number or its like beside it, got {_shown(other)}; "
                "take the items that are meant: v[0], v.xy"
            )
        return self.of(apply(x, y) for x, y in zip(self, other, strict=True))

    def __format__(self, form: str) -> str:
        """Return the items as text, each formatted: ``f"{v:.2f}"``."""
        return f"({', '.join(format(x, form) for x in self)})"

    def __str__(self) -> str:
        return format(self, "")

    def __getitem__(self, at: Any) -> Any:
        try:
            return tuple.__getitem__(self, at)
        except IndexError:
            raise KernelError(
                f"{self._named} requires an index below {len(self)}, got {at}"
            ) from None

    def __setitem__(self, at: Any, value: Any) -> NoReturn:
        self._fixed(f"v[{at}]")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        self._fixed(f"v.{name}")

    def _fixed(self, item: str) -> NoReturn:
        raise KernelError(
            f"{self._named} requires to be made as a whole, got an assignment to {item}; make "
            "another: v = Vector(0.0, v.y), or v + Vector(1.0, 0.0)"
        )

    @property
    def _named(self) -> str:
        return f"a {type(self).__name__.lower()} of {len(self)}"

    def __add__(self, other: Any) -> Self:
        return self._with(operator.add, other)

    def __radd__(self, other: Any) -> Self:
        return self._with(lambda x, y: y + x, other)

    def __sub__(self, other: Any) -> Self:
        return self._with(operator.sub, other)

    def __rsub__(self, other: Any) -> Self:
        return self._with(lambda x, y: y - x, other)

    def __mul__(self, other: Any) -> Self:
        return self._with(operator.mul, other)

    def __rmul__(self, other: Any) -> Self:
        return self._with(lambda x, y: y * x, other)

    def __truediv__(self, other: Any) -> Self:
        return self._with(operator.truediv, other)

    def __rtruediv__(self, other: Any) -> Self:
        return self._with(lambda x, y: y / x, other)

    def __neg__(self) -> Self:
        return self.of(-x for x in self)

    def __pos__(self) -> Self:
        return self

    def _unordered(self, _: Any) -> NoReturn:
        raise KernelError(
            f"{self._named} requires to be compared item by item, got it whole; take one: v[0], "
            "v.length()"
        )

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _unordered

    def map(self, function: Callable[[Any], Any]) -> Self:
        """Return what a function makes of each item."""
        return self.of(map(function, self))


class Vector(Items):
    """Two to four numbers: ``Vector(x, y, z)``; its items are ``v.x``, ``v[0]``, ``v.xy``.

    ``+ - * /`` are item by item.
    """

    __slots__ = ()

    def __new__(cls, *items: Any) -> Self:
        if len(items) not in SIZES or any(isinstance(x, tuple) for x in items):
            got = ", ".join(map(_shown, items)) or "none"
            raise KernelError(f"Vector requires two to four numbers, got {got}")
        return cls.of(items)

    def __getattr__(self, name: str) -> Any:
        """Return items by the letters x, y, z, w, as WGSL has them: one, or a vector of several."""
        at = ["xyzw".find(letter) for letter in name]
        if not 1 <= len(at) <= 4 or not all(0 <= i < len(self) for i in at):
            raise AttributeError(f"a vector of {len(self)} has no attribute {name!r}")
        return self[at[0]] if len(at) == 1 else Vector(*(self[i] for i in at))

    def sum(self) -> Any:
        """Return the sum of the items."""
        total = self[0]
        for x in self[1:]:
            total = total + x
        return total

    def dot(self, other: Vector) -> Any:
        """Return the sum of the products."""
        return (self * other).sum()

    def cross(self, other: Vector) -> Vector:
        """Return the vector product of two of three items."""
        if len(self) != 3 or len(other) != 3:
            raise KernelError(
                f"cross requires two vectors of 3, got {self._named} and {_shown(other)}"
            )
        (a, b, c), (x, y, z) = self, other
        return Vector(b * z - c * y, c * x - a * z, a * y - b * x)

    def length(self) -> Any:
        """Return the root of the sum of the squares."""
        return _root(self.dot(self))

    def distance(self, other: Vector) -> Any:
        """Return the length of the difference."""
        return (self - other).length()

    def normalized(self) -> Vector:
        """Return the vector over its length."""
        found: Vector = self / self.length()
        return found


class Matrix(Items):
    """Two to four rows of as many numbers: ``Matrix((a, b), (c, d))``; ``m @ v`` is the product.

    Its items are ``m[i, j]``, its rows ``m[i]``.
    """

    __slots__ = ()

    def __new__(cls, *rows: Any) -> Self:
        sizes = {len(row) if isinstance(row, tuple) else 0 for row in rows}
        if len(rows) not in SIZES or sizes - {*SIZES} or len(sizes) != 1:
            raise KernelError(
                "Matrix requires two to four rows of two to four numbers, got "
                f"{', '.join(map(_shown, rows)) or 'none'}"
            )
        return cls.of(Vector(*row) for row in rows)

    def __getitem__(self, at: Any) -> Any:
        """Return a row, ``m[i]``, or an item, ``m[i, j]``."""
        if isinstance(at, tuple) and len(at) == 2:
            row, column = at
            return super().__getitem__(row)[column]
        return super().__getitem__(at)

    def __matmul__(self, other: Any) -> Any:
        """Return the product with a vector or a matrix."""
        if isinstance(other, Matrix):
            columns = other.transposed()
            return Matrix(*(Vector(*(row.dot(c) for c in columns)) for row in self))
        if isinstance(other, Vector):
            return Vector(*(row.dot(other) for row in self))
        raise KernelError(f"@ requires a vector or a matrix, got {_shown(other)}")

    def transposed(self) -> Matrix:
        """Return the matrix of the columns."""
        return Matrix(*(Vector(*column) for column in zip(*self, strict=True)))


def _root(x: Any) -> Any:
    return x.builder.sqrt(x) if isinstance(x, Value) else np.sqrt(x)


def _shown(x: Any) -> str:
    return x._named if isinstance(x, Items) else shown(x)


def rows_of(shape: tuple[Any, ...], given: int) -> tuple[int, ...]:
    """Return the sizes of the axes that a vector or a matrix takes where coordinates are left out.

    None where they are too many, or a size is not 2, 3 or 4.
    """
    left = shape[given:]
    return tuple(map(int, left)) if len(left) in (1, 2) and all(n in SIZES for n in left) else ()


def gathered(sizes: tuple[int, ...], item: Callable[[tuple[int, ...]], Any]) -> Vector | Matrix:
    """Return the vector or the matrix of items at coordinates."""
    if len(sizes) == 1:
        return Vector(*(item((i,)) for i in range(sizes[0])))
    rows, columns = sizes
    return Matrix(*(Vector(*(item((i, j)) for j in range(columns))) for i in range(rows)))


def gathered_rows(
    sizes: tuple[int, ...], row: Callable[[tuple[int, ...]], Vector]
) -> Vector | Matrix:
    """Return the vector or the matrix of rows at coordinates."""
    return row(()) if len(sizes) == 1 else Matrix(*(row((i,)) for i in range(sizes[0])))


def spread_rows(
    value: Any, sizes: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Yield coordinates and items of each row of a vector or a matrix, as `spread`."""
    items = [item for _, item in spread(value, sizes)]
    width = sizes[-1]
    for n in range(len(items) // width):
        yield (n,) * (len(sizes) - 1), tuple(items[n * width : (n + 1) * width])


def spread(value: Any, sizes: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield coordinates and items of a vector or a matrix.  Raises KernelError for another one."""
    wanted = Vector if len(sizes) == 1 else Matrix
    is_it = isinstance(value, wanted) and len(value) == sizes[0]
    if not is_it or (len(sizes) == 2 and len(value[0]) != sizes[1]):
        size = " by ".join(map(str, sizes))
        raise KernelError(
            f"a row of {size} requires a {wanted.__name__.lower()} of {size}, got {_shown(value)}"
        )
    for i, item in enumerate(value):
        if len(sizes) == 1:
            yield (i,), item
        else:
            yield from (((i, j), x) for j, x in enumerate(item))


def item_by_item(method: F) -> F:
    """Return a method of a scope that takes vectors too, beside others of their length or numbers.

    Raises KernelError for vectors of several lengths, and for matrices.
    """

    @wraps(method)
    def taken(self: Any, *operands: Any) -> Any:
        vectors = [x for x in operands if isinstance(x, Items)]
        if not vectors:
            return method(self, *operands)
        lengths = {len(x) if isinstance(x, Vector) else 0 for x in vectors}
        if len(lengths) > 1 or 0 in lengths:
            got = " and ".join(
                f"a vector of {len(x)}" if isinstance(x, Vector) else "a matrix" for x in vectors
            )
            raise KernelError(
                f"k.{method.__name__} requires numbers and vectors of one length, got {got}; take "
                "rows or items: m[0], v.xy"
            )
        (length,) = lengths
        return Vector.of(
            method(self, *[x[i] if isinstance(x, Vector) else x for x in operands])
            for i in range(length)
        )

    return cast("F", taken)
