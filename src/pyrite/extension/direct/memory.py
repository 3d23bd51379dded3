"""Tensors and memories as a kernel sees them that Python runs: arrays, each index tested."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

import numpy as np

from pyrite.errors import IndexRangeError, KernelError
from pyrite.extension.mistake import holds_nothing, no_attribute, shown
from pyrite.extension.outputs import type_of
from pyrite.extension.vector import gathered, rows_of, spread
from pyrite.kernel.builder.number import numbers_of
from pyrite.types import Array, DType, Number, Shape


class DirectArgument:
    """An input or output: ``x[i, j]`` is a number of NumPy in the dtype that it is computed in."""

    def __init__(
        self, name: str, array: Array, dtype: DType, *, is_output: bool, is_readable: bool
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.shape: Shape = array.shape
        self.ndim = array.ndim
        self.size = array.size
        self.is_written = False
        self.is_output = is_output
        self._is_readable = is_readable
        self._array = array

    def __len__(self) -> int:
        """Return the size of the first axis."""
        if not self.shape:
            raise KernelError(f"len requires a tensor with an axis, got {self.name} of shape ()")
        return self.shape[0]

    def __getattr__(self, name: str) -> NoReturn:
        raise no_attribute(self.name, name)

    def __getitem__(self, coordinates: Any) -> Any:
        self._require_input()
        if row := self._row(coordinates):
            given, sizes = row
            return gathered(sizes, lambda at: self[(*given, *at)])
        return self._array[self._inside(coordinates)]

    def _row(self, coordinates: Any) -> tuple[tuple[Any, ...], tuple[int, ...]] | None:
        """Return the coordinates of a vector or a matrix and its sizes; None for those of one."""
        given = coordinates if isinstance(coordinates, tuple) else (coordinates,)
        sizes = rows_of(self.shape, len(given)) if len(given) < self.ndim else ()
        return (given, sizes) if sizes else None

    def get(self, *coordinates: Any, other: Any = 0, border: Any = 0) -> Any:
        """Return the element at the coordinates, or what stands for one where there is none."""
        self._require_input()
        at = self._at(coordinates)
        if isinstance(border, str):
            if border not in _BORDERS:
                raise KernelError(
                    f"{self.name}.get requires border to be a number or one of "
                    f"{', '.join(_BORDERS)}, got {border!r}"
                )
            within = _BORDERS[border]
            at = tuple(within(i, n) if n else i for i, n in zip(at, self.shape, strict=True))
        if all(0 <= i < n for i, n in zip(at, self.shape, strict=True)):
            return self._array[at]
        return self._array.dtype.type(border if not isinstance(border, str) and border else other)

    def prefetch(self, *coordinates: Any) -> None:
        """Nothing: a hint."""

    def __setitem__(self, coordinates: Any, value: Any) -> None:
        self._require_output()
        if row := self._row(coordinates):
            given, sizes = row
            for at, item in spread(value, sizes):
                self[(*given, *at)] = item
            return
        self._array[self._inside(coordinates)] = _number(value)

    def atomic(self, name: str, coordinates: Any, value: Any = 0, *, expected: Any = 0) -> Any:
        """Change one element; return what it was."""
        holds_something = self._is_readable or self.is_written or name == "store"
        self._require_output()
        if name in _ATOMIC and not holds_something:
            raise KernelError(holds_nothing(name, self.name))
        return changed(name, self._array, self._inside(coordinates), value, expected)

    def _require_output(self) -> None:
        if not self.is_output:
            raise KernelError(f"kernel requires writes to outputs, got one to input {self.name!r}")
        self.is_written = True

    def _require_input(self) -> None:
        if not self._is_readable:
            raise KernelError(
                f"kernel requires reads of inputs, got one of output {self.name!r}; keep the value "
                "in a variable, or in shared memory"
            )

    def _at(self, coordinates: Any) -> tuple[int, ...]:
        given = coordinates if isinstance(coordinates, tuple) else (coordinates,)
        if len(given) != self.ndim:
            raise KernelError(
                f"{self.name}[...] requires {self.ndim} coordinates of shape {self.shape}, got "
                f"{len(given)}"
            )
        for axis, i in enumerate(given):
            if not hasattr(i, "__index__"):
                raise KernelError(
                    f"{self.name}[...] requires integers as coordinates, got {shown(i)} on axis "
                    f"{axis}"
                )
        return tuple(operator.index(i) for i in given)

    def _inside(self, coordinates: Any) -> tuple[int, ...]:
        at = self._at(coordinates)
        if not all(0 <= i < n for i, n in zip(at, self.shape, strict=True)):
            raise IndexRangeError(
                f"{self.name}[...] requires an index inside of shape {self.shape}, got {at}; read "
                "by x.get(i, j), which is 0 there, and write under an if"
            )
        return at


class DirectMemory:
    """Shared or private memory: NaN or a pattern until it is written."""

    def __init__(self, array: Array, size: int) -> None:
        self.size = size
        self._array = array

    def __getitem__(self, index: Any) -> Any:
        return self._array[self._inside(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._array[self._inside(index)] = _number(value)

    def load(self, index: Any) -> Any:
        """Return the element at an index."""
        return self[index]

    def store(self, index: Any, value: Any) -> None:
        """Write the element at an index."""
        self[index] = value

    def atomic(self, name: str, index: Any, value: Any = 0, *, expected: Any = None) -> Any:
        """Change one element; return what it was."""
        return changed(name, self._array, self._inside(index), value, expected)

    def _inside(self, index: Any) -> int:
        at = operator.index(index)
        if not 0 <= at < self.size:
            raise IndexRangeError(
                f"shared or private memory requires an index of 0 to {self.size - 1}, got {at}"
            )
        return at


#: What coordinate stands for one outside of an axis.
_BORDERS: dict[str, Callable[[int, int], int]] = {
    "wrap": lambda i, n: i % n,
    "clamp": lambda i, n: min(max(i, 0), n - 1),
    "mirror": lambda i, n: min(i % (2 * n), 2 * n - 1 - i % (2 * n)),
}


def _number(value: Any) -> Number:
    """Return what is written.  Raises KernelError for what is no number, as in other kernels."""
    return numbers_of(value, 1)[0] if not isinstance(value, int | float) else value


def changed(name: str, array: Array, at: Any, value: Any, expected: Any) -> Any:
    """Change one element of an array by an atomic operation; return what it was."""
    if name not in _ATOMIC:
        raise KernelError(f"atomic requires one of {', '.join(_ATOMIC)}, got {name!r}")
    old = array[at]
    array[at] = _ATOMIC[name](old, old.dtype.type(_number(value)), expected)
    return old


_ATOMIC: dict[str, Callable[[Any, Any, Any], Any]] = {
    "load": lambda old, value, _: old,
    "store": lambda old, value, _: value,
    "exchange": lambda old, value, _: value,
    "exchange_equal": lambda old, value, expected: value if old == expected else old,
    "add": lambda old, value, _: old + value,
    "min": lambda old, value, _: np.minimum(old, value),
    "max": lambda old, value, _: np.maximum(old, value),
    "and": lambda old, value, _: old & value,
    "or": lambda old, value, _: old | value,
    "xor": lambda old, value, _: old ^ value,
}


def arguments_of(
    names: Sequence[str],
    inputs: Sequence[Array | None],
    outputs: Sequence[Array],
    readable: Collection[str],
) -> list[DirectArgument | None]:
    """Return what a kernel gets for arrays; ``readable`` names the outputs that hold something."""
    given: list[tuple[Array | None, bool]] = [(x, False) for x in inputs]
    given += [(x, True) for x in outputs]
    return [
        None
        if array is None
        else DirectArgument(
            name, array, type_of(array).dtype, is_output=is_output,
            is_readable=not is_output or name in readable,
        )
        for name, (array, is_output) in zip(names, given, strict=True)
    ]  # fmt: skip
