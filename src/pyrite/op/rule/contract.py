"""Contractions: sums of products of two operands, wherever their elements stand.

A contraction is trilinear: a set of **points**, and three maps that say which element of x, of y
and of the result each point touches.  The result adds up x times y over the points of each of its
elements.  What follows from x is then the same points with other roles: the cotangent of x adds up
the result's cotangent times y.  So the gradients of a contraction, to any order, are contractions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from pyrite.cached import cached
from pyrite.op.index import Bound, Form, IndexMap, coordinate, fibers
from pyrite.op.rule.rule import Rule
from pyrite.types import Shape, element_count

#: The roles of the inputs of what computes x, y or the result: of x (role 0), y (1) and it (2).
INPUTS: Final = ((2, 1), (0, 2), (0, 1))

#: The shape of a tensor, and where in it a point is: a form of the point's coordinates each axis.
Side = tuple[Shape, Sequence[Form]]


@dataclass(frozen=True, slots=True)
class Products:
    """What a contraction multiplies: maps from its points to x, to y and to the result."""

    x: IndexMap
    y: IndexMap
    out: IndexMap

    @classmethod
    def of(cls, points: Shape, x: Side, y: Side, out: Side) -> Products:
        """Return the products of all points; one that a place is outside for contributes nothing.

        >>> i, j, k = map(coordinate, range(3))
        >>> print(Products.of((2, 3, 4), ((2, 4), (i, k)), ((4, 3), (k, j)), ((2, 3), (i, j))).y)
        (2, 3, 4) -> (4, 3): i2, i1
        """
        return cls(*(_mapped(points, *side) for side in (x, y, out)))


def _mapped(points: Shape, shape: Shape, places: Sequence[Form]) -> IndexMap:
    bounds = tuple(Bound(place, 0, size) for place, size in zip(places, shape, strict=True))
    return IndexMap(points, shape, tuple(places), bounds).simplified


@dataclass(frozen=True, slots=True)
class Terms:
    """What each element of a result adds up: left times right.

    The maps go from the coordinates of the result, of which there are ``kept``, and those that are
    summed.  The result's axes may be parted here: elements count in row-major order.
    """

    left: IndexMap
    right: IndexMap
    kept: int

    @property
    def shape(self) -> Shape:
        """The sizes of the result's axes."""
        return self.left.shape[: self.kept]

    @property
    def summed(self) -> Shape:
        """The sizes of the axes that are summed."""
        return self.left.shape[self.kept :]

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """What holds for the terms that there are."""
        return tuple(dict.fromkeys((*self.left.bounds, *self.right.bounds)))


@dataclass(frozen=True, slots=True, eq=False)
class Contract(Rule):
    """A sum of products of two operands.

        def matmul(x: Shape, y: Shape) -> Products:
            i, j, k = map(coordinate, range(3))
            return Products.of((x[0], y[1], x[1]), (x, (i, k)), (y, (k, j)), ((x[0], y[1]), (i, j)))

        MATMUL = Contract(matmul)

    ``products(x, y, **attrs)`` gets the shapes of the operands and the attributes of the op.  One
    with a ``bias`` has a third input, a vector along that axis of the result, or None: it is added
    to the sums before they are rounded to the result's dtype.
    """

    name: ClassVar[str] = "contract"

    products: Callable[..., Products]
    #: Which of x, y and the result is computed from the other two, which are the inputs in order.
    role: int = 2
    #: The shape of a transpose's result, from the shapes of its inputs and the attributes.
    missing: Callable[..., Shape] | None = None
    #: The attributes that a transpose alone has.
    extra: tuple[str, ...] = ()
    #: The axis of the result along which a third input is added.
    bias: int | None = None

    def transposed(self, role: int, missing: Callable[..., Shape], *extra: str) -> Contract:
        """Return what gives the cotangent of x (role 0) or of y (role 1).

        Its inputs are (g, y) or (x, g), its attributes those of the op, and ``extra``.
        ``missing(*shapes, **attrs)`` is the shape of its result.
        """
        return replace(self, role=role, missing=missing, extra=extra, bias=None)

    def of(self, shapes: Sequence[Shape], attrs: Mapping[str, Any]) -> Terms:
        """Return what each element of the result adds up, for inputs of such shapes."""
        return terms_of(self.products_of(shapes, attrs), self.role)

    def bias_shape(self, shape: Shape) -> Shape:
        """Return the shape in which the bias has the axes of a result of that shape.

        >>> Contract(lambda x, y: ..., bias=1).bias_shape((2, 3, 4))
        (1, 3, 1)
        """
        return tuple(n if a == self.bias_axis(len(shape)) else 1 for a, n in enumerate(shape))

    def bias_axis(self, ndim: int) -> int:
        """Return along which axis of a result with so many a bias lies."""
        assert self.bias is not None, "a rule without a bias"
        return self.bias % ndim

    def products_of(self, shapes: Sequence[Shape], attrs: Mapping[str, Any]) -> Products:
        """Return what is multiplied for inputs of such shapes, whichever tensor is computed."""
        if self.missing is None:
            return self.products(*shapes, **attrs)
        found = self.missing(*shapes, **attrs)
        operands = (found, shapes[1]) if self.role == 0 else (shapes[0], found)
        own = {name: value for name, value in attrs.items() if name not in self.extra}
        return self.products(*operands, **own)


@cached(4096)
def terms_of(products: Products, role: int) -> Terms:
    """Return what each element of one of the three tensors adds up of the other two.

    >>> i, j, k = map(coordinate, range(3))
    >>> matmul = Products.of((2, 3, 4), ((2, 4), (i, k)), ((4, 3), (k, j)), ((2, 3), (i, j)))
    >>> print(terms_of(matmul, 0).right)
    (2, 4, 3) -> (4, 3): i1, i2
    """
    maps = [products.x, products.y, products.out]
    target = _parted(maps.pop(role))
    # The other two in the order of the inputs.
    left, right = maps[::-1] if role == 0 else maps
    solved = fibers(target)
    points = _sought(target) if solved is None else solved[0]
    return Terms(
        points.compose(left).simplified, points.compose(right).simplified, len(target.source)
    )


def _sought(given: IndexMap) -> IndexMap:
    """Return for each place all elements of a map, of which bounds say which read it.

    It is for maps that nobody solves, as where a coordinate has a part in several places.
    """
    rank = len(given.source)
    shape = (*given.source, *given.shape)
    own = tuple(coordinate(rank + axis) for axis in range(len(given.shape)))
    found = zip(given.places, range(rank), strict=True)
    reads = [Bound(place.at(own) - coordinate(axis), 0, 1) for place, axis in found]
    within = [bound.at(own) for bound in given.bounds]
    return IndexMap(shape, given.shape, own, (*reads, *within)).simplified


def _parted(given: IndexMap) -> IndexMap:
    """Return a map with axes of its source parted, where a place counts several coordinates."""
    source: list[int] = []
    places: list[Form] = []
    for size, place in zip(given.source, given.places, strict=True):
        parts = _counted(place, given.shape, size)
        source += [given.shape[axis] for axis in parts] or [size]
        places += [coordinate(axis) for axis in parts] or [place]
    return IndexMap(given.shape, tuple(source), tuple(places), given.bounds)


def _counted(place: Form, shape: Shape, size: int) -> list[int]:
    """Return the coordinates that a place counts in row-major order; none if it does not."""
    terms = sorted(place.terms, key=lambda term: -term[0])
    axes = [axis for _, axis in terms if isinstance(axis, int)]
    if place.offset or len(axes) < max(len(terms), 2):
        return []
    step = element_count(shape[axis] for axis in axes)
    if step != size:
        return []
    for factor, axis in terms:
        assert isinstance(axis, int)
        step //= shape[axis]
        if factor != step:
            return []
    return axes
