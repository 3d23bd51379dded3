"""Structs of WGSL as elements of a buffer: frozen dataclasses of numbers and vectors.

    @dataclass(frozen=True)
    class Particle:
        position: vec3f
        mass: float
        kind: u32

    PARTICLE = Struct(Particle)     # PARTICLE.wgsl is its declaration, PARTICLE.dtype that of NumPy
    p = PARTICLE.read(particles, i)
    PARTICLE.write(out, i, replace(p, mass=p.mass * 2.0))

A buffer of them is a tensor of uint32 with a row of words for each (`Struct.words`): floats travel
as their bits.  So a renderer's vertex buffer is read and written as its shaders declare it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import numpy as np

from pyrite.errors import KernelError
from pyrite.extension.mistake import shown
from pyrite.extension.number import WeakValue
from pyrite.extension.vector import Items, Vector
from pyrite.kernel import Value
from pyrite.types import DType, float32, int32, uint32

u32 = Annotated[int, "u32"]
vec2f, vec3f, vec4f = (Annotated[Vector, f"vec{n}f"] for n in (2, 3, 4))
vec2i, vec3i, vec4i = (Annotated[Vector, f"vec{n}i"] for n in (2, 3, 4))
vec2u, vec3u, vec4u = (Annotated[Vector, f"vec{n}u"] for n in (2, 3, 4))

_DTYPES: dict[str, DType] = {"f": float32, "i": int32, "u": uint32}
#: In words, by the number of items; WGSL 1.0, 14.4.1 (alignment and size).
_ALIGNMENTS = {1: 1, 2: 2, 3: 4, 4: 4}


class Field(NamedTuple):
    """A field: its type in WGSL, the dtype and number of its items, and its first word."""

    name: str
    type: str
    dtype: DType
    width: int
    word: int


@dataclass(frozen=True)
class Struct:
    """The layout that WGSL gives a frozen dataclass whose fields are numbers and vectors.

    ``float`` is f32 and ``int`` is i32; `u32` and `vec2f` to `vec4u` are in `pyrite.extension`.
    Raises KernelError for other fields, and for a class that is none.
    """

    cls: type

    def __post_init__(self) -> None:
        if not dataclasses.is_dataclass(self.cls) or not self.fields:
            raise KernelError(f"Struct requires a dataclass with fields, got {shown(self.cls)}")

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields, in order."""
        hints = get_type_hints(self.cls, include_extras=True)
        made: list[Field] = []
        end = 0
        for field in dataclasses.fields(self.cls):
            name = self._type(field.name, hints[field.name])
            width = int(name[3]) if name.startswith("vec") else 1
            dtype = _DTYPES[name[-1] if width > 1 else name[0]]
            word = -(-end // _ALIGNMENTS[width]) * _ALIGNMENTS[width]
            made.append(Field(field.name, name, dtype, width, word))
            end = word + width
        return tuple(made)

    def _type(self, name: str, hint: Any) -> str:
        found = {float: "f32", int: "i32"}.get(hint) or next(iter(get_args(hint)[1:]), None)
        if found != "u32" and found not in ("f32", "i32") and str(found)[:3] != "vec":
            raise KernelError(
                f"Struct requires fields of float, int, u32 or a vector as vec3f, got {name} of "
                f"{getattr(hint, '__name__', hint)}"
            )
        return str(found)

    @cached_property
    def words(self) -> int:
        """Words of 4 bytes from one element to the next."""
        most = max(_ALIGNMENTS[f.width] for f in self.fields)
        last = self.fields[-1]
        return -(-(last.word + last.width) // most) * most

    @property
    def wgsl(self) -> str:
        """The declaration in WGSL."""
        inside = ", ".join(f"{f.name}: {f.type}" for f in self.fields)
        return f"struct {self.cls.__name__} {{ {inside} }}"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of NumPy with the same layout: ``array.view(numpy.uint32)`` are its words."""
        formats = [(f.dtype.numpy, (f.width,)) if f.width > 1 else f.dtype.numpy
                   for f in self.fields]  # fmt: skip
        return np.dtype(
            {
                "names": [f.name for f in self.fields],
                "formats": formats,
                "offsets": [4 * f.word for f in self.fields],
                "itemsize": 4 * self.words,
            }
        )

    def read(self, x: Any, *at: Any) -> Any:
        """Return the struct at the coordinates, of a tensor of uint32 with its words last."""
        self._require_words(x, at)
        made: Any = object.__new__(self.cls)
        for f in self.fields:
            items = [_of_bits(x[(*at, f.word + i)], f.dtype) for i in range(f.width)]
            object.__setattr__(made, f.name, Vector(*items) if f.width > 1 else items[0])
        return made

    def write(self, out: Any, *at_and_value: Any) -> None:
        """Write a struct at the coordinates: ``write(out, i, particle)``.

        Words between fields stay as they are.
        """
        *at, value = at_and_value
        self._require_words(out, at)
        if not isinstance(value, self.cls):
            raise KernelError(f"write requires a {self.cls.__name__}, got {shown(value)}")
        for f in self.fields:
            for i, item in enumerate(_items(f, getattr(value, f.name))):
                out[(*at, f.word + i)] = _bits(f, item)

    def _require_words(self, x: Any, at: Any) -> None:
        if x.dtype is not uint32 or x.ndim != len(at) + 1 or x.shape[-1] != self.words:
            raise KernelError(
                f"{self.cls.__name__} requires a tensor of uint32 with {self.words} words on its "
                f"last axis and {len(at)} axes before, got {x.name} of {x.dtype.name}{x.shape}"
            )


def _items(field: Field, value: Any) -> Iterator[Any]:
    is_vector = isinstance(value, Items)
    if is_vector != (field.width > 1) or (is_vector and len(value) != field.width):
        raise KernelError(f"{field.name} requires a {field.type}, got {shown(value)}")
    yield from value if is_vector else (value,)


def _of_bits(word: Any, dtype: DType) -> Any:
    if isinstance(word, Value):
        return word.builder.bitcast(word, dtype)
    return word.view(dtype.numpy)


def _bits(field: Field, item: Any) -> Any:
    """Return the word of a number in the dtype of a field."""
    if not isinstance(item, Value):
        return int(np.asarray(item, field.dtype.numpy).view(np.uint32))
    if isinstance(item, WeakValue):
        item = item.builder.cast(item, field.dtype)
    if item.dtype is not field.dtype:
        raise KernelError(
            f"{field.name} requires {field.dtype.name}, got {item.type}; cast it: "
            f"k.cast(x, {field.dtype.name!r})"
        )
    return item.builder.bitcast(item, uint32)
