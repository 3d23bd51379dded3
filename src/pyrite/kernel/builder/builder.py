"""The builder, and the values and memories that it hands out: they name each other."""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.errors import KernelError
from pyrite.kernel.builder.control import Branch, ForLoop, WhileLoop
from pyrite.kernel.builder.number import exact, numbers_of
from pyrite.kernel.builder.operators import Operators
from pyrite.kernel.builder.recorder import NodeRecorder
from pyrite.kernel.ir import (
    ACCEPTED,
    OPCODES,
    Access,
    Kernel,
    Node,
    Region,
    Space,
    Type,
    scalar,
    vector,
)
from pyrite.symbol import Argument, Symbol, require_known
from pyrite.types import DType, Number, bool_, int32, uint32


class Value(Operators):
    """A node that a kernel computes, with operators; made by a `KernelBuilder`."""

    __slots__ = ("builder", "node", "type")

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

    def apply(self, name: str, *operands: Operand) -> Value:
        """Apply an operation of `OPCODES`."""
        return self.builder.alu(name, *operands)

    def divide(self, x: Operand, y: Operand) -> Value:
        """Return x / y of floats."""
        return self.builder.divide(x, y)

    def floor_divide(self, x: Operand, y: Operand) -> Value:
        """Return x // y, as its builder means it."""
        return self.builder.floor_divide(x, y)

    def remainder(self, x: Operand, y: Operand) -> Value:
        """Return x % y, as its builder means it."""
        return self.builder.remainder(x, y)

    def shift(self, name: str, x: Operand, n: Operand) -> Value:
        """Return x << n or x >> n, as its builder means it."""
        return self.builder.shift(name, x, n)

    def __getitem__(self, element: int) -> Value:
        return self.builder.extract(self, element)

    def __repr__(self) -> str:
        return f"<{self.node}>"


Operand = Value | Number

#: The types of operations on two values of a type that were legal before.
_RESULTS: dict[tuple[str, Type], Type] = {}


def _cast_of(x: DType, y: DType) -> str:
    """Return the end of an error of two dtypes: the cast by which they meet."""
    if x is y:
        return ""
    common = max(x, y, key=lambda d: (d.is_float, d.is_integer, d.itemsize))
    return f"; cast one: k.cast(x, {common.name!r})"


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

    def prefetch(self, index: Operand) -> None:
        """Ask for the line of an element that will be read soon; it need not exist."""
        b = self.builder
        b.emit("prefetch", None, (self.node, b.index(index).node))

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


class KernelBuilder(NodeRecorder):
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
        super().__init__()
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
        self._of_symbols: dict[tuple[str, DType], Value] = {}

    def build(self) -> Kernel:
        """Return the kernel.  It is not verified: see `verify`."""
        if not self.is_closed:
            raise KernelError(f"kernel {self.name!r} requires every region to be closed")
        body = Region((), (*self._allocations, *self.body))
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

    def _argument(self, symbol: Symbol, dtype: DType) -> Value:
        """Return the parameter that a symbol is, in a dtype."""
        known = self._of_symbols.get((symbol.text, dtype))
        if known is None:
            position = len(self._parameters)
            lows = () if symbol.low is None or not dtype.is_integer else (symbol.low,)
            node = Node("argument", scalar(dtype), (), (position, f"n{position}", *lows))
            self._parameters.append(node)
            known = Value(self, node)
            self._of_symbols[symbol.text, dtype] = known
            symbol.symbols.arguments.append(Argument(position, symbol.text, dtype))
        return known

    def shared(self, dtype: DType, size: int, *, access: Access = "read_write") -> Memory:
        """Allocate memory of the workgroup; undefined until written."""
        return self._allocate("shared", dtype, size, access)

    def private(self, dtype: DType, size: int) -> Memory:
        """Allocate memory of the invocation; undefined until written."""
        return self._allocate("private", dtype, size, "read_write")

    def _allocate(self, space: Space, dtype: DType, size: int, access: Access) -> Memory:
        node = Node("alloc", scalar(dtype), (), (space, require_known(size), access))
        self._allocations.append(node)
        return Memory(self, node)

    # ---- numbers and builtins ----

    def const(self, value: Number | Sequence[Number], type: Type | DType) -> Value:
        """Return a constant, rounded to the dtype; of a vector one number or one for each."""
        of = scalar(type) if isinstance(type, DType) else type
        if value.__class__ is int or value.__class__ is float:  # as mostly
            return Value(self, self.emit("const", of, (), exact(value, of.dtype)))
        if isinstance(value, Symbol):
            number = self._argument(value, of.dtype)
            return number if of.width == 1 else self.splat(number, of.width)
        if isinstance(value, int | float):
            return Value(self, self.emit("const", of, (), exact(value, of.dtype)))
        numbers = numbers_of(value, of.width)
        exactly = tuple([exact(n, of.dtype) for n in numbers])
        return Value(self, self.emit("const", of, (), exactly if of.width > 1 else exactly[0]))

    def value(self, x: Operand, type: Type) -> Value:
        """Return x as a value of the type: a number as a constant, a scalar repeated."""
        # Whether it is a value is mostly told by its class; `isinstance` asks the abstract one.
        if x.__class__ is not int and isinstance(x, Value):
            if x.type is not type and x.width == 1 and x.type is type.element:
                return self.splat(x, type.width)
            return x
        return self.const(x, type)

    def index(self, x: Operand) -> Value:
        """Return x, or a number as a constant of the index dtype."""
        is_value = x.__class__ is not int and isinstance(x, Value)
        return x if is_value else self.const(x, self.index_type)  # type: ignore[return-value, arg-type]

    def workgroup_id(self, axis: int = 0) -> Value:
        """Return the position of the workgroup in the grid."""
        return self._builtin("workgroup_id", axis)

    def num_workgroups(self, axis: int = 0) -> Value:
        """Return the number of workgroups."""
        return self._builtin("num_workgroups", axis)

    def local_id(self, axis: int = 0) -> Value:
        """Return the position of the invocation in its workgroup, on an axis."""
        return self._builtin("local_id", axis)

    def local_index(self) -> Value:
        """Return the number of the invocation in its workgroup, axis 0 fastest."""
        return self._builtin("local_index", 0)

    def subgroup_lane(self) -> Value:
        """Return the number of the invocation in its subgroup."""
        return self._builtin("subgroup_lane", 0)

    def subgroup_size(self) -> Value:
        """Return the number of invocations of a subgroup."""
        return self._builtin("subgroup_size", 0)

    def global_id(self, axis: int = 0) -> Value:
        """Return the position of the invocation in the whole grid, on an axis."""
        return self.workgroup_id(axis) * self.workgroup_size[axis] + self.local_id(axis)

    def _builtin(self, name: str, axis: int) -> Value:
        return Value(self, self.emit("builtin", self.index_type, (), (name, axis)))

    # ---- arithmetic ----

    def alu(self, name: str, *operands: Operand) -> Value:
        """Apply an operation of `OPCODES` to values of one type; numbers take the type of theirs.

        Raises KernelError when the types differ, or the operation does not take them.
        """
        if len(operands) == 2:
            x, y = operands
            if x.__class__ is Value is y.__class__ and x.type is y.type:
                out = _RESULTS.get((name, x.type))
                if out is not None:
                    return Value(self, self.emit("alu", out, (x.node, y.node), name))
        opcode = OPCODES[name]
        first = operands[0]
        type = first.type if isinstance(first, Value) else None
        inputs = tuple([x.node for x in operands if isinstance(x, Value) and x.type is type])
        if type is None or len(inputs) != len(operands):
            type = self._common_type(name, operands)
            inputs = tuple([self.value(x, type).node for x in operands])
        if type.dtype not in ACCEPTED[opcode.accepts] or len(operands) != opcode.arity:
            fix = "; choose a number: 1.0 if c else 0.0" if type.dtype is bool_ else ""
            raise KernelError(
                f"{name} requires {opcode.arity} operands of {opcode.accepts} dtype, got "
                f"{len(operands)} of {type}{fix}"
            )
        out = type.with_dtype(bool_) if opcode.compares else type
        if len(operands) == 2:
            _RESULTS[name, type] = out
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
                        f"{name} requires operands of one type, got {found} and {x.type}"
                        f"{_cast_of(found.dtype, x.dtype)}"
                    )
        if found is None:
            raise KernelError(f"{name} requires a value among its operands, got numbers only")
        return found

    def divide(self, x: Operand, y: Operand) -> Value:
        """Return x / y of floats; `floor_divide` says it for integers."""
        result = self.alu("div", x, y)
        if not result.dtype.is_float:
            raise KernelError(f"/ requires floats, got {result.type}; use //")
        return result

    def floor_divide(self, x: Operand, y: Operand) -> Value:
        """Return x // y of integers that are not negative: C's division; y = 0 is a fault."""
        result = self.alu("div", x, y)
        if result.dtype.is_float:
            raise KernelError(f"// requires integers, got {result.type}; use / and floor")
        return result

    def remainder(self, x: Operand, y: Operand) -> Value:
        """Return x % y of integers that are not negative: C's remainder; y = 0 is a fault."""
        return self.alu("rem", x, y)

    def shift(self, name: str, x: Operand, n: Operand) -> Value:
        """Return x << n ("shl") or x >> n ("shr"), where 0 <= n < bits."""
        return self.alu(name, x, n)

    def min(self, x: Operand, y: Operand) -> Value:
        """Return x if x < y else y."""
        return self.alu("min", x, y)

    def max(self, x: Operand, y: Operand) -> Value:
        """Return x if x > y else y."""
        return self.alu("max", x, y)

    def fma(self, x: Operand, y: Operand, z: Operand) -> Value:
        """Return x * y + z, rounded once where the target can."""
        return self.alu("fma", x, y, z)

    def fence(self, x: Value) -> Value:
        """Return x, across which a target rewrites no arithmetic: as if it came from memory.

        WGSL lets a driver contract, reorder and cancel operations on floats that meet.
        """
        return self.alu("fence", x)

    def sqrt(self, x: Value) -> Value:
        """Return the square root."""
        return self.alu("sqrt", x)

    def floor(self, x: Value) -> Value:
        """Return the greatest whole number <= x."""
        return self.alu("floor", x)

    def rint(self, x: Value) -> Value:
        """Return the nearest whole number, halves to even."""
        return self.alu("rint", x)

    def ldexp(self, x: Operand, n: Value, *, is_normal: bool = False) -> Value:
        """Return x * 2 ** n for 1/2 <= x < 2 and whole n; see `OPCODES`.

        ``is_normal`` promises that this is a normal number, and 2 ** n another.
        """
        return self.alu("ldexp_normal" if is_normal else "ldexp", x, n)

    def exp2(self, x: Value) -> Value:
        """Return about 2 ** x, by an instruction where a target has one; see `OPCODES`."""
        return self.alu("exp2", x)

    def select(self, condition: Value, x: Operand, y: Operand) -> Value:
        """Return x where the condition is true, else y; both are computed."""
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
        is_entered: bool = False,
    ) -> ForLoop[Value]:
        """Open a counted loop: ``with b.for_(0, n, carried=[x]) as loop``.

        One that ``is_entered`` runs at least once, whoever writes it answers for that.  Where sums
        are carried a driver need then not see to it that they are right without any round.
        """
        step = require_known(step)
        return ForLoop(self, self.index(start), self.index(stop), step, carried, unroll, is_entered)

    def while_(self, carried: Sequence[Value]) -> WhileLoop[Value]:
        """Open a loop on carried values: ``with b.while_([x]) as loop``."""
        return WhileLoop(self, carried)

    def if_(self, condition: Value, *, is_rare: bool = False) -> Branch[Value]:
        """Open a branch: ``with b.if_(c) as branch``, then maybe ``with branch.else_()``.

        One that ``is_rare`` is there for data that hardly comes, as numbers that are not finite:
        where operations are counted it is not taken.
        """
        return Branch(self, condition, is_rare=is_rare)

    def of(self, node: Node) -> Value:
        """Return a node as a value."""
        return Value(self, node)
