"""What a kernel reads, writes and computes while it is recorded to be differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from pyrite.errors import KernelError
from pyrite.extension.argument import Coordinates, TensorArgument
from pyrite.extension.scope import KernelScope
from pyrite.extension.scratch import Scratch
from pyrite.extension.vector import rows_of, spread
from pyrite.kernel import Memory, Value
from pyrite.kernel.builder import Operand
from pyrite.kernel.ir import Access, Node
from pyrite.op import user_location
from pyrite.types import DType, DTypeLike
from pyrite.types import dtype as as_dtype


@dataclass(frozen=True, slots=True)
class Read:
    """An element of an input: its coordinates, and whether it is there, None if it surely is."""

    name: str
    coordinates: tuple[Node, ...]
    inside: Node | None


@dataclass(frozen=True, slots=True)
class Write:
    """A value that is put into an output, or added to it; at a place of its cotangent."""

    cotangent: TensorArgument
    value: Node
    place: Node
    inside: Node | None
    how: Literal["put", "added"]


@dataclass(frozen=True, slots=True)
class Applied:
    """A function of the mathematics, its operands, and the line that calls it."""

    name: str
    operands: tuple[Node, ...]
    location: str


@dataclass(slots=True)
class Tape:
    """By node, what it stands for; a write has a node that does nothing in its place."""

    reads: dict[Node, Read] = field(default_factory=dict)
    writes: dict[Node, Write] = field(default_factory=dict)
    applied: dict[Node, Applied] = field(default_factory=dict)


class DerivedScope(KernelScope):
    """A scope in which a kernel is recorded to be differentiated, and then its derivative.

    While ``is_primal`` what the kernel does is noted on the `tape`, and what has no derivative is
    an error of its line.  It reports nothing: the kernel itself does.
    """

    #: Each number is noted by itself.
    has_vectors = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tape = Tape()
        self.is_primal = True

    @property
    def walks_back(self) -> bool:
        """Whether what is recorded is the kernel itself, of which all is noted."""
        return self.is_primal and not self.is_counting

    def note_read(
        self, value: Value, name: str, coordinates: Sequence[Value], inside: Value | None
    ) -> None:
        """Note an element that is read."""
        if self.walks_back:
            nodes = tuple(c.node for c in coordinates)
            self.tape.reads[value.node] = Read(name, nodes, _node(inside))

    def note_applied(self, name: str, operands: Sequence[Value], result: Value) -> None:
        """Note a function of the mathematics."""
        nodes = tuple(x.node for x in operands)
        if self.walks_back and result.dtype.is_float and result.node not in nodes:
            self.tape.applied[result.node] = Applied(name, nodes, user_location())

    def note_write(self, write: Write) -> None:
        """Note what is written, where it is."""
        if not self.walks_back:
            return
        marker = self.emit("prefetch", None, (write.cotangent.memory.node, write.place))
        self.tape.writes[marker] = write

    def keep(self, dtype: DType, size: int) -> Memory:
        """Return memory of the invocation for the derivative."""
        return Memory(self.plain, KernelScope.private(self, dtype, size).node)

    # ---- what has no derivative ----

    def refuse(self, what: str, fix: str) -> NoReturn:
        """Raise KernelError of what a kernel does."""
        raise KernelError(
            f"kernel '{self.name}' requires reads, writes, arithmetic, branches and loops "
            f"to be differentiated, got {what}; {fix}, or give its op a vjp"
        )

    def note_open_ended(self) -> None:
        """Refuse a loop that is not counted."""
        if self.walks_back:
            self.refuse(
                "a loop that is not counted",
                "write it in Python: while condition",
            )

    def shared(self, dtype: DTypeLike, size: int, *, access: Access = "read_write") -> Scratch:
        """Refuse: what others wrote has no derivative."""
        self.refuse("shared memory", "read the inputs")

    def private(self, dtype: DTypeLike, size: int) -> Scratch:
        """Refuse: what is written over has no derivative."""
        self.refuse("private memory", "use variables, or a tuple")

    def barrier(self, scope: str = "workgroup") -> None:
        """Refuse."""
        self.refuse("a barrier", "make two ops of it")

    def bitcast(self, x: Value, dtype: DTypeLike) -> Value:
        """Refuse the bits of a float."""
        if self.is_primal and x.dtype.is_float:
            self.refuse("the bits of a float", "use k.math")
        return super().bitcast(x, as_dtype(dtype))

    def subgroup_reduce(self, name: str, x: Value) -> Value:
        """Refuse."""
        self.refuse("subgroups", "let each invocation make a result")

    def subgroup_scan(self, name: str, x: Value, *, is_inclusive: bool = True) -> Value:
        """Refuse."""
        self.refuse("subgroups", "let each invocation make a result")

    def subgroup_shuffle(self, x: Value, n: Operand, how: str = "index") -> Value:
        """Refuse."""
        self.refuse("subgroups", "let each invocation make a result")

    def subgroup_broadcast(self, x: Value) -> Value:
        """Refuse."""
        self.refuse("subgroups", "let each invocation make a result")

    # ---- what the kernel itself reports ----

    def fail(self, failed: Value, name: str) -> None:
        """Nothing."""

    def check(self, condition: Any, message: str) -> None:
        """Nothing."""

    def print(self, *parts: Any) -> None:
        """Nothing."""


class DerivedOutput:
    """An output of a kernel that is differentiated: its writes read the cotangent."""

    def __init__(self, scope: DerivedScope, name: str, cotangent: TensorArgument) -> None:
        self.name = name
        self.shape, self.dtype = cotangent.shape, cotangent.dtype
        self.ndim, self.size = cotangent.ndim, cotangent.size
        self.is_written = False
        self._scope = scope
        self._cotangent = cotangent
        self._how: str | None = None

    def __setitem__(self, coordinates: Coordinates, value: Any) -> None:
        given = coordinates if isinstance(coordinates, tuple) else (coordinates,)
        sizes = rows_of(self.shape, len(given)) if len(given) < self.ndim else ()
        for at, item in spread(value, sizes) if sizes else [((), value)]:
            self._write((*given, *at), item, "put")

    def atomic(
        self, name: str, coordinates: Coordinates, value: Operand = 0, *, expected: Operand = 0
    ) -> AtomicResult:
        """Add to an element; what it was is not known."""
        if name != "add":
            self._scope.refuse(f"the atomic {name!r}", "use 'add'")
        self._write(coordinates, value, "added")
        return AtomicResult()

    def _write(
        self, coordinates: Coordinates, value: Operand, how: Literal["put", "added"]
    ) -> None:
        if self._how not in (None, how):
            self._scope.refuse(
                f"{self.name} written and added to", "let one op write and another add"
            )
        self._how = how
        self.is_written = True
        if self.dtype.is_float:
            made = self._cotangent.stored(value)
            place, inside = self._cotangent.place(coordinates)
            write = Write(self._cotangent, made.node, place.node, _node(inside), how)
            self._scope.note_write(write)

    def __getitem__(self, coordinates: Coordinates) -> NoReturn:
        self._scope.refuse(f"a read of output {self.name}", "read the input that it begins as")

    def get(self, *coordinates: Operand, other: Operand = 0, border: Any = 0) -> NoReturn:
        """Refuse."""
        self[coordinates]
        raise AssertionError

    def prefetch(self, *coordinates: Operand) -> None:
        """Nothing: a hint."""


class AtomicResult:
    """What an element was before an atomic: nothing may be computed of it."""


def _node(value: Value | None) -> Node | None:
    return None if value is None else value.node
