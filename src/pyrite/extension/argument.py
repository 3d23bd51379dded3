"""A tensor inside a kernel in Python: elements by their coordinates, each tested where need be."""

from __future__ import annotations

from typing import NoReturn

from pyrite.backend.cube.operand import Layout, Operand
from pyrite.errors import KernelError
from pyrite.extension.mistake import not_iterable, require_own, shown
from pyrite.extension.number import WeakValue
from pyrite.extension.scope import KernelScope
from pyrite.kernel import Value
from pyrite.kernel.builder import Operand as Number
from pyrite.kernel.ir import scalar
from pyrite.kernel.symbol import Symbol
from pyrite.types import DType, Shape, element_count

Coordinates = tuple[Number, ...] | Number


class TensorArgument:
    """An input or output of a kernel: ``x[i, j]`` reads, ``out[i, j] = value`` writes.

    Elements of float16 and bfloat16 are float32 in the kernel, and rounded when they are written.
    Inputs may be views of any strides: no copy is made of them.
    """

    def __init__(
        self, scope: KernelScope, name: str, shape: Shape, layout: Layout, *, is_output: bool
    ) -> None:
        self.name = name
        self.shape = shape
        #: Whether a write was recorded, wherever it goes.
        self.is_written = False
        self._is_output = is_output
        self._scope = scope
        self._operand = Operand(scope.plain, name, layout, "write" if is_output else "read")

    @property
    def dtype(self) -> DType:
        """Element type of the tensor."""
        return self._operand.layout.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return element_count(self.shape)

    def __getitem__(self, coordinates: Coordinates) -> Value:
        return self._load(coordinates, is_strict=True)[0]

    def __iter__(self) -> NoReturn:
        raise not_iterable(self.name)

    def get(self, *coordinates: Number, other: Number = 0) -> Value:
        """Return the element at the coordinates, or ``other`` where there is none."""
        value, inside = self._load(coordinates, is_strict=False)
        return value if inside is None else self._scope.select(inside, value, other)

    def prefetch(self, *coordinates: Number) -> None:
        """Ask for an element that will be read soon, or for none: a hint, which GPUs ignore."""
        self._operand.prefetch(self._place(coordinates, is_strict=False)[0])

    def __setitem__(self, coordinates: Coordinates, value: Number) -> None:
        if not self._is_output:
            raise KernelError(f"kernel requires writes to outputs, got one to input {self.name!r}")
        self.is_written = True
        made = self._stored(value)
        place, inside = self._place(coordinates, is_strict=True)
        self._operand.store(place, made, mask=inside)

    def _stored(self, value: Number) -> Value:
        """Return what is to be written, in the tensor's dtype or the one that it is computed in."""
        if not isinstance(value, Value):
            return self._operand.const(value)
        require_own(self._scope, f"{self.name}[...]", (value,))
        if isinstance(value, WeakValue):
            value = self._scope.value(value, scalar(self.dtype.compute))
        if value.dtype not in (self.dtype, self.dtype.compute) or value.width != 1:
            wanted = self.dtype.compute.name
            raise KernelError(
                f"{self.name}[...] requires a value of {wanted}, got {value.type}; cast it: "
                f"k.cast(value, {wanted!r})"
            )
        return value

    def _load(self, coordinates: Coordinates, *, is_strict: bool) -> tuple[Value, Value | None]:
        if self._is_output:
            raise KernelError(
                f"kernel requires reads of inputs, got one of output {self.name!r}; keep the value "
                "in a variable, or in shared memory"
            )
        place, inside = self._place(coordinates, is_strict)
        return self._scope.of(self._operand.load(place, mask=inside).node), inside

    def _place(self, coordinates: Coordinates, is_strict: bool) -> tuple[Value, Value | None]:
        """Return where the element is, and whether it is there, None where that is known."""
        given = coordinates if isinstance(coordinates, tuple) else (coordinates,)
        if len(given) != self.ndim:
            raise KernelError(
                f"{self.name}[...] requires {self.ndim} coordinates of shape {self.shape}, got "
                f"{len(given)}"
            )
        scope, inside = self._scope, None
        at: list[Value | int] = []
        for axis, (coordinate, size) in enumerate(zip(given, self.shape, strict=True)):
            here = self._on_axis(axis, coordinate, size)
            test = scope.inside(here, size)
            at.append(_as_index(scope, here, test))
            if test is not None:
                inside = test if inside is None else inside & test
        if inside is not None and is_strict:
            scope.fail(~inside, f"{self.name}[...]")
        return self._operand.at(at), inside

    def _on_axis(self, axis: int, coordinate: Number, size: int) -> Value:
        require_own(self._scope, f"{self.name}[...]", (coordinate,))
        if isinstance(coordinate, Value):
            if coordinate.dtype.is_integer and coordinate.width == 1:
                return coordinate
            got = str(coordinate.type)
        elif isinstance(coordinate, int | Symbol):
            return self._scope.index(coordinate)
        else:
            got = shown(coordinate)
        raise KernelError(
            f"{self.name}[...] requires integers as coordinates, got {got} on axis {axis}"
        )


def _as_index(scope: KernelScope, x: Value, inside: Value | None) -> Value:
    """Return a coordinate in the index dtype; 0 where it is outside and might not fit.

    It is one of our own: where it is inside, so is what is computed of it.
    """
    index = scope.index_type.dtype
    if x.dtype is not index:
        x = scope.cast(x if inside is None else scope.select(inside, x, 0), index)
    return scope.plain.of(x.node)
