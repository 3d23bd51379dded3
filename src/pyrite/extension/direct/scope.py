"""The scope of one invocation that Python runs: ``k`` of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pyrite.backend.numpy.algebra import NumPyAlgebra
from pyrite.errors import KernelError, UnsupportedKernelError
from pyrite.extension.direct.memory import DirectMemory
from pyrite.extension.mathematics import require_taken, takes
from pyrite.extension.scope import KernelScope
from pyrite.extension.vector import item_by_item
from pyrite.kernel.interpret.memory import undefined
from pyrite.types import DType, DTypeLike, Shape, int32
from pyrite.types import dtype as as_dtype

#: What a kernel may rightly use, and Python cannot run: the op's next kernel may do without.
RECORDED = frozenset(
    "for_ if_ while_ subgroup_ballot subgroup_broadcast subgroup_lane subgroup_reduce "
    "subgroup_scan subgroup_shuffle subgroup_size".split()
)


class Group:
    """A workgroup: where it is, and the memory that its invocations share."""

    def __init__(self, position: Shape, grid: Shape, sizes: Shape, number: DType) -> None:
        self.position, self.grid, self.sizes = position, grid, sizes
        #: The dtype of numbers that have none.
        self.number = number
        self.memories: list[DirectMemory] = []

    def shared(self, dtype: DType, size: int, count: int) -> DirectMemory:
        """Return the memory that is the next in an invocation that has had so many."""
        if count == len(self.memories):
            self.memories.append(DirectMemory(undefined(dtype, size), size))
        return self.memories[count]


class DirectScope:
    """What `pyrite.extension.KernelScope` is to a recording, for one invocation."""

    def __init__(
        self, group: Group, local: Shape, at: Shape, wait: Callable[[], None] | None
    ) -> None:
        self.at = at
        self.math: Any = _Mathematics(group.number)
        self._group, self._local, self._wait = group, local, wait
        self._shared = 0

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Refuse what only a recording has."""
            if not hasattr(KernelScope, name):
                use = f"; use k.math.{name}" if hasattr(NumPyAlgebra, name) else ""
                message = f"'KernelScope' object has no attribute {name!r}{use}"
                raise AttributeError(message, name=name, obj=self)
            kind = UnsupportedKernelError if name in RECORDED else KernelError
            raise kind(
                f"k.{name} requires a kernel that is recorded for a device, got one that Python "
                "runs on numpy; write if, for and while, or run it on cpu"
            )

    # ---- where it is ----

    def workgroup_id(self, axis: int = 0) -> int:
        """Return the position of the workgroup in the grid."""
        return _of(self._group.position, axis, 0)

    def num_workgroups(self, axis: int = 0) -> int:
        """Return the number of workgroups."""
        return _of(self._group.grid, axis, 1)

    def local_id(self, axis: int = 0) -> int:
        """Return the position of the invocation in its workgroup."""
        return _of(self._local, axis, 0)

    def local_index(self) -> int:
        """Return the number of the invocation in its workgroup, axis 0 fastest."""
        x, y, _ = (*self._group.sizes, 1, 1)[:3]
        return self.local_id(0) + x * (self.local_id(1) + y * self.local_id(2))

    def global_id(self, axis: int = 0) -> int:
        """Return the position of the invocation in the whole grid."""
        return self.workgroup_id(axis) * _of(self._group.sizes, axis, 1) + self.local_id(axis)

    # ---- memory ----

    def shared(self, dtype: DTypeLike, size: int, *, access: str = "read_write") -> DirectMemory:
        """Return memory of the workgroup."""
        self._shared += 1
        return self._group.shared(as_dtype(dtype), size, self._shared - 1)

    def private(self, dtype: DTypeLike, size: int) -> DirectMemory:
        """Return memory of the invocation."""
        return DirectMemory(undefined(as_dtype(dtype), size), size)

    def barrier(self, scope: str = "workgroup") -> None:
        """Let the other invocations of the workgroup come here."""
        if self._wait is None:
            raise KernelError(
                "a barrier requires a kernel with a grid, got one without, where some invocations "
                "have no element; give it one: kernel(grid=...)"
            )
        self._wait()

    # ---- to find mistakes ----

    def check(self, condition: Any, message: str) -> None:
        """Raise KernelError if the condition is false."""
        if not condition:
            where = f"element {self.at}" if self._wait is None else f"invocation {self._place()}"
            raise KernelError(f"{message}, in {where}")

    def print(self, *parts: Any) -> None:
        """Print texts and values."""
        print(*parts)

    def _place(self) -> str:
        return f"{self._local} of workgroup {self._group.position}"

    # ---- numbers ----

    def static(self, items: Iterable[Any]) -> tuple[Any, ...]:
        """Return the items of a loop that is written out."""
        return tuple(items)

    def const(self, value: Any, type: DTypeLike) -> Any:
        """Return a number of a dtype."""
        return as_dtype(type).numpy.type(value)

    def cast(self, x: Any, dtype: DTypeLike) -> Any:
        """Convert; floats saturate at the bounds of integers, and NaN becomes 0."""
        return self.math.cast(x, as_dtype(dtype))

    def bitcast(self, x: Any, dtype: DTypeLike) -> Any:
        """Return the same bits as another dtype."""
        return self.math.bitcast(x, as_dtype(dtype))

    def select(self, condition: Any, x: Any, y: Any) -> Any:
        """Return x where the condition holds, else y."""
        return x if condition else y

    def make(self, elements: Sequence[Any]) -> Any:
        """Return the vector of the scalars."""
        return np.array(elements)

    def splat(self, x: Any, width: int) -> Any:
        """Return a vector of which every element is x."""
        return np.full(width, x)

    def extract(self, x: Any, element: int) -> Any:
        """Return one element of a vector."""
        return x[element]

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """Return x * y + z."""
        return x * y + z

    def min(self, x: Any, y: Any) -> Any:
        """Return x if x < y else y."""
        return x if x < y else y

    def max(self, x: Any, y: Any) -> Any:
        """Return x if x > y else y."""
        return x if x > y else y

    @item_by_item
    def clamp(self, x: Any, low: Any, high: Any) -> Any:
        """Return x, low if it is less, and high if it is more."""
        return self.min(self.max(x, low), high)

    @item_by_item
    def mix(self, x: Any, y: Any, share: Any) -> Any:
        """Return x * (1 - share) + y * share."""
        return x * (1.0 - share) + y * share

    @item_by_item
    def step(self, edge: Any, x: Any) -> Any:
        """Return 1 where x >= edge, else 0."""
        return 1 if x >= edge else 0

    @item_by_item
    def fmod(self, x: Any, y: Any) -> Any:
        """Return the rest of x / y with the sign of x."""
        return self.math.truncated_remainder(x, y)

    def fence(self, x: Any) -> Any:
        """Return x: here arithmetic is what is written."""
        return x

    def sqrt(self, x: Any) -> Any:
        """Return the square root."""
        return self.math.sqrt(x)

    def floor(self, x: Any) -> Any:
        """Return the greatest whole number <= x."""
        return self.math.floor(x)

    def rint(self, x: Any) -> Any:
        """Return the nearest whole number, halves to even."""
        return self.math.rint(x)


class _Mathematics:
    """The functions of `pyrite.algebra`: numbers of Python take the dtype of the others."""

    def __init__(self, number: DType) -> None:
        self._number = number

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            function = getattr(NumPyAlgebra(), name, None)
            if function is None:
                message = f"'Mathematics' object has no attribute {name!r}"
                raise AttributeError(message, name=name, obj=self)

            def compute(*operands):
                met = self._met(name, operands)
                if name not in _APART:
                    _require_one_dtype(name, met)
                found = function(*met)
                # A number, where NumPy made an array of none of its axes.
                return found[()] if isinstance(found, np.ndarray) else found

            return compute

    def truncated_divide(self, x: Any, y: Any) -> Any:
        """Return x / y rounded towards 0, as C's division of integers; 0 for y = 0."""
        x, y = self._met("truncated_divide", (x, y))
        _require_one_dtype("truncated_divide", (x, y))
        if x.dtype.kind == "f":
            return np.trunc(x / y)
        return x * 0 if y == 0 else (x - np.fmod(x, y)) // y

    def _met(self, name: str, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return operands of which numbers of Python, as coordinates are, have a dtype.

        That of the others; int32 of integers alone, where the function takes it.
        """
        dtype = next((x.dtype for x in operands if isinstance(x, np.generic)), None)
        if dtype is None:
            are_whole = not any(isinstance(x, float) for x in operands)
            dtype = (int32 if are_whole and takes(name, int32)[0] else self._number).numpy
        return tuple(
            dtype.type(x) if isinstance(x, float | int) and not isinstance(x, np.generic) else x
            for x in operands
        )


#: Those of which an operand is a dtype, a condition or a number.
_APART = ("where", "cast", "constant", "bitcast")


def _require_one_dtype(name: str, operands: tuple[Any, ...]) -> None:
    """Raise KernelError unless all are of one dtype, and the function takes it."""
    dtypes = list(dict.fromkeys(as_dtype(x.dtype) for x in operands))
    if len(dtypes) > 1:
        raise KernelError(
            f"k.math.{name} requires operands of one type, got {dtypes[0].name} and "
            f"{dtypes[1].name}; cast one: k.cast(x, {dtypes[0].name!r})"
        )
    require_taken(name, dtypes[0], dtypes[0].name)


def _of(sizes: Shape, axis: int, other: int) -> int:
    return sizes[axis] if axis < len(sizes) else other
