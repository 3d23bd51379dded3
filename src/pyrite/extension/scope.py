"""What a kernel in Python is written with: a builder with which nothing can go astray.

Our own kernels run without tests, because their indices are proved.  Here every index is tested,
of tensors and of memory of the workgroup, unless it is known to be inside: a counter of a loop with
fixed bounds, a coordinate of the point itself, sums and products of such.  Outside, ``x[i, j]`` is
an error, raised by each read of what comes of the kernel, and ``x.get(i, j)`` is 0.  A division of
integers by zero gives 0.  So no kernel of an application touches memory that is not its own, or
ends the process, on any runtime.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pyrite.backend.cube.operand import invocation_of, unravel
from pyrite.errors import KernelError
from pyrite.kernel import KernelBuilder, Memory, Value
from pyrite.kernel.build import Branch, ForLoop, Operand, WhileLoop
from pyrite.kernel.ir import Access, Kernel, Kind, Node, Region, Type, dtype_of, scalar
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.kernel.uniformity import stray_barriers
from pyrite.op import user_location
from pyrite.types import DTypeLike, Number, Shape, bool_, uint32
from pyrite.types import dtype as as_dtype


class KernelScope(KernelBuilder):
    """A `KernelBuilder` that knows which point it is at, and has mathematics.

    ``at`` are the coordinates of the element of the first output that this invocation makes; empty
    for a kernel with a grid of its own.  ``math`` has exp, log, tanh, erf and the like, as
    `pyrite.algebra` lists them, within a few ulp on every device.
    """

    def __init__(self, name: str, *, workgroup_size: tuple[int, ...], grid: int) -> None:
        super().__init__(name, workgroup_size=workgroup_size, grid=grid)
        self.math = RecordingAlgebra(self)
        self.at: tuple[Value, ...] = ()
        #: What was recorded an access of that may be outside; if any, an error word is bound last.
        self.tested: dict[str, None] = {}
        #: Least and greatest value of nodes; (None, None) where they are not known.
        self._known: dict[Node, Range] = {}
        self._fault: tuple[Memory, Value] | None = None
        #: What was computed in loops and branches that have ended.
        self._ended: set[Node] = set()
        #: The lines of barriers.
        self._barriers: dict[Node, str] = {}
        self._is_by_element = False

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Name the mathematics where it is looked for in the scope itself."""
            use = f"; use k.math.{name}" if hasattr(RecordingAlgebra, name) else ""
            message = f"{type(self).__name__!r} object has no attribute {name!r}{use}"
            raise AttributeError(message, name=name, obj=self)

    def stand_at(self, shape: Shape) -> Value:
        """Set `at` to the point of a shape; return the number of the invocation, which may be none.

        What is recorded next stands under a test that the number is less than the elements.
        """
        index = invocation_of(self)
        self._is_by_element = True
        self.at = tuple(self.index(c) for c in unravel(self, index, shape))
        for coordinate, size in zip(self.at, shape, strict=True):
            self._known[coordinate.node] = (0, size - 1)
        return index

    def for_(
        self,
        start: Operand,
        stop: Operand,
        *,
        step: int = 1,
        carried: Sequence[Value] = (),
        unroll: bool = False,
    ) -> ForLoop[Value]:
        """Open a counted loop: ``with k.for_(0, n, carried=[total]) as loop``."""
        self._require_values("for_", carried)
        return _KnownLoop(self, self.index(start), self.index(stop), step, carried, unroll)

    def while_(self, carried: Sequence[Value]) -> WhileLoop[Value]:
        """Open a loop on carried values: ``with k.while_([x]) as loop``."""
        self._require_values("while_", carried)
        return super().while_(carried)

    def if_(self, condition: Value) -> Branch[Value]:
        """Open a branch: ``with k.if_(c) as branch``, then maybe ``with branch.else_()``."""
        if not isinstance(condition, Value) or condition.type is not scalar(bool_):
            raise KernelError(
                f"if_ requires a bool of the kernel, as i < n, got {_shown(condition)}; for what "
                "is known while the kernel is written use Python's if"
            )
        return super().if_(condition)

    def _require_values(self, loop: str, carried: Sequence[Value]) -> None:
        given = (carried,) if isinstance(carried, Value) else carried
        wrong = [v for v in given if not isinstance(v, Value)]
        if wrong or given is not carried:
            raise KernelError(
                f"{loop} requires carried=[...] with values of the kernel, got "
                f"{_shown((wrong or given)[0])}; write carried=[k.const(0.0, pyrite.float32)]"
            )

    def const(self, value: Number | Sequence[Number], type: Type | DTypeLike) -> Value:
        """Return a constant, rounded to the dtype; of a vector one number or one for each."""
        return super().const(value, type if isinstance(type, Type) else as_dtype(type))

    def cast(self, x: Value, dtype: DTypeLike) -> Value:
        """Convert to a dtype other than bool."""
        return super().cast(x, as_dtype(dtype))

    def shared(self, dtype: DTypeLike, size: int, *, access: Access = "read_write") -> Scratch:
        """Allocate memory of the workgroup; undefined until written."""
        return Scratch(self, super().shared(as_dtype(dtype), size, access=access).node, size)

    def private(self, dtype: DTypeLike, size: int) -> Scratch:
        """Allocate memory of the invocation; undefined until written."""
        return Scratch(self, super().private(as_dtype(dtype), size).node, size)

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
        return super().emit(kind, type, inputs, attr, regions)

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
                "computed in a loop or branch that has ended; carry it out: carried=[x], yield_, "
                "results (a Python variable that is set again inside is such a value)"
            )

    # ---- barriers ----

    def barrier(self, scope: str = "workgroup") -> None:
        """Wait for the workgroup; "storage" also shows its writes to buffers."""
        self._barriers[self.emit("barrier", None, (), scope)] = user_location()

    def build(self) -> Kernel:
        """Return the kernel.  Raises KernelError for a barrier that some never reach."""
        kernel = super().build()
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

    # ---- what might trap or go astray ----

    def alu(self, name: str, *operands: Operand) -> Value:
        """Apply an operation; of integers, x // 0 and x % 0 are 0, where a processor would trap."""
        divisor = operands[-1]
        if name not in ("div", "rem") or isinstance(divisor, float):
            return super().alu(name, *operands)
        if not isinstance(divisor, Value):
            # A number takes the type of the value beside it.
            assert isinstance(operands[0], Value)
            divisor = self.value(divisor, operands[0].type)
        low, high = self._range(divisor.node)
        is_safe = divisor.dtype.is_float or (low is not None and (low > 0 or (high or 0) < -1))
        return (
            super().alu(name, *operands) if is_safe else self._guarded(name, operands[0], divisor)
        )

    def _guarded(self, name: str, x: Operand, y: Value) -> Value:
        is_zero = y == 0
        bad = is_zero
        if y.dtype.kind == "int":
            # The least integer has no negative: x // -1 is -x, which wraps around, x % -1 is 0.
            bad = bad | (y == -1)
        found = super().alu(name, x, self.select(bad, 1, y))
        if y.dtype.kind == "int" and name == "div":
            found = self.select(y == -1, 0 - found, found)
        return self.select(is_zero, 0, found)

    def inside(self, x: Value, size: int) -> Value | None:
        """Return whether 0 <= x < size, or None where that is known."""
        low, high = self._range(x.node)
        if low is not None and high is not None and 0 <= low and high < size:
            return None
        found = self.const(size > 0, bool_)
        if size <= int(x.dtype.highest):
            found = found & (x < size)
        return found if x.dtype.kind == "uint" else found & (x >= 0)

    def fail(self, failed: Value, name: str) -> None:
        """Have each read of what comes of the kernel raise IndexRangeError, if that is true."""
        self.tested[name] = None
        if self._fault is None:
            word = self.buffer("error_word", uint32, "atomic")
            self._fault = word, self.scalar("error_number", uint32)
        self.error(self._fault[0], failed, self._fault[1])

    def _range(self, node: Node) -> Range:
        """Return the least and the greatest value of a node."""
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = self._found_range(node)
        return found

    def _found_range(self, node: Node) -> Range:
        if node.kind == "const" and not isinstance(node.attr, tuple):
            return node.attr, node.attr
        if node.kind == "builtin" and node.attr[0] == "local_id":
            return 0, self.workgroup_size[node.attr[1]] - 1
        if node.kind == "builtin" and node.attr[0] == "local_index":
            return 0, math.prod(self.workgroup_size) - 1
        if node.kind != "alu" or node.attr not in _OF_ENDS:
            return None, None
        x, y = (self._range(i) for i in node.inputs)
        if x[0] is None or y[0] is None:
            return None, None
        ends = [_OF_ENDS[node.attr](a, b) for a in x for b in y]
        dtype = dtype_of(node)
        # Beyond its dtype it wraps around, to anything.
        fits = dtype.lowest <= min(ends) and max(ends) <= dtype.highest
        return (min(ends), max(ends)) if fits else (None, None)


def _shown(value: Any) -> str:
    return str(value.type) if isinstance(value, Value) else repr(value)


Range = tuple[int, int] | tuple[None, None]

#: Operations whose extremes lie at the extremes of their operands.
_OF_ENDS: dict[str, Callable[[Any, Any], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
}  # fmt: skip


class _KnownLoop(ForLoop[Value]):
    """A loop between constants tells how far its counter goes."""

    def __enter__(self) -> ForLoop[Value]:
        super().__enter__()
        scope, (start, stop) = self._builder, self._bounds
        if isinstance(scope, KernelScope) and start.node.kind == stop.node.kind == "const":
            scope._known[self.index.node] = (start.node.attr, stop.node.attr - 1)
        return self


class Scratch(Memory):
    """Memory of the workgroup or the invocation; an access outside is an error as of a tensor."""

    __slots__ = ("_scope", "size")

    def __init__(self, scope: KernelScope, node: Node, size: int) -> None:
        super().__init__(scope, node)
        self._scope = scope
        #: The number of its elements.
        self.size = size

    def load(
        self,
        index: Operand,
        *,
        width: int = 1,
        mask: Value | None = None,
        other: Operand = 0,
        is_aligned: bool = False,
    ) -> Value:
        """Return ``width`` elements from index on; 0 outside."""
        inside = self._inside(index, width, mask)
        return super().load(index, width=width, mask=inside, other=other, is_aligned=is_aligned)

    def store(
        self,
        index: Operand,
        value: Operand,
        *,
        mask: Value | None = None,
        is_aligned: bool = False,
    ) -> None:
        """Write value, a scalar or a vector; nothing outside."""
        width = value.width if isinstance(value, Value) else 1
        inside = self._inside(index, width, mask)
        super().store(index, value, mask=inside, is_aligned=is_aligned)

    def atomic(
        self,
        name: str,
        index: Operand,
        value: Operand = 0,
        *,
        expected: Operand | None = None,
        mask: Value | None = None,
    ) -> Value:
        """Change one element at once, by an operation of `ATOMICS`; return what it was."""
        inside = self._inside(index, 1, mask)
        return super().atomic(name, index, value, expected=expected, mask=inside)

    def _inside(self, index: Operand, width: int, mask: Value | None) -> Value | None:
        """Return the mask of an access, with the test of the index where it needs one."""
        scope = self._scope
        at = scope.index(index)
        if at.width != 1 or (mask is not None and mask.width != 1 != width):
            raise KernelError(
                f"memory of a workgroup requires one index for {width} elements, got {at.type}; "
                "take them one by one"
            )
        test = scope.inside(at, self.size - width + 1)
        if test is None:
            return mask
        scope.fail(~test if mask is None else mask & ~test, "its shared or private memory")
        both = test if mask is None else mask & test
        return both if width == 1 else scope.splat(both, width)
