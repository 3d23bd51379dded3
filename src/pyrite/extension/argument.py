"""A tensor inside a kernel in Python: elements by their coordinates, each tested where need be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

from pyrite.backend.cube.operand import Layout, Operand
from pyrite.errors import KernelError
from pyrite.extension.mistake import holds_nothing, no_attribute, not_iterable, require_own, shown
from pyrite.extension.number import WeakValue
from pyrite.extension.scope import KernelScope
from pyrite.extension.vector import (
    Vector,
    gathered,
    gathered_rows,
    rows_of,
    spread,
    spread_rows,
)
from pyrite.kernel import Memory, Value
from pyrite.kernel.builder import Operand as Number
from pyrite.kernel.ir import ATOMICS, FLOAT_ATOMICS, Access, scalar
from pyrite.symbol import Symbol
from pyrite.types import (
    DType,
    Shape,
    bool_,
    element_count,
    float32,
    float64,
    int32,
    int64,
    uint32,
    uint64,
)

#: Floats that are changed by atomics, and the integers of their size.
WORDS = {float32: uint32, float64: uint64}
#: What has atomics; of 64 bits where the device has them, as cpu.
ATOMIC = (int32, uint32, float32, int64, uint64, float64)
#: What floats do by exchanges.
_OF_FLOATS = {"add": "add", "min": "min", "max": "max"}

Coordinates = tuple[Number, ...] | Number


#: What stands for an element outside, by name.
BORDERS = ("wrap", "clamp", "mirror")


class AtomicWanted(Exception):
    """An output is changed by atomics, which its memory has to be declared for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class WordsWanted(AtomicWanted):
    """An output of floats is changed by atomics that only integers have."""


class TensorArgument:
    """An input or output of a kernel: ``x[i, j]`` reads, ``out[i, j] = value`` writes.

    Elements of float16 and bfloat16 are float32 in the kernel, and rounded when they are written.
    An output can be read if it holds something before: see `pyrite.extension.kernel`.
    Inputs may be views of any strides: no copy is made of them.
    """

    def __init__(
        self, scope: KernelScope, name: str, shape: Shape, layout: Layout, *, access: Access,
        in_words: bool = True,
    ) -> None:  # fmt: skip
        self.name = name
        self.shape = shape
        self.dtype: DType = layout.dtype
        #: Whether a write was recorded, wherever it goes.
        self.is_written = False
        self._access = access
        self._scope = scope
        #: The integers as which floats are changed by atomics, unless the device adds floats.
        self._word = WORDS.get(layout.dtype) if access == "atomic" and in_words else None
        layout = replace(layout, dtype=self._word) if self._word else layout
        self._operand = Operand(scope.plain, name, layout, access)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return element_count(self.shape)

    def __getitem__(self, coordinates: Coordinates) -> Any:
        if row := self._row(coordinates):
            given, sizes = row
            if self._lies_in_vectors(sizes[-1]):
                return gathered_rows(sizes, lambda at: self._loaded_row((*given, *at), sizes[-1]))
            return gathered(sizes, lambda at: self[(*given, *at)])
        return self._load(coordinates, is_strict=True)[0]

    def _row(self, coordinates: Coordinates) -> tuple[tuple[Number, ...], tuple[int, ...]] | None:
        """Return the coordinates of a vector or a matrix and its sizes; None for those of one."""
        given = coordinates if isinstance(coordinates, tuple) else (coordinates,)
        if len(given) >= self.ndim:
            return None
        sizes = rows_of(self.shape, len(given))
        return (given, sizes) if sizes else None

    # ---- rows that lie as a vector of the device does: see `KernelScope.has_vectors` ----

    def _lies_in_vectors(self, size: int) -> bool:
        """Whether every row of so many numbers on the last axis is one vector of its memory."""
        if not self._scope.has_vectors or self._access == "atomic" or self.dtype.itemsize != 4:
            return False
        return size in (2, 4) and self._operand.layout.alignment == size

    def _loaded_row(self, coordinates: tuple[Number, ...], size: int) -> Vector:
        self._require_readable()
        place, inside = self._row_place(coordinates)
        found = self._operand.memory.load(place, width=size, mask=inside, is_aligned=True)
        row = self._scope.of(found.node)
        return Vector(*(self._scope.extract(row, n) for n in range(size)))

    def _store_row(self, coordinates: tuple[Number, ...], items: Sequence[Number]) -> None:
        plain = self._scope.plain
        made = plain.make([plain.of(self.stored(item).node) for item in items])
        place, inside = self._row_place(coordinates)
        self._operand.memory.store(place, made, mask=inside, is_aligned=True)

    def _row_place(self, coordinates: tuple[Number, ...]) -> tuple[Value, Value | None]:
        """Return where the first element of a row is, and whether the row is there."""
        at, inside = self._found(coordinates, is_strict=True, shape=self.shape[:-1])
        return self._operand.at([*at, 0]), inside

    def __getattr__(self, name: str) -> NoReturn:
        raise no_attribute(self.name, name)

    def __iter__(self) -> NoReturn:
        raise not_iterable(self.name)

    def get(self, *coordinates: Number, other: Number = 0, border: str | Number = 0) -> Value:
        """Return the element at the coordinates, or what stands for one where there is none.

        That is ``other`` or the number ``border``; or by name an element of the tensor, which is
        taken to go on: "wrap" repeats it, "clamp" its last elements, "mirror" turns it round, so
        that the last element stands beside itself, as WebGPU's "mirror-repeat".
        """
        if isinstance(border, str):
            coordinates = tuple(
                self._within(self._on_axis(axis, c, size), size, border)
                for axis, (c, size) in enumerate(zip(coordinates, self.shape, strict=False))
            )
        elif isinstance(border, Value) or border != 0:
            other = border
        value, inside = self._load(coordinates, is_strict=False)
        return value if inside is None else self._scope.select(inside, value, other)

    def _within(self, coordinate: Value, size: int, border: str) -> Value:
        """Return the coordinate of the element that stands for one outside."""
        if border not in BORDERS:
            raise KernelError(
                f"{self.name}.get requires border to be a number or one of {', '.join(BORDERS)}, "
                f"got {border!r}"
            )
        scope = self._scope
        at = scope.cast(coordinate, scope.index_type.dtype)
        if border == "clamp":
            found = scope.max(scope.min(at, size - 1), 0)
        elif border == "wrap":
            found = scope.remainder(at, size)
        else:
            turned = scope.remainder(at, 2 * size)
            found = scope.min(turned, 2 * size - 1 - turned)
        return scope.known_inside(found, size)

    def prefetch(self, *coordinates: Number) -> None:
        """Ask for an element that will be read soon, or for none: a hint, which GPUs ignore."""
        self._operand.prefetch(self._place(coordinates, is_strict=False)[0])

    def __setitem__(self, coordinates: Coordinates, value: Any) -> None:
        self._require_output()
        if row := self._row(coordinates):
            given, sizes = row
            if self._access != "atomic" and self._lies_in_vectors(sizes[-1]):
                for at, items in spread_rows(value, sizes):
                    self._store_row((*given, *at), items)
                return
            for at, item in spread(value, sizes):
                self[(*given, *at)] = item
            return
        made = self.stored(value)
        place, inside = self._place(coordinates, is_strict=True)
        if self._access == "atomic":
            self._operand.memory.atomic("store", place, self._as_word(made), mask=inside)
        else:
            self._operand.store(place, made, mask=inside)

    def atomic(
        self, name: str, coordinates: Coordinates, value: Number = 0, *, expected: Number = 0
    ) -> Value:
        """Change one element at once, by an operation of `ATOMICS`; return what it was.

        Of int32, uint32 and float32, and on cpu of those of 64 bits.  The order in which
        invocations come is not specified, and so the sum of floats is not to the last bit.  Sums
        and extremes of floats are made by exchanges, which take a try for each that comes between.
        """
        holds_something = self._access != "write" or self.is_written or name == "store"
        self._require_output()
        self._require_atomic(name)
        if not holds_something:
            raise KernelError(holds_nothing(name, self.name))
        made, wanted = self.stored(value), self.stored(expected)
        if self._access != "atomic":
            raise AtomicWanted(self.name)
        place, inside = self._place(coordinates, is_strict=True)
        memory, words = self._operand.memory, (self._as_word(made), self._as_word(wanted))
        if not self._word and self.dtype.is_float and name not in FLOAT_ATOMICS:
            raise WordsWanted(self.name)
        if self._word and name in _OF_FLOATS:
            return self._exchanged(_OF_FLOATS[name], made, place, inside)
        if name == "exchange_equal":
            found = memory.atomic(name, place, words[0], expected=words[1], mask=inside)
        else:
            found = memory.atomic(name, place, words[0], mask=inside)
        return self._of_word(found)

    def _exchanged(self, name: str, value: Value, place: Value, inside: Value | None) -> Value:
        """Return what an element was before it is combined with a value: tried until it stays."""
        scope, memory = self._scope, self._operand.memory
        first = scope.of(memory.atomic("load", place, mask=inside).node)
        with scope.while_([first, scope.const(True, bool_)]) as loop:
            loop.condition(loop.carried[1])
            old = loop.carried[0]
            new = self._as_word(scope.alu(name, scope.bitcast(old, self.dtype), value))
            word = scope.plain.of(old.node)
            found = memory.atomic("exchange_equal", place, new, expected=word, mask=inside)
            loop.yield_(scope.of(found.node), scope.of(found.node) != old)
        return scope.bitcast(loop.results[0], self.dtype)

    def _as_word(self, value: Value) -> Value:
        found = self._scope.bitcast(value, self._word) if self._word else value
        return self._scope.plain.of(found.node)

    def _of_word(self, word: Value) -> Value:
        value = self._scope.of(word.node)
        return self._scope.bitcast(value, self.dtype) if self._word else value

    def _require_output(self) -> None:
        if self._access == "read":
            raise KernelError(f"kernel requires writes to outputs, got one to input {self.name!r}")
        self.is_written = True

    def _require_atomic(self, name: str) -> None:
        if self.dtype not in ATOMIC:
            raise KernelError(
                f"atomic requires an output of int32, uint32 or float32, got {self.name} of "
                f"{self.dtype.name}; give it another dtype in infer, and cast what is added"
            )
        bits = self.dtype.is_float and name in ("and", "or", "xor")
        if name not in ATOMICS or bits:
            raise KernelError(
                f"atomic requires one of {', '.join(ATOMICS)}, got {shown(name)}"
                f"{f' of {self.dtype.name}' * bits}"
            )

    def stored(self, value: Number) -> Value:
        """Return what is to be written, in the tensor's dtype or the one that it is computed in."""
        if not isinstance(value, Value):
            return self._scope.const(value, scalar(self.dtype.compute))
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
        self._require_readable()
        at, inside = self._found(coordinates, is_strict)
        place = self._operand.at(at)
        if self._access == "atomic":
            return self._of_word(self._operand.memory.atomic("load", place, mask=inside)), inside
        value = self._scope.of(self._operand.load(place, mask=inside).node)
        self._scope.note_read(value, self.name, at, inside)
        return value, inside

    def _require_readable(self) -> None:
        if self._access == "write":
            raise KernelError(
                f"kernel requires reads of inputs, got one of output {self.name!r}; keep the value "
                "in a variable, or in shared memory, or say what it holds before: "
                f"kernel(fill={{{self.name!r}: 0}})"
            )

    def _place(self, coordinates: Coordinates, is_strict: bool) -> tuple[Value, Value | None]:
        """Return where the element is, and whether it is there, None where that is known."""
        at, inside = self._found(coordinates, is_strict)
        return self._operand.at(at), inside

    def _found(
        self, coordinates: Coordinates, is_strict: bool, shape: Shape | None = None
    ) -> tuple[list[Value], Value | None]:
        """Return the coordinates as indices, and whether they are inside, None where they are.

        ``shape`` is that of the axes which they are of, if not all.
        """
        given = coordinates if isinstance(coordinates, tuple) else (coordinates,)
        shape = self.shape if shape is None else shape
        if len(given) != len(shape):
            raise KernelError(
                f"{self.name}[...] requires {self.ndim} coordinates of shape {self.shape}, got "
                f"{len(given)}"
            )
        scope, inside = self._scope, None
        at: list[Value] = []
        for axis, (coordinate, size) in enumerate(zip(given, shape, strict=True)):
            here = self._on_axis(axis, coordinate, size)
            test = scope.inside(here, size)
            at.append(_as_index(scope, here, test))
            if test is not None:
                inside = test if inside is None else inside & test
        if inside is not None and is_strict:
            scope.fail(~inside, f"{self.name}[...]")
        return at, inside

    # ---- what a derivative asks for: see `pyrite.extension.derivative` ----

    @property
    def memory(self) -> Memory:
        """Its buffer."""
        return self._operand.memory

    def place(self, coordinates: Coordinates) -> tuple[Value, Value | None]:
        """Return where an element is, and whether it is there, None where that is known."""
        return self._place(coordinates, is_strict=False)

    def loaded(self, place: Value, inside: Value | None) -> Value:
        """Return the element at a place; 0 where it is not there."""
        return self._operand.load(place, mask=inside)

    @property
    def is_changed(self) -> bool:
        """Whether it is read and written."""
        return self._access == "read_write"

    def put(self, place: Value, inside: Value | None, value: Value) -> None:
        """Write an element at a place, where it is there."""
        self._operand.store(place, value, mask=inside)

    def accumulate(
        self, coordinates: Sequence[Value], inside: Value | None, value: Value, *, is_alone: bool
    ) -> None:
        """Add to an element where it is there; with ``is_alone`` no other invocation does."""
        place = self._operand.at(coordinates)
        if is_alone:
            total = self._operand.load(place, mask=inside) + value
            self._operand.store(place, total, mask=inside)
        elif self._access != "atomic":
            raise AtomicWanted(self.name)
        elif self._word is None:
            self._operand.memory.atomic("add", place, value, mask=inside)
        else:
            self._exchanged("add", self._scope.of(value.node), place, inside)

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
