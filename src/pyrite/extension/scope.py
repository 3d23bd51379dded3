"""What a kernel in Python is written with: a builder with which nothing can go astray.

Our own kernels run without tests: their indices are judged beforehand (docs/design/0020).  Here
every index is tested, of tensors and of memory of the workgroup, unless it is known to be inside: a
counter of a loop with fixed bounds, a coordinate of the point itself, sums and products of such.
Outside, ``x[i, j]`` is an error, raised by each read of what comes of the kernel, and ``x.get(i,
j)`` is 0.  Operators mean what they mean on tensors: see `pyrite.extension.arithmetic`.  So no
kernel of an application touches memory that is not its own, or ends the process, on any runtime.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pyrite.backend.cube.operand import invocation_of, unravel
from pyrite.errors import KernelError
from pyrite.extension.arithmetic import Arithmetic
from pyrite.kernel import Memory, Value
from pyrite.kernel.build import Branch, ForLoop, Operand, WhileLoop
from pyrite.kernel.ir import Access, Kernel, Kind, Node, Region, Type, scalar
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.kernel.uniformity import stray_barriers
from pyrite.op import user_location
from pyrite.types import DTypeLike, Number, Shape, bool_, uint32
from pyrite.types import dtype as as_dtype


class KernelScope(Arithmetic):
    """A `KernelBuilder` that knows which point it is at, and has mathematics.

    ``at`` are the coordinates of the element of the first output that this invocation makes; empty
    for a kernel with a grid of its own.  ``math`` has exp, log, tanh, erf and the like, as
    `pyrite.algebra` lists them, within a few ulp on every device.
    """

    def __init__(
        self, name: str, *, workgroup_size: tuple[int, ...], grid: int, counts: tuple[int, ...] = ()
    ) -> None:
        super().__init__(name, workgroup_size=workgroup_size, grid=grid, counts=counts)
        self.at: tuple[Value, ...] = ()
        #: What was recorded an access of that may be outside; if any, an error word is bound last.
        self.tested: dict[str, None] = {}
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
        index = invocation_of(self.plain)
        self._is_by_element = True
        found = unravel(self.plain, index, shape)
        self.at = tuple(self.of(self.plain.index(c).node) for c in found)
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

    # ---- what might go astray ----

    def fail(self, failed: Value, name: str) -> None:
        """Have each read of what comes of the kernel raise IndexRangeError, if that is true."""
        self.tested[name] = None
        if self._fault is None:
            word = self.buffer("error_word", uint32, "atomic")
            self._fault = word, self.scalar("error_number", uint32)
        self.error(self._fault[0], failed, self._fault[1])


def _shown(value: Any) -> str:
    return str(value.type) if isinstance(value, Value) else repr(value)


class _KnownLoop(ForLoop[Value]):
    """A loop between constants tells how far its counter goes."""

    def __enter__(self) -> ForLoop[Value]:
        super().__enter__()
        scope, (start, stop) = self._builder, self._bounds
        if isinstance(scope, KernelScope) and start.node.kind == stop.node.kind == "const":
            scope._noted(self.index, (start.node.attr, stop.node.attr - 1))
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
