"""What a kernel in Python is written with: a builder with which nothing can go astray.

Our own kernels run without tests: their indices are judged beforehand (docs/design/0020).  Here
every index is tested, of tensors and of memory of the workgroup, unless it is known to be inside: a
counter of a loop with fixed bounds, a coordinate of the point itself, sums and products of such.
Outside, ``x[i, j]`` is an error, raised by each read of what comes of the kernel, and ``x.get(i,
j)`` is 0.  Operators mean what they mean on tensors: see `pyrite.extension.arithmetic`.  So no
kernel of an application touches memory that is not its own, or ends the process, on any runtime.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from pyrite.backend.cube.operand import invocation_of, unravel
from pyrite.errors import KernelError
from pyrite.extension.mistake import checked, require_own, shown
from pyrite.extension.number import WeakValue, adopted, is_weak, meeting
from pyrite.extension.reporting import Reporting
from pyrite.extension.scratch import Scratch
from pyrite.extension.unset import Unset
from pyrite.kernel import Memory, Value
from pyrite.kernel.builder import Branch, ForLoop, Operand, WhileLoop, exact
from pyrite.kernel.ir import ACCESSES, Access, Kernel, Kind, Node, Region, Type, scalar
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.kernel.uniformity import stray_barriers
from pyrite.kernel.verify import broken_rule
from pyrite.op import user_location
from pyrite.symbol import Symbol, is_of_first
from pyrite.types import DType, DTypeLike, Number, bool_, float32, int32, uint32
from pyrite.types import dtype as as_dtype

T = TypeVar("T")

#: What reads and writes memory.
_TOUCHES = frozenset(("load", "store", "atomic"))

#: Elements of one private memory.
MOST_PRIVATE = 4096


@checked(
    "alu", "barrier", "bitcast", "cast", "clamp", "const", "extract", "fence", "floor",
    "floor_divide", "fma", "fmod", "for_", "global_id", "local_id", "make", "max", "min", "mix",
    "num_workgroups", "private", "remainder", "rint", "select", "shared", "shift", "splat", "sqrt",
    "step", "subgroup_ballot", "subgroup_broadcast", "subgroup_reduce", "subgroup_scan",
    "subgroup_shuffle", "workgroup_id",
)  # fmt: skip
class KernelScope(Reporting):
    """A `KernelBuilder` that knows which point it is at, and has mathematics.

    ``at`` are the coordinates of the element of the first output that this invocation makes; empty
    for a kernel with a grid of its own.  ``math`` has exp, log, tanh, erf and the like, as
    `pyrite.algebra` lists them, within a few ulp on every device.
    """

    def __init__(
        self,
        name: str,
        *,
        workgroup_size: tuple[int, ...],
        grid: int,
        counts: tuple[Any, ...] = (),
        sizes: int = 0,
    ) -> None:
        super().__init__(name, workgroup_size=workgroup_size, grid=grid, counts=counts)
        #: So many symbols are sizes, the others attributes.
        self._sizes = sizes
        self.at: tuple[Value, ...] = ()
        #: What numbers with a fraction that change are kept in: see `pyrite.extension.number`.
        self.weak_float = float32
        #: What was computed in loops and branches that have ended.
        self._ended: set[Node] = set()
        #: The lines of barriers.
        self._barriers: dict[Node, str] = {}
        #: The lines at which memory is made and touched.
        self._lines: dict[Node, str] = {}
        self._is_by_element = False
        #: Whether the function is at work, which declares no parameters.
        self.is_written = False
        #: Whether a loop is recorded for the number of its rounds alone.
        self.is_counting = False
        #: For the rules of nodes, which ask for no more of a kernel than the dtype of indices.
        self._head = Kernel(name, (), Region((), ()), self.workgroup_size, grid)

    #: Whether the device takes two or four numbers that lie together at once, by an invocation.
    has_vectors = True

    @property
    def instead(self) -> type[KernelScope] | None:
        """The scope in which the kernel is to be recorded instead; None for this."""
        return None

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Name the mathematics where it is looked for in the scope itself."""
            use = f"; use k.math.{name}" if hasattr(RecordingAlgebra, name) else ""
            message = f"{type(self).__name__!r} object has no attribute {name!r}{use}"
            raise AttributeError(message, name=name, obj=self)

    def stand_at(self, shape: Sequence[int]) -> Value:
        """Set `at` to the point of a shape; return the number of the invocation, which may be none.

        What is recorded next stands under a test that the number is less than the elements.
        """
        index = invocation_of(self.plain)
        self._is_by_element = True
        found = unravel(self.plain, index, shape)
        self.at = tuple(WeakValue(self, self.plain.index(c).node) for c in found)
        for coordinate, size in zip(self.at, shape, strict=True):
            self._noted(coordinate, (0, size - 1))
        return self.of(index.node)

    def for_(
        self,
        start: Operand,
        stop: Operand,
        *,
        step: int = 1,
        carried: Sequence[Value] = (),
        unroll: bool = False,
        is_entered: bool = False,
    ) -> ForLoop[Value]:
        """Open a counted loop: ``with k.for_(0, n, carried=[total]) as loop``."""
        self._require_values("for_", carried)
        if is_entered:  # a promise that nobody checks, and by which indices would be outside
            raise KernelError(
                "for_ requires is_entered=False in an application, got True; leave it out"
            )
        if step < 1:
            raise KernelError(
                f"for_ requires step >= 1, got {step}; count upwards, and turn the counter round: "
                "n - 1 - loop.index"
            )
        for bound in (start, stop):
            if isinstance(bound, Value) and bound.type is not self.index_type:
                raise KernelError(
                    f"for_ requires bounds of {self.index_type}, got {shown(bound)}; cast it: "
                    f"k.cast(n, {self.index_type.dtype.name!r})"
                )
        return _KnownLoop(self, self.index(start), self.index(stop), step, carried, unroll)

    def while_(self, carried: Sequence[Value]) -> WhileLoop[Value]:
        """Open a loop on carried values: ``with k.while_([x]) as loop``."""
        self._require_values("while_", carried)
        self.note_open_ended()
        return super().while_(carried)

    def if_(self, condition: Value, *, is_rare: bool = False) -> Branch[Value]:
        """Open a branch: ``with k.if_(c) as branch``, then maybe ``with branch.else_()``.

        One that ``is_rare`` counts as not taken where `explain` counts operations.
        """
        if not isinstance(condition, Value) or condition.type is not scalar(bool_):
            raise KernelError(
                f"if_ requires a bool of the kernel, as i < n, got {shown(condition)}; for what "
                "is known while the kernel is written use Python's if"
            )
        return super().if_(condition, is_rare=is_rare)

    def _require_values(self, loop: str, carried: Sequence[Value]) -> None:
        given = (carried,) if isinstance(carried, Value) else carried
        wrong = [v for v in given if not isinstance(v, Value)]
        require_own(self, loop, given)
        if wrong or given is not carried:
            raise KernelError(
                f"{loop} requires carried=[...] with values of the kernel, got "
                f"{shown((wrong or given)[0])}; write carried=[k.const(0.0, pyrite.float32)]"
            )

    def const(self, value: Number | Sequence[Number], type: Type | DTypeLike) -> Value:
        """Return a constant, rounded to the dtype; of a vector one number or one for each."""
        if isinstance(value, Unset):
            value.refuse()
        return super().const(value, type if isinstance(type, Type) else as_dtype(type))

    def value(self, x: Operand, type: Type) -> Value:
        """Return x as a value of the type: a number as a constant, a scalar repeated."""
        require_own(self, f"kernel {self.name!r}", (x,))
        if isinstance(x, WeakValue) and x.dtype is not type.dtype:
            x = adopted(x, type)
        return super().value(x, type)

    def _common_type(self, name: str, operands: tuple[Operand, ...]) -> Type:
        strong = tuple(x for x in operands if not is_weak(x))
        if strong or not any(isinstance(x, WeakValue) for x in operands):
            return super()._common_type(name, strong or operands)
        return meeting(self, operands)

    def cast(self, x: Value, dtype: DTypeLike) -> Value:
        """Convert; floats saturate at the bounds of integers, and NaN becomes 0."""
        return super().cast(self.of(x.node), dtype)

    def bitcast(self, x: Value, dtype: DTypeLike) -> Value:
        """Return the same bits as another dtype of the same size."""
        return super().bitcast(x, as_dtype(dtype))

    def static(self, items: Iterable[T]) -> tuple[T, ...]:
        """Return what a loop is written out over: ``for j in k.static(range(4))``."""
        return tuple(items)

    def shared(self, dtype: DTypeLike, size: int, *, access: Access = "read_write") -> Scratch:
        """Allocate memory of the workgroup; undefined until written."""
        found, size = as_dtype(dtype), _known(size)
        self._require_memory("shared", size, 2**31)
        if access not in ACCESSES:
            raise KernelError(
                f"shared requires an access of {', '.join(ACCESSES)}, got {shown(access)}"
            )
        if access == "atomic" and found not in (int32, uint32):
            raise KernelError(
                f"shared requires int32 or uint32 for access='atomic', got {found.name}; count in "
                "whole numbers, or add up in turns between barriers"
            )
        return self._scratch(super().shared(found, size, access=access), size)

    def _scratch(self, memory: Memory, size: int) -> Scratch:
        self._lines[memory.node] = user_location()
        return Scratch(self, memory.node, size)

    def _require_memory(self, name: str, size: int, most: int) -> None:
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= most:
            raise KernelError(
                f"{name} requires a size known while the kernel is written, a Python int of 1 to "
                f"{most:,}, got {shown(size)}"
            )

    def private(self, dtype: DTypeLike, size: int) -> Scratch:
        """Allocate memory of the invocation; undefined until written."""
        size = _known(size)
        # On a CPU it is of the stack.
        self._require_memory("private", size, MOST_PRIVATE)
        return self._scratch(super().private(as_dtype(dtype), size), size)

    def _argument(self, symbol: Symbol, dtype: DType) -> Value:
        """Return a number of the launch.  Raises KernelError where it is none of the dtype."""
        exact(symbol.value, dtype)
        value = super()._argument(symbol, dtype)
        # What is asked of attributes would make a kernel for each answer.
        if dtype.is_integer and is_of_first(symbol.text, self._sizes):
            self._known[value.node] = (cast(int, symbol), cast(int, symbol))
        return value

    # ---- what is declared by the op, and not by its kernel ----

    def buffer(self, name: str, dtype: DType, access: Access) -> Memory:
        """Declare the next buffer parameter: an input or an output of the op."""
        self._require_undeclared("buffer")
        return super().buffer(name, dtype, access)

    def scalar(self, name: str, dtype: DType) -> Value:
        """Declare the next number: an offset of a tensor."""
        self._require_undeclared("scalar")
        return super().scalar(name, dtype)

    def error(self, memory: Memory, failed: Value, code: Operand) -> None:
        """Refuse: `x[i]` of an index outside is the error of a kernel."""
        self._require_undeclared("error")
        super().error(memory, failed, code)

    def _require_undeclared(self, name: str) -> None:
        if self.is_written:
            raise KernelError(
                f"{name} requires to be called by Pyrite alone, got a call in kernel "
                f"{self.name!r}; what a kernel reads and writes are inputs and outputs of its op"
            )

    # ---- what a scope notes that is to be differentiated: see `pyrite.extension.derivative` ----

    def note_read(
        self, value: Value, name: str, coordinates: Sequence[Value], inside: Value | None
    ) -> None:
        """Note an element that is read."""

    @property
    def walks_back(self) -> bool:
        """Whether loops are to be counted, since a derivative runs them back."""
        return False

    def note_open_ended(self) -> None:
        """Note a loop that is not counted."""

    # ---- what loops in plain Python ask for: see `pyrite.extension.flow` ----

    def memories(self) -> int:
        """Return how many shared and private memories there are."""
        return len(self._allocations)

    def forget_memories(self, count: int) -> None:
        """Drop those after so many: the body that has them is written again."""
        del self._allocations[count:]

    def note_counter(self, counter: Node, start: Value, stop: Value, step: int) -> None:
        """Take in how far a counter goes, where its bounds are known."""
        (low, latest), (_, high) = self._range(start.node), self._range(stop.node)
        if low is None or high is None:
            return
        last = high - 1
        if low == latest and isinstance(low, int) and isinstance(last, int):
            last = low + (last - low) // step * step  # whole steps from where it begins
        self._known[counter] = (low, last)

    # ---- what a loop or a branch computed ends with it ----

    def emit(
        self,
        kind: Kind,
        type: Type | None,
        inputs: tuple[Node, ...] = (),
        attr: Any = None,
        regions: tuple[Region, ...] = (),
    ) -> Node:
        """Append a node, or return the equal pure node that is in scope already."""
        self._require_open(inputs)
        node = super().emit(kind, type, inputs, attr, regions)
        if kind in _TOUCHES and self.is_written:
            self._lines[node] = user_location()
        # An if_ may still get an else_.
        broken = None if kind == "if" else broken_rule(node, self._head)
        if broken is not None:
            got = ", ".join(str(i.type) for i in inputs)
            raise KernelError(
                f"{kind} requires operands that fit, got {got or shown(attr)}; {broken}"
            )
        return node

    def close(self, yields: Iterable[Node] = ()) -> Region:
        """End the region begun last and return it."""
        yielded = tuple(yields)
        self._require_open(yielded)
        region = super().close(yielded)
        self._ended.update(region.parameters, region.body)
        return region

    def _require_open(self, nodes: Sequence[Node]) -> None:
        if not self._ended.isdisjoint(nodes):
            raise KernelError(
                f"kernel '{self.name}' requires values where they can be seen, got one that was "
                "computed in a loop or branch that has ended; set a name in it and read that, "
                "write a loop out by k.static(range(n)), or with the builder carry it out: "
                "carried=[x], yield_, results"
            )

    # ---- barriers ----

    def barrier(self, scope: str = "workgroup") -> None:
        """Wait for the workgroup; "storage" also shows its writes to buffers."""
        self._barriers[self.emit("barrier", None, (), scope)] = user_location()

    def build(self) -> Kernel:
        """Return the kernel.  Raises KernelError for a barrier that some never reach."""
        kernel = replace(super().build(), lines=self._lines)
        if self._barriers:
            for node in stray_barriers(kernel):
                self._refuse_barrier(self._barriers[node])
        return kernel

    def _refuse_barrier(self, line: str) -> NoReturn:
        where = "an if_ or a loop that only some run; move it out"
        if self._is_by_element:
            where = (
                "a kernel without a grid, where some have no element; give it one: kernel(grid=...)"
            )
        error = KernelError(
            f"kernel '{self.name}' requires all invocations of a workgroup to come by its barrier "
            f"at {line}, got one in {where}"
        )
        error.location = line
        raise error


class _KnownLoop(ForLoop[Value]):
    """A loop between constants tells how far its counter goes."""

    def __enter__(self) -> ForLoop[Value]:
        super().__enter__()
        scope, (start, stop) = self._builder, self._bounds
        if isinstance(scope, KernelScope):
            scope.note_counter(self.index.node, start, stop, self._attr[0])
        return self


def _known(size: Any) -> Any:
    """Return a size of the launch as a number that is built in."""
    return operator.index(size) if isinstance(size, Symbol) else size
