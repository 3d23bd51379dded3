"""What a kernel is: structured SSA over scalars, short vectors and memories.

A `Kernel` runs once for every invocation of a grid of workgroups, as a WebGPU compute shader does.
Its body is a `Region`, an ordered tuple of `Node`s; a node's inputs are nodes that stand before it
in its own region or in one around it (`verify` checks it), so a printer walks the body once, in
order, and needs no scheduling.  Nodes are immutable, compared by identity, and shared freely: the
builder makes a pure node only once per scope.  A printer needs nothing beyond this page; the rules
that make a kernel legal are in `verify`, and `interpret` says by example what each node does.

Types
    A value has a `Type`: a dtype and a width (1 for a scalar; 2, 4, 8 or 16 for a vector).  Types
    are unique: compare with ``is``.  ``bool`` is a truth value in registers and one byte, 0 or 1,
    in memory.  float16 and bfloat16 are loaded, stored, selected and cast but never computed with.
    Memory indices, loop counters and builtins have the dtype ``kernel.index`` (int32 unless stated;
    uint32 everywhere, int64 where the target has it) and count elements, not bytes.

Kinds of node: inputs; ``attr``; meaning.  In "x, y" all have the node's type.
  values
    const       -; a number, for every element, or a tuple of ``width`` numbers: int, float or bool
                as the dtype says.  Floats are rounded to the dtype, NaN is one value, -0.0 kept.
    argument    -; (position, name), or with a number that it is never below.  A scalar parameter.
                Stands in ``kernel.parameters``.
    builtin     -; (name, axis).  One of `BUILTINS`; axis is 0 where there is only one number.
    alu         x, ...; name in `OPCODES`.  Elementwise on vectors.
    cast        x; -.  To the node's dtype, same width.  To float: nearest even.  Float to integer:
                truncated, and an unspecified value where that does not fit.  Integer to narrower:
                low bits; to wider: extended by the sign of the *source*.  bool to number: 0 or 1.
                There is no cast to bool: use ``ne`` with 0.
    bitcast     x; -.  Same bits, same width of element, same number of elements; never bool.
    select      condition, x, y; -.  x where true, else y.  Both are already computed.  The
                condition is a bool of the same width, or scalar.
    splat       x; -.  A scalar in every element.
    make        x0, x1, ...; -.  A vector of scalars.
    extract     x; element number.  A scalar of a vector.
    parameter   -; position.  Of a region (``region.parameters``): loop counter, carried value.
    result      control node; position.  What its regions yielded at the end.
  memory (input 0 is the memory: a ``buffer`` or an ``alloc``; a ``mask`` is bool)
    buffer      -; (position, name, access).  A parameter; access is one of `ACCESSES`.  The type
                is that of one element, a scalar.
    alloc       -; (space, size, access).  ``size`` elements, "shared" by the workgroup or "private"
                to the invocation, undefined until written.  At the top of the body only.
    load        memory, index, [mask, other]; is_aligned.  Scalar index: ``width`` consecutive
                elements from index on; vector index: one element for each.  Where the mask is
                false nothing is read and the result is ``other``, of the node's type.
    store       memory, index, value, [mask]; is_aligned.  Likewise.  Has no type.
    atomic      memory, index, value, [expected], [mask]; (name in `ATOMICS`, has_mask).  Scalar
                of `ATOMIC_DTYPES`, or by `FLOAT_ATOMICS` of floats in a buffer; yields the old
                value (0 where masked).  ``exchange_equal``
                writes value if the old one equals expected.  ``load`` ignores its value.  Relaxed
                order.
    prefetch    memory, index; -.  Asks for the line of an element, which will be read soon.  Has no
                type and no effect but time; the element need not exist.  Targets may ignore it.
    error       memory, failed, code; -.  If any element of ``failed`` is true, raises element 0 of
                an atomic uint32 buffer to ``code``, a uint32 > 0, if it is less (atomic max).
  control
    for         start, stop, initial...; (step, unroll, is_entered).  counter = start; while
                counter < stop: body(counter, carried...) -> carried; counter += step.  step > 0;
                ``unroll`` asks for straight-line code and needs constant bounds, ``is_entered``
                promises start < stop.  One region.
    while       initial...; -.  Regions condition(carried...) -> (bool,), body(carried...) ->
                carried.  The results are the carried values of which the condition was false.
    if          condition; - or RARE.  Regions then() and otherwise(), which yield alike.  Its
                condition is a scalar.
    barrier     -; "workgroup" or "storage".  All invocations of the workgroup arrive before one
                goes on and see each other's writes to shared memory, or to buffers too.  Only
                where all invocations of the workgroup come by together.
  subgroups (all invocations that are active together)
    subgroup_reduce     x; name in `REDUCTIONS`.  The same value in every invocation.
    subgroup_scan       x; (name in `REDUCTIONS`, is_inclusive).  By rising lane.
    subgroup_shuffle    x, n; "index", "xor", "up" or "down".  n has the index dtype; x of lane n,
                        lane ^ n, lane - n, lane + n; unspecified outside.
    subgroup_broadcast  x; -.  x of the first active lane.
    subgroup_ballot     x; -.  A bool of each lane as a uint32 vector of 4: bit i of lane i.

``is_aligned`` says that a scalar index is a multiple of the width, so that the access may use a
vector type of memory; it is True for width 1.  A load or store inside the bounds is the kernel's
duty: a target may trap, clamp or corrupt; `interpret` reports.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Literal

from pyrite.errors import KernelError
from pyrite.types import (
    DTYPES,
    INTEGERS,
    DType,
    bool_,
    float32,
    float64,
    int32,
    int64,
    uint32,
    uint64,
)

WIDTHS = (1, 2, 4, 8, 16)
#: Those of several vectors side by side: `pyrite.kernel.passes.vector_strips`.
STRIP_WIDTHS = (32, 64)

Kind = Literal[
    "const", "argument", "builtin", "alu", "cast", "bitcast", "select", "splat", "make", "extract",
    "parameter", "result", "buffer", "alloc", "load", "store", "atomic", "prefetch", "error", "for",
    "while", "if", "barrier", "subgroup_reduce", "subgroup_scan", "subgroup_shuffle",
    "subgroup_broadcast", "subgroup_ballot",
]  # fmt: skip

#: The attr of an ``if`` of which the first part is for data that hardly comes.
RARE = "rare"

#: ``pure`` nodes may be shared, moved, dropped; ``read`` ones dropped; the rest keep their order.
#: A control node has the effects of its regions.
Effect = Literal["pure", "read", "write", "order", "control"]
EFFECTS: dict[Kind, Effect] = {
    "const": "pure", "argument": "pure", "builtin": "pure", "alu": "pure", "cast": "pure",
    "bitcast": "pure", "select": "pure", "splat": "pure", "make": "pure", "extract": "pure",
    "parameter": "pure", "result": "pure", "buffer": "pure", "alloc": "order", "load": "read",
    "store": "write", "atomic": "write", "prefetch": "read", "error": "write", "for": "control",
    "while": "control", "if": "control", "barrier": "order", "subgroup_reduce": "order",
    "subgroup_scan": "order", "subgroup_shuffle": "order", "subgroup_broadcast": "order",
    "subgroup_ballot": "order",
}  # fmt: skip

Access = Literal["read", "write", "read_write", "atomic"]
#: "atomic" memory is of `ATOMIC_DTYPES` and touched by ``atomic`` and ``error`` only.
ACCESSES: tuple[Access, ...] = ("read", "write", "read_write", "atomic")
Space = Literal["shared", "private"]
SPACES: tuple[Space, ...] = ("shared", "private")

#: By name, whether it has three axes.  ``local_index`` is the invocation in its workgroup, axis 0
#: fastest: what WebGPU calls local_invocation_index.
BUILTINS = {
    "workgroup_id": True, "num_workgroups": True, "local_id": True, "local_index": False,
    "subgroup_lane": False, "subgroup_size": False,
}  # fmt: skip

ATOMICS = (
    "load", "store", "add", "min", "max", "and", "or", "xor", "exchange", "exchange_equal",
)  # fmt: skip
#: Those of 64 bits where the target has them: WGSL has not.
ATOMIC_DTYPES = frozenset((int32, uint32, int64, uint64))
#: What floats of a buffer do at once, where the target has that (`Machine.adds_floats`).
FLOAT_ATOMICS = ("load", "store", "add", "exchange")
REDUCTIONS = ("add", "mul", "min", "max", "and", "or", "xor")

#: The dtypes in which floats are computed: 16-bit floats are widened first.
COMPUTED_FLOATS = (float32, float64)

Accepts = Literal["number", "float", "integer", "bits", "any"]
ACCEPTED: dict[Accepts, frozenset[DType]] = {
    "number": frozenset((*COMPUTED_FLOATS, *INTEGERS)),
    "float": frozenset(COMPUTED_FLOATS),
    "integer": frozenset(INTEGERS),
    "bits": frozenset((bool_, *INTEGERS)),
    "any": frozenset(d for d in DTYPES if d.itemsize != 2 or not d.is_float),
}


@dataclass(frozen=True, slots=True)
class Opcode:
    """One elementwise operation: how many operands of which kind, and what comes out.

    ``accepts`` is the kind of all operands, which have one type: number is float or integer, bits
    is integer or bool, any is all three.  The result has that type, or is bool if ``compares``.
    """

    name: str
    arity: int
    accepts: Accepts
    meaning: str
    compares: bool = False
    is_commutative: bool = False


#: The closed list.  "Unspecified" is some value, not a fault: what is computed may be discarded.
OPCODES: dict[str, Opcode] = {
    o.name: o
    for o in (
        # arithmetic; integers wrap around
        Opcode("add", 2, "number", "x + y", is_commutative=True),
        Opcode("sub", 2, "number", "x - y"),
        Opcode("mul", 2, "number", "x * y", is_commutative=True),
        Opcode("div", 2, "number", "x / y; integers: truncated, a fault if y = 0 or overflow"),
        Opcode("rem", 2, "integer", "x - (x div y) * y, a fault where div is one"),
        Opcode("neg", 1, "number", "-x; of floats the sign bit flips"),
        Opcode("abs", 1, "number", "|x|; of floats the sign bit clears"),
        Opcode("min", 2, "number", "x if x < y else y"),
        Opcode("max", 2, "number", "x if x > y else y"),
        Opcode("fma", 3, "float", "x * y + z, rounded once where the target can"),
        Opcode("fence", 1, "float", "x; a target rewrites no arithmetic across it"),
        Opcode("mulhi", 2, "integer", "the upper half of the product", is_commutative=True),
        # rounding and root, exact
        Opcode("sqrt", 1, "float", "square root; NaN below 0"),
        Opcode("floor", 1, "float", "the greatest whole number <= x"),
        Opcode("ceil", 1, "float", "the least whole number >= x"),
        Opcode("trunc", 1, "float", "the whole number next to x towards 0"),
        Opcode("rint", 1, "float", "the nearest whole number, halves to even"),
        # scaling, of 1/2 <= x < 2 by whole y; unspecified for others
        Opcode("ldexp", 2, "float", "x * 2 ** y, rounded once; for -200 <= y <= that of infinity"),
        Opcode("ldexp_normal", 2, "float", "x * 2 ** y; x, 2 ** y and this are normal numbers"),
        Opcode("keep_nan", 2, "float", "y, x where x is NaN; then y is too, if not scaled"),
        # a power as the device has it
        Opcode("exp2", 1, "float", "2 ** x within 3 + 2 |x| ulp; below normal numbers maybe 0"),
        # comparison; with NaN only ne is true
        Opcode("lt", 2, "number", "x < y", compares=True),
        Opcode("le", 2, "number", "x <= y", compares=True),
        Opcode("gt", 2, "number", "x > y", compares=True),
        Opcode("ge", 2, "number", "x >= y", compares=True),
        Opcode("eq", 2, "any", "x == y", compares=True, is_commutative=True),
        Opcode("ne", 2, "any", "x != y", compares=True, is_commutative=True),
        # bits; the amount of a shift has the type of x
        Opcode("and", 2, "bits", "x & y", is_commutative=True),
        Opcode("or", 2, "bits", "x | y", is_commutative=True),
        Opcode("xor", 2, "bits", "x ^ y", is_commutative=True),
        Opcode("not", 1, "bits", "~x; of bool: not x"),
        Opcode("shl", 2, "integer", "x << y; unspecified unless 0 <= y < bits"),
        Opcode("shr", 2, "integer", "x >> y, signed repeat the sign; unspecified as shl"),
        Opcode("popcount", 1, "integer", "number of one bits"),
        Opcode("clz", 1, "integer", "number of leading zero bits; bits for 0"),
    )
}


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A dtype and a width; made by `vector` and `scalar`, once each."""

    dtype: DType
    width: int

    def with_dtype(self, dtype: DType) -> Type:
        """Return the type of the same width with another dtype."""
        return vector(dtype, self.width)

    def with_width(self, width: int) -> Type:
        """Return the type of the same dtype with another width."""
        return vector(self.dtype, width)

    @property
    def element(self) -> Type:
        """The scalar type of one element."""
        return vector(self.dtype, 1)

    def __repr__(self) -> str:
        return self.dtype.name if self.width == 1 else f"{self.dtype.name}x{self.width}"

    def __reduce__(self) -> tuple[object, tuple[DType, int]]:
        return (vector, (self.dtype, self.width))


_TYPES: dict[tuple[DType, int], Type] = {}


def vector(dtype: DType, width: int) -> Type:
    """Return the one type of ``width`` elements of the dtype; a scalar for width 1.

    >>> from pyrite.types import float32
    >>> vector(float32, 4), vector(float32, 4) is vector(float32, 4)
    (float32x4, True)
    """
    found = _TYPES.get((dtype, width))
    if found is None:
        if width not in WIDTHS and width not in STRIP_WIDTHS:
            raise KernelError(f"a type requires a width in {WIDTHS}, got {width}")
        found = _TYPES.setdefault((dtype, width), Type(dtype, width))
    return found


def scalar(dtype: DType) -> Type:
    """Return the type of one element of the dtype."""
    return vector(dtype, 1)


BOOL = scalar(bool_)


class Node:
    """One node; see the table of kinds above.  Never changed after it is made.

    ``type`` is None for nodes that yield nothing (store, error, barrier) and for ``for``, ``while``
    and ``if``, whose values are their ``result`` nodes.
    """

    # A frozen dataclass would say the same and take 0.5 µs longer to make, half of what it costs.
    __slots__ = ("attr", "inputs", "kind", "regions", "type")

    kind: Kind
    type: Type | None
    inputs: tuple[Node, ...]
    attr: Any
    regions: tuple[Region, ...]

    def __init__(
        self,
        kind: Kind,
        type: Type | None,
        inputs: tuple[Node, ...] = (),
        attr: Any = None,
        regions: tuple[Region, ...] = (),
    ) -> None:
        self.kind = kind
        self.type = type
        self.inputs = inputs
        self.attr = attr
        self.regions = regions

    @property
    def effect(self) -> Effect:
        """What may be done with it: see `EFFECTS`."""
        return EFFECTS[self.kind]

    @property
    def value_type(self) -> Type:
        """Its type.  Only for nodes that have one."""
        assert self.type is not None, f"{self.kind} has no type"
        return self.type

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """Return the same node of other inputs; itself if they are the same."""
        if inputs == self.inputs:
            return self
        return Node(self.kind, self.type, inputs, self.attr, self.regions)

    def __repr__(self) -> str:
        attr = "" if self.attr is None else f" {self.attr!r}"
        typed = "" if self.type is None else f": {self.type}"
        return f"{self.kind}{attr}{typed}"


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A sequence of nodes with parameters, and the values that it yields at its end."""

    parameters: tuple[Node, ...]
    body: tuple[Node, ...]
    yields: tuple[Node, ...] = ()


@dataclass(frozen=True, eq=False)
class Kernel:
    """A program for every invocation of a grid of workgroups.

    ``parameters`` are the ``buffer`` and ``argument`` nodes in the order of binding.  ``grid`` is
    the number of axes (1 to 3) on which workgroups are counted; the others are 1.  ``lines`` has
    the user's ``file:line`` of nodes, where that was noted: for messages, it means nothing.
    """

    name: str
    parameters: tuple[Node, ...]
    body: Region
    workgroup_size: tuple[int, int, int] = (1, 1, 1)
    grid: int = 1
    index: DType = int32
    lines: Mapping[Node, str] = field(default_factory=dict, repr=False)
    #: What was found out of it, by what finds it: see `pyrite.kernel.fact`.
    facts: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def buffers(self) -> tuple[Node, ...]:
        """The buffer parameters, in the order of binding."""
        return tuple(p for p in self.parameters if p.kind == "buffer")

    @property
    def arguments(self) -> tuple[Node, ...]:
        """The scalar parameters, in order."""
        return tuple(p for p in self.parameters if p.kind == "argument")

    @property
    def invocations(self) -> int:
        """The number of invocations in a workgroup."""
        x, y, z = self.workgroup_size
        return x * y * z

    @cached_property
    def digest(self) -> str:
        """A hash of all that it means, the same in every process; names do not count."""
        lines = [f"{self.workgroup_size} {self.grid} {self.index.name}"]
        numbers: dict[Node, str] = {}
        for node in self.parameters:
            numbers[node] = str(len(numbers))
            lines.append(f"{node.kind} {node.type} {node.attr[2:]!r}")
        _describe(self.body, numbers, lines)
        return hashlib.blake2b("\n".join(lines).encode(), digest_size=20).hexdigest()

    def walk(self) -> Iterator[Node]:
        """Every node of the body and of the regions inside, in order; region parameters too."""
        return walk(self.body)

    def __str__(self) -> str:
        return f"kernel {self.name}"


def walk(region: Region) -> Iterator[Node]:
    """Every node of the region and of those inside it, a node before what its regions hold."""
    yield from region.parameters
    for node in region.body:
        yield node
        for inner in node.regions:
            yield from walk(inner)


def _describe(region: Region, numbers: dict[Node, str], lines: list[str]) -> None:
    for node in region.parameters:
        numbers[node] = str(len(numbers))
        lines.append(f"parameter {node.type}")
    for node in region.body:
        inputs = " ".join([numbers[i] for i in node.inputs])
        lines.append(f"{node.kind} {_text_of(node.type)} {node.attr!r} {inputs}")
        for inner in node.regions:
            _describe(inner, numbers, lines)
        numbers[node] = str(len(numbers))
    lines.append("yield " + " ".join([numbers[y] for y in region.yields]))


@cache
def _text_of(type: Type | None) -> str:
    return str(type)


def dtype_of(node: Node) -> DType:
    """Return the dtype of a node that has a type."""
    return node.value_type.dtype
