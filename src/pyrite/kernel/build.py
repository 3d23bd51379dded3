"""Writing kernels in Python: a builder whose values carry operators, so that they read as code.

    b = KernelBuilder("scale", workgroup_size=256)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    n = b.scalar("n", int32)
    i = b.global_id()
    with b.if_(i < n):
        y[i] = x[i] * 2.0
    kernel = b.build()

Python runs at build time: a Python loop unrolls, a Python number is a constant of the type of the
value beside it, and a scalar beside a vector is repeated.  The builder is literal, it folds
nothing; but a pure node is made once per scope (hash-consed): ``i + 1`` twice costs one node.

Operators: ``+ - *``, ``/`` of floats, ``//`` and ``%`` of integers (truncated as in C: the same as
Python's where nothing is negative), ``<< >> & | ^ ~``, comparisons.  ``if``, ``and``, ``while`` of
a value are errors: use ``b.if_``, ``&``, ``b.while_``, or ``b.select``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from pyrite.errors import KernelError
from pyrite.kernel.ir import (
    ACCEPTED,
    OPCODES,
    Access,
    Kernel,
    Kind,
    Node,
    Region,
    Space,
    Type,
    scalar,
    vector,
)
from pyrite.types import DType, Number, bool_, float32, float64, int32, uint32


class Value:
    """A node that a kernel computes, with operators; made by a `KernelBuilder`."""

    __slots__ = ("builder", "node", "type")
    __hash__ = None  # type: ignore[assignment]  # == records a comparison

    def __init__(self, builder: KernelBuilder, node: Node) -> None:
        self.builder = builder
        self.node = node
        self.type: Type = node.type  # type: ignore[assignment]  # only nodes with a type

    @property
    def dtype(self) -> DType:
        """The dtype of each element."""
        return self.type.dtype

    @property
    def width(self) -> int:
        """The number of elements; 1 for a scalar."""
        return self.type.width

    def __add__(self, y: Operand) -> Value:
        return self.builder.alu("add", self, y)

    def __radd__(self, x: Operand) -> Value:
        return self.builder.alu("add", x, self)

    def __sub__(self, y: Operand) -> Value:
        return self.builder.alu("sub", self, y)

    def __rsub__(self, x: Operand) -> Value:
        return self.builder.alu("sub", x, self)

    def __mul__(self, y: Operand) -> Value:
        return self.builder.alu("mul", self, y)

    def __rmul__(self, x: Operand) -> Value:
        return self.builder.alu("mul", x, self)

    def __truediv__(self, y: Operand) -> Value:
        return self.builder.divide(self, y)

    def __rtruediv__(self, x: Operand) -> Value:
        return self.builder.divide(x, self)

    def __floordiv__(self, y: Operand) -> Value:
        return self.builder.divide_integers(self, y)

    def __rfloordiv__(self, x: Operand) -> Value:
        return self.builder.divide_integers(x, self)

    def __mod__(self, y: Operand) -> Value:
        return self.builder.alu("rem", self, y)

    def __rmod__(self, x: Operand) -> Value:
        return self.builder.alu("rem", x, self)

    def __lshift__(self, y: Operand) -> Value:
        return self.builder.alu("shl", self, y)

    def __rshift__(self, y: Operand) -> Value:
        return self.builder.alu("shr", self, y)

    def __and__(self, y: Operand) -> Value:
        return self.builder.alu("and", self, y)

    def __rand__(self, x: Operand) -> Value:
        return self.builder.alu("and", x, self)

    def __or__(self, y: Operand) -> Value:
        return self.builder.alu("or", self, y)

    def __ror__(self, x: Operand) -> Value:
        return self.builder.alu("or", x, self)

    def __xor__(self, y: Operand) -> Value:
        return self.builder.alu("xor", self, y)

    def __rxor__(self, x: Operand) -> Value:
        return self.builder.alu("xor", x, self)

    def __invert__(self) -> Value:
        return self.builder.alu("not", self)

    def __neg__(self) -> Value:
        return self.builder.alu("neg", self)

    def __abs__(self) -> Value:
        return self.builder.alu("abs", self)

    def __lt__(self, y: Operand) -> Value:
        return self.builder.alu("lt", self, y)

    def __le__(self, y: Operand) -> Value:
        return self.builder.alu("le", self, y)

    def __gt__(self, y: Operand) -> Value:
        return self.builder.alu("gt", self, y)

    def __ge__(self, y: Operand) -> Value:
        return self.builder.alu("ge", self, y)

    def __eq__(self, y: Operand) -> Value:  # type: ignore[override]
        return self.builder.alu("eq", self, y)

    def __ne__(self, y: Operand) -> Value:  # type: ignore[override]
        return self.builder.alu("ne", self, y)

    def __getitem__(self, element: int) -> Value:
        return self.builder.extract(self, element)

    def __bool__(self) -> bool:
        raise KernelError(
            "if, while, and, or, not require a Python bool, got a value of a kernel, which is "
            "known only when the kernel runs; use select, if_ or while_, and & | ~"
        )

    def __repr__(self) -> str:
        return f"<{self.node}>"


Operand = Value | Number


class Memory:
    """A buffer or an allocation, indexed by elements: ``y[i] = x[i]``."""

    __slots__ = ("builder", "node")

    def __init__(self, builder: KernelBuilder, node: Node) -> None:
        self.builder = builder
        self.node = node

    @property
    def dtype(self) -> DType:
        """The dtype of one element."""
        return self.node.value_type.dtype

    def __getitem__(self, index: Operand) -> Value:
        return self.load(index)

    def __setitem__(self, index: Operand, value: Operand) -> None:
        self.store(index, value)

    def load(
        self,
        index: Operand,
        *,
        width: int = 1,
        mask: Value | None = None,
        other: Operand = 0,
        is_aligned: bool = False,
    ) -> Value:
        """Return ``width`` elements from index on, or the elements at a vector of indices.

        Where the mask is false nothing is read and the result is ``other``.  ``is_aligned``
        promises that a scalar index is a multiple of the width.
        """
        b = self.builder
        at = b.index(index)
        type = vector(self.dtype, at.width if at.width > 1 else width)
        inputs = [self.node, at.node]
        if mask is not None:
            inputs += [mask.node, b.value(other, type).node]
        aligned = is_aligned or type.width == 1
        return Value(b, b.emit("load", type, tuple(inputs), aligned))

    def store(
        self,
        index: Operand,
        value: Operand,
        *,
        mask: Value | None = None,
        is_aligned: bool = False,
    ) -> None:
        """Write value, a scalar or a vector, where the mask is true; the reverse of `load`."""
        b = self.builder
        at = b.index(index)
        width = value.width if isinstance(value, Value) else 1
        type = vector(self.dtype, max(at.width, width))
        inputs = [self.node, at.node, b.value(value, type).node]
        if mask is not None:
            inputs.append(mask.node)
        b.emit("store", None, tuple(inputs), is_aligned or type.width == 1)

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
        b = self.builder
        type = scalar(self.dtype)
        inputs = [self.node, b.index(index).node, b.value(value, type).node]
        if expected is not None:
            inputs.append(b.value(expected, type).node)
        if mask is not None:
            inputs.append(mask.node)
        return Value(b, b.emit("atomic", type, tuple(inputs), (name, mask is not None)))


class _Scope:
    """A region that is being written."""

    __slots__ = ("body", "made", "parameters")

    def __init__(self, parameters: Iterable[Node] = ()) -> None:
        self.parameters = tuple(parameters)
        self.body: list[Node] = []
        self.made: dict[object, Node] = {}

    def region(self, yields: Sequence[Value] = ()) -> Region:
        return Region(self.parameters, tuple(self.body), tuple(y.node for y in yields))


class KernelBuilder:
    """Records the nodes of one kernel; see the head of this file.

    ``workgroup_size`` is a number or up to three; ``grid`` the number of axes of workgroups;
    ``index`` the dtype of indices, counters and builtins.
    """

    def __init__(
        self,
        name: str,
        *,
        workgroup_size: int | tuple[int, ...] = 1,
        grid: int = 1,
        index: DType = int32,
    ) -> None:
        size = (workgroup_size,) if isinstance(workgroup_size, int) else workgroup_size
        if not 1 <= len(size) <= 3:
            raise KernelError(f"kernel {name!r} requires one to three sizes, got {size}")
        x, y, z = (*size, 1, 1)[:3]
        self.name = name
        self.workgroup_size = (x, y, z)
        self.grid = grid
        self.index_type = scalar(index)
        self._parameters: list[Node] = []
        self._allocations: list[Node] = []
        self._scopes = [_Scope()]

    def build(self) -> Kernel:
        """Return the kernel.  It is not verified: see `verify`."""
        if len(self._scopes) != 1:
            raise KernelError(f"kernel {self.name!r} requires every region to be closed")
        root = self._scopes[0]
        body = Region((), (*self._allocations, *root.body))
        return Kernel(
            self.name, tuple(self._parameters), body, self.workgroup_size, self.grid,
            self.index_type.dtype,
        )  # fmt: skip

    # ---- parameters and memory ----

    def buffer(self, name: str, dtype: DType, access: Access) -> Memory:
        """Declare the next buffer parameter."""
        node = Node("buffer", scalar(dtype), (), (len(self._parameters), name, access))
        self._parameters.append(node)
        return Memory(self, node)

    def scalar(self, name: str, dtype: DType) -> Value:
        """Declare the next parameter as a number."""
        node = Node("argument", scalar(dtype), (), (len(self._parameters), name))
        self._parameters.append(node)
        return Value(self, node)

    def shared(self, dtype: DType, size: int, *, access: Access = "read_write") -> Memory:
        """Allocate memory of the workgroup; undefined until written."""
        return self._allocate("shared", dtype, size, access)

    def private(self, dtype: DType, size: int) -> Memory:
        """Allocate memory of the invocation; undefined until written."""
        return self._allocate("private", dtype, size, "read_write")

    def _allocate(self, space: Space, dtype: DType, size: int, access: Access) -> Memory:
        node = Node("alloc", scalar(dtype), (), (space, size, access))
        self._allocations.append(node)
        return Memory(self, node)

    # ---- numbers and builtins ----

    def const(self, value: Number | Sequence[Number], type: Type | DType) -> Value:
        """Return a constant, rounded to the dtype; of a vector one number or one for each."""
        of = scalar(type) if isinstance(type, DType) else type
        if isinstance(value, int | float):
            return Value(self, self.emit("const", of, (), exact(value, of.dtype)))
        numbers = tuple(exact(v, of.dtype) for v in value)
        return Value(self, self.emit("const", of, (), numbers))

    def value(self, x: Operand, type: Type) -> Value:
        """Return x as a value of the type: a number as a constant, a scalar repeated."""
        if isinstance(x, Value):
            if x.type is not type and x.width == 1 and x.type is type.element:
                return self.splat(x, type.width)
            return x
        return self.const(x, type)

    def index(self, x: Operand) -> Value:
        """Return x, or a number as a constant of the index dtype."""
        return x if isinstance(x, Value) else self.const(x, self.index_type)

    def workgroup_id(self, axis: int = 0) -> Value:
        """Which workgroup of the grid this is."""
        return self._builtin("workgroup_id", axis)

    def num_workgroups(self, axis: int = 0) -> Value:
        """How many workgroups there are."""
        return self._builtin("num_workgroups", axis)

    def local_id(self, axis: int = 0) -> Value:
        """Which invocation of the workgroup this is, on an axis."""
        return self._builtin("local_id", axis)

    def local_index(self) -> Value:
        """Which invocation of the workgroup this is, axis 0 fastest."""
        return self._builtin("local_index", 0)

    def subgroup_lane(self) -> Value:
        """Which invocation of the subgroup this is."""
        return self._builtin("subgroup_lane", 0)

    def subgroup_size(self) -> Value:
        """How many invocations a subgroup has."""
        return self._builtin("subgroup_size", 0)

    def global_id(self, axis: int = 0) -> Value:
        """Which invocation of the whole grid this is, on an axis."""
        return self.workgroup_id(axis) * self.workgroup_size[axis] + self.local_id(axis)

    def _builtin(self, name: str, axis: int) -> Value:
        return Value(self, self.emit("builtin", self.index_type, (), (name, axis)))

    # ---- arithmetic ----

    def alu(self, name: str, *operands: Operand) -> Value:
        """Apply an operation of `OPCODES` to values of one type; numbers take the type of theirs.

        Raises KernelError when the types differ, or the operation does not take them.
        """
        opcode = OPCODES[name]
        first = operands[0]
        type = first.type if isinstance(first, Value) else None
        inputs = tuple([x.node for x in operands if isinstance(x, Value) and x.type is type])
        if type is None or len(inputs) != len(operands):
            type = self._common_type(name, operands)
            inputs = tuple([self.value(x, type).node for x in operands])
        if type.dtype not in ACCEPTED[opcode.accepts] or len(operands) != opcode.arity:
            raise KernelError(
                f"{name} requires {opcode.arity} operands of {opcode.accepts} dtype, got "
                f"{len(operands)} of {type}"
            )
        out = type.with_dtype(bool_) if opcode.compares else type
        return Value(self, self.emit("alu", out, inputs, name))

    def _common_type(self, name: str, operands: tuple[Operand, ...]) -> Type:
        """Return the type in which operands meet: that of the values, the widest of them."""
        found: Type | None = None
        for x in operands:
            if isinstance(x, Value) and x.type is not found:
                if found is None or (found.width == 1 and x.type.element is found):
                    found = x.type
                elif x.type is not found.element:
                    raise KernelError(
                        f"{name} requires operands of one type, got {found} and {x.type}; cast one"
                    )
        if found is None:
            raise KernelError(f"{name} requires a value among its operands, got numbers only")
        return found

    def divide(self, x: Operand, y: Operand) -> Value:
        """x / y of floats; `divide_integers` says it for integers."""
        result = self.alu("div", x, y)
        if not result.dtype.is_float:
            raise KernelError(f"/ requires floats, got {result.type}; use //")
        return result

    def divide_integers(self, x: Operand, y: Operand) -> Value:
        """x / y of integers, truncated; y = 0 is a fault."""
        result = self.alu("div", x, y)
        if result.dtype.is_float:
            raise KernelError(f"// requires integers, got {result.type}; use / and floor")
        return result

    def min(self, x: Operand, y: Operand) -> Value:
        """X if x < y else y."""
        return self.alu("min", x, y)

    def max(self, x: Operand, y: Operand) -> Value:
        """X if x > y else y."""
        return self.alu("max", x, y)

    def fma(self, x: Operand, y: Operand, z: Operand) -> Value:
        """x * y + z, rounded once where the target can."""
        return self.alu("fma", x, y, z)

    def sqrt(self, x: Value) -> Value:
        """The square root."""
        return self.alu("sqrt", x)

    def floor(self, x: Value) -> Value:
        """The greatest whole number <= x."""
        return self.alu("floor", x)

    def rint(self, x: Value) -> Value:
        """The nearest whole number, halves to even."""
        return self.alu("rint", x)

    def select(self, condition: Value, x: Operand, y: Operand) -> Value:
        """X where the condition is true, else y; both are computed."""
        type = self._common_type("select", (x, y))
        if condition.width > 1 and type.width == 1:
            type = type.with_width(condition.width)
        inputs = (condition.node, self.value(x, type).node, self.value(y, type).node)
        return Value(self, self.emit("select", type, inputs))

    def cast(self, x: Value, dtype: DType) -> Value:
        """Convert to a dtype other than bool; see the kind ``cast`` for what does not fit."""
        if x.dtype is dtype:
            return x
        return Value(self, self.emit("cast", x.type.with_dtype(dtype), (x.node,)))

    def bitcast(self, x: Value, dtype: DType) -> Value:
        """Return the same bits as another dtype of the same size."""
        if x.dtype is dtype:
            return x
        return Value(self, self.emit("bitcast", x.type.with_dtype(dtype), (x.node,)))

    # ---- vectors ----

    def splat(self, x: Value, width: int) -> Value:
        """Return a vector of which every element is x."""
        return Value(self, self.emit("splat", vector(x.dtype, width), (x.node,)))

    def make(self, elements: Sequence[Value]) -> Value:
        """Return the vector of the scalars."""
        type = vector(elements[0].dtype, len(elements))
        return Value(self, self.emit("make", type, tuple(e.node for e in elements)))

    def extract(self, x: Value, element: int) -> Value:
        """Return one element of a vector."""
        if not 0 <= element < x.width:
            raise KernelError(f"extract requires 0 <= element < {x.width}, got {element}")
        return Value(self, self.emit("extract", x.type.element, (x.node,), element))

    # ---- order, errors, subgroups ----

    def barrier(self, scope: str = "workgroup") -> None:
        """Wait for the workgroup; "storage" also shows its writes to buffers."""
        self.emit("barrier", None, (), scope)

    def error(self, memory: Memory, failed: Value, code: Operand) -> None:
        """Record the code in the error word where ``failed`` is true."""
        node = self.value(code, scalar(uint32)).node
        self.emit("error", None, (memory.node, failed.node, node))

    def subgroup_reduce(self, name: str, x: Value) -> Value:
        """Combine x of the subgroup's invocations; all get the result."""
        return Value(self, self.emit("subgroup_reduce", x.type, (x.node,), name))

    def subgroup_scan(self, name: str, x: Value, *, is_inclusive: bool = True) -> Value:
        """Combine x of the lanes up to this one."""
        return Value(self, self.emit("subgroup_scan", x.type, (x.node,), (name, is_inclusive)))

    def subgroup_shuffle(self, x: Value, n: Operand, how: str = "index") -> Value:
        """Return x of another lane: "index" n, lane "xor" n, "up" by n or "down" by n."""
        inputs = (x.node, self.index(n).node)
        return Value(self, self.emit("subgroup_shuffle", x.type, inputs, how))

    def subgroup_broadcast(self, x: Value) -> Value:
        """Return x of the first active lane."""
        return Value(self, self.emit("subgroup_broadcast", x.type, (x.node,)))

    def subgroup_ballot(self, x: Value) -> Value:
        """Return the bools of all lanes as 128 bits in four uint32."""
        return Value(self, self.emit("subgroup_ballot", vector(uint32, 4), (x.node,)))

    # ---- control ----

    def for_(
        self,
        start: Operand,
        stop: Operand,
        *,
        step: int = 1,
        carried: Sequence[Value] = (),
        unroll: bool = False,
    ) -> ForLoop:
        """Open a counted loop: ``with b.for_(0, n, carried=[x]) as loop``."""
        return ForLoop(self, self.index(start), self.index(stop), step, carried, unroll)

    def while_(self, carried: Sequence[Value]) -> WhileLoop:
        """Open a loop on carried values: ``with b.while_([x]) as loop``."""
        return WhileLoop(self, carried)

    def if_(self, condition: Value) -> Branch:
        """Open a branch: ``with b.if_(c) as branch``, then maybe ``with branch.else_()``."""
        return Branch(self, condition)

    # ---- recording ----

    def emit(
        self,
        kind: Kind,
        type: Type | None,
        inputs: tuple[Node, ...] = (),
        attr: Any = None,
        regions: tuple[Region, ...] = (),
    ) -> Node:
        """Append a node, or return the equal pure node that is in scope already."""
        if kind not in _SHARED:
            node = Node(kind, type, inputs, attr, regions)
            self._scopes[-1].body.append(node)
            return node
        # repr tells -0.0 from 0.0, and NaN equals itself.
        key = (kind, type, repr(attr) if kind == "const" else attr, inputs)
        for scope in self._scopes:
            if (found := scope.made.get(key)) is not None:
                return found
        scope = self._scopes[-1]
        node = scope.made[key] = Node(kind, type, inputs, attr)
        scope.body.append(node)
        return node

    def open(self, parameters: Iterable[Node] = ()) -> None:
        """Begin a region."""
        self._scopes.append(_Scope(parameters))

    def close(self, yields: Sequence[Value] = ()) -> Region:
        """End the region begun last and return it."""
        return self._scopes.pop().region(yields)

    def discard(self) -> None:
        """Drop the region begun last, of which an exception broke the writing."""
        self._scopes.pop()

    def position(self) -> int:
        """The number of nodes in the region that is being written."""
        return len(self._scopes[-1].body)

    def replace_last(self, node: Node) -> None:
        """Put a node in the place of the last one: a branch that got an ``else_``."""
        self._scopes[-1].body[-1] = node

    def results(self, node: Node, like: Sequence[Value]) -> tuple[Value, ...]:
        """Return what a control node yields."""
        return tuple(
            Value(self, self.emit("result", v.type, (node,), i)) for i, v in enumerate(like)
        )


#: Kinds of which an equal node in scope is the same value.
_SHARED = frozenset(
    ("const", "builtin", "alu", "cast", "bitcast", "select", "splat", "make", "extract", "result")
)


class _Loop:
    """What both loops share: carried values, their yields, their results."""

    def __init__(self, builder: KernelBuilder, carried: Sequence[Value]) -> None:
        self._builder = builder
        self._initial = tuple(carried)
        self._yields: tuple[Value, ...] | None = None
        #: The carried values as the body sees them.
        self.carried: tuple[Value, ...] = ()
        #: The carried values after the loop; set when it is closed.
        self.results: tuple[Value, ...] = ()

    def yield_(self, *values: Operand) -> None:
        """Say what the carried values are in the next round.  Once, at the end of the body."""
        self._yields = _yielded(self._builder, values, [v.type for v in self._initial])

    def _parameters(self, extra: tuple[Type, ...] = ()) -> tuple[Node, ...]:
        types = (*extra, *(v.type for v in self._initial))
        return tuple(Node("parameter", t, (), i) for i, t in enumerate(types))

    def _close(self) -> Region:
        if self._yields is None:
            if self._initial:
                raise KernelError("a loop with carried values requires yield_ at its end")
            self._yields = ()
        return self._builder.close(self._yields)


class ForLoop(_Loop):
    """A counted loop that is being written: `index`, `carried`, `yield_`, then `results`."""

    def __init__(
        self,
        builder: KernelBuilder,
        start: Value,
        stop: Value,
        step: int,
        carried: Sequence[Value],
        unroll: bool,
    ) -> None:
        super().__init__(builder, carried)
        self._bounds = (start, stop)
        self._attr = (step, unroll)
        #: The counter; set when the loop is entered.
        self.index: Value = start

    def __enter__(self) -> ForLoop:
        parameters = self._parameters((self._builder.index_type,))
        self._builder.open(parameters)
        self.index, *carried = (Value(self._builder, p) for p in parameters)
        self.carried = tuple(carried)
        return self

    def __exit__(
        self, error: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        if error is not None:
            return self._builder.discard()
        region = self._close()
        inputs = tuple(v.node for v in (*self._bounds, *self._initial))
        node = self._builder.emit("for", None, inputs, self._attr, (region,))
        self.results = self._builder.results(node, self._initial)
        return None


class WhileLoop(_Loop):
    """A loop that is being written: compute the condition, `condition`, the body, `yield_`."""

    def __init__(self, builder: KernelBuilder, carried: Sequence[Value]) -> None:
        super().__init__(builder, carried)
        self._condition: Region | None = None

    def __enter__(self) -> WhileLoop:
        self._open()
        return self

    def condition(self, value: Value) -> None:
        """End the part that is run to decide; from here on the loop's body is written."""
        self._condition = self._builder.close((value,))
        self._open()

    def _open(self) -> None:
        parameters = self._parameters()
        self._builder.open(parameters)
        self.carried = tuple(Value(self._builder, p) for p in parameters)

    def __exit__(
        self, error: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        if error is not None:
            return self._builder.discard()
        if self._condition is None:
            raise KernelError("while_ requires a call of condition(...) in its body")
        regions = (self._condition, self._close())
        inputs = tuple(v.node for v in self._initial)
        node = self._builder.emit("while", None, inputs, None, regions)
        self.results = self._builder.results(node, self._initial)
        return None


class Branch:
    """A branch that is being written: `yield_` in both parts, then `results`."""

    def __init__(self, builder: KernelBuilder, condition: Value) -> None:
        self._builder = builder
        self._condition = condition
        self._parts: list[Region] = []
        self._yields: tuple[Value, ...] = ()
        self._end = 0
        #: What the parts yielded; set when `else_` is closed.
        self.results: tuple[Value, ...] = ()

    def __enter__(self) -> Branch:
        self._builder.open()
        self._yields = ()
        return self

    def else_(self) -> Branch:
        """Open the other part, right after the first: ``with branch.else_():``."""
        if len(self._parts) != 1 or self._builder.position() != self._end:
            raise KernelError("else_ requires to stand right after its if_")
        return self

    def yield_(self, *values: Operand) -> None:
        """Say what this part gives.  Both parts give as many values, of the same types."""
        if self._parts:
            types = [y.value_type for y in self._parts[0].yields]
        else:
            types = [self._type_of(v) for v in values]
        self._yields = _yielded(self._builder, values, types)

    @staticmethod
    def _type_of(value: Operand) -> Type:
        if isinstance(value, Value):
            return value.type
        raise KernelError(f"yield_ requires a value in the first part, got {value}; use const")

    def __exit__(
        self, error: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        builder = self._builder
        if error is not None:
            return builder.discard()
        self._parts.append(builder.close(self._yields))
        inputs = (self._condition.node,)
        if len(self._parts) == 1:
            builder.emit("if", None, inputs, None, (self._parts[0], Region((), ())))
            self._end = builder.position()
            return None
        node = Node("if", None, inputs, None, tuple(self._parts))
        builder.replace_last(node)
        if len(self._parts[0].yields) != len(self._parts[1].yields):
            raise KernelError("if_ and else_ require the same number of yielded values")
        self.results = builder.results(node, self._yields)
        return None


def _yielded(
    builder: KernelBuilder, values: Sequence[Operand], types: Sequence[Type]
) -> tuple[Value, ...]:
    if len(values) != len(types):
        raise KernelError(f"yield_ requires {len(types)} values, got {len(values)}")
    found = tuple(builder.value(v, t) for v, t in zip(values, types, strict=True))
    for value, type in zip(found, types, strict=True):
        if value.type is not type:
            raise KernelError(f"yield_ requires a value of {type}, got {value.type}")
    return found


def exact(value: Number, dtype: DType) -> Number:
    """Return a Python number as the constant of the dtype: floats rounded to it.

    Raises KernelError for an integer that the dtype does not hold, or a fraction for an integer.

    >>> exact(0.1, float32), exact(1, float32), exact(True, int32)
    (0.10000000149011612, 1.0, 1)
    """
    if dtype.is_float:
        return _rounded(float(value), dtype)
    if dtype.is_bool:
        return bool(value)
    whole = int(value) if math.isfinite(value) else None
    if whole is None or whole != value or not dtype.lowest <= whole <= dtype.highest:
        raise KernelError(
            f"a constant requires a whole number between {dtype.lowest} and {dtype.highest} for "
            f"{dtype.name}, got {value}"
        )
    return whole


_SINGLE = struct.Struct("f")


def _rounded(value: float, dtype: DType) -> float:
    if value != value:
        return math.nan
    if dtype is float64:
        return value
    if dtype is not float32:
        return float(dtype.numpy.type(value))
    try:
        single: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return single
