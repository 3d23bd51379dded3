"""Replaces dtypes that a device lacks by dtypes that it has.

Requires a legal kernel.  Guarantees an equal one that computes and stores only in the dtypes of a
`Capabilities`; raises DTypeError where there is no such kernel.

In registers 8- and 16-bit integers become int32 or uint32, kept in their range; float16 and
bfloat16, which are never computed with, become float32 of values that they hold.  So do scalar
arguments.  Buffers of 8- and 16-bit elements become buffers of uint32, the first element in the low
bits, and must be padded to a multiple of 4 bytes; allocations have 32 bits an element.  A store of
whole words (aligned, no mask for each element) is plain; if a buffer has any other store, it
becomes an atomic one, and elements are put in by an atomic ``and`` and ``or``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyrite.errors import DTypeError
from pyrite.kernel.builder import Value
from pyrite.kernel.ir import Kernel, Node, Type, scalar, vector
from pyrite.kernel.passes.rewrite import EmittingBuilder, Rewriter
from pyrite.kernel.polyfill.floats import FORMATS, isnan, magnitude, nan_where, negative, sign_of
from pyrite.types import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint32,
    uint64,
)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a device computes with and what it has in memory; ``name`` is for messages."""

    name: str
    computes: frozenset[DType]
    stores: frozenset[DType]
    #: What an application may do about a dtype that is not there.
    remedies: Mapping[DType, str] = field(default_factory=dict)


#: WebGPU without optional features.
WEBGPU = Capabilities(
    "wgpu",
    frozenset((bool_, int32, uint32, float32)),
    frozenset((int32, uint32, float32)),
)

_INSTEAD = {float64: float32, int64: int32, uint64: uint32}


def legalize(kernel: Kernel, capabilities: Capabilities = WEBGPU) -> Kernel:
    """Return the kernel in the dtypes of the device.

    Raises DTypeError for a dtype of 64 bits that the device lacks, and names the alternative.
    """
    return _Legalizer(kernel, capabilities).run()


class _Legalizer(Rewriter):
    def __init__(self, kernel: Kernel, capabilities: Capabilities) -> None:
        super().__init__(kernel)
        self.capabilities = capabilities
        self.b = EmittingBuilder(self)
        self.register(kernel.index)

    def run(self) -> Kernel:
        partial = self._stored_in_part()
        parameters = tuple(self.parameter(p, p in partial) for p in self.kernel.parameters)
        self.new = dict(zip(self.kernel.parameters, parameters, strict=True))
        body = self.region(self.kernel.body)
        return replace(self.kernel, parameters=parameters, body=body)

    def _stored_in_part(self) -> set[Node]:
        """Return the packed buffers that some store does not fill by whole words."""
        return {
            n.inputs[0]
            for n in self.kernel.walk()
            if n.kind == "store" and self.is_packed(n.inputs[0]) and not _fills_words(n)
        }

    # ---- dtypes ----

    def register(self, dtype: DType) -> DType:
        """Return the dtype that values of a dtype have in registers."""
        if dtype in self.capabilities.computes:
            return dtype
        if dtype.itemsize > 4:
            instead = _INSTEAD[dtype].name
            raise DTypeError(
                f"{self.kernel} requires {dtype.name}, which {self.capabilities.name} lacks; use "
                f"{instead}: x.astype(pyrite.{instead}), or another device: x.to('cpu')"
                + "".join(f"; or {r}" for d, r in self.capabilities.remedies.items() if d is dtype)
            )
        return {"float": float32, "int": int32, "uint": uint32}.get(dtype.kind, dtype)

    def typed(self, type: Type | None) -> Type | None:
        return None if type is None else type.with_dtype(self.register(type.dtype))

    def is_packed(self, memory: Node) -> bool:
        """Whether it is a buffer of which several elements share a word."""
        dtype = memory.value_type.dtype
        is_buffer = memory.kind == "buffer"
        return is_buffer and dtype.itemsize < 4 and dtype not in self.capabilities.stores

    def parameter(self, node: Node, is_partial: bool) -> Node:
        dtype = node.value_type.dtype
        if node.kind == "argument":
            return Node("argument", self.typed(node.type), (), node.attr)
        if dtype in self.capabilities.stores:
            return node
        if not self.is_packed(node):
            self.register(dtype)
        position, name, access = node.attr
        access = "atomic" if is_partial else access
        return Node("buffer", scalar(uint32), (), (position, name, access))

    # ---- nodes ----

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        if (rule := _RULES.get(node.kind)) is not None:
            return rule(self, node, inputs)
        return self.plain(node, inputs)

    def plain(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """The same node in the dtypes of registers."""
        regions = []
        for region in node.regions:
            types = [self.typed(p.type) for p in region.parameters]
            parameters = [Node("parameter", t, (), i) for i, t in enumerate(types)]
            regions.append(self.region(region, parameters))
        return self.make(node.kind, self.typed(node.type), inputs, node.attr, tuple(regions))

    def wrapped(self, x: Value, dtype: DType) -> Value:
        """Return an integer as the dtype has it: its low bits, and its sign."""
        if dtype in self.capabilities.computes or dtype.is_float or dtype.is_bool:
            return x
        if dtype.kind == "uint":
            return x & ((1 << dtype.bits) - 1)
        return (x << 32 - dtype.bits) >> 32 - dtype.bits

    def operation(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        dtype = node.inputs[0].value_type.dtype
        if node.attr == "div" and _is_float_zero(node.inputs[1]):
            return self.over_zero(self.b.of(inputs[0]), node.inputs[1].attr).node
        if dtype in self.capabilities.computes or dtype.is_bool:
            return self.plain(node, inputs)
        self.register(dtype)
        x, *rest = (self.b.of(i) for i in inputs)
        if node.attr == "mulhi":
            return ((x * rest[0]) >> dtype.bits).node
        if node.attr in ("popcount", "clz"):
            counted = self.b.alu(node.attr, x & ((1 << dtype.bits) - 1))
            return (counted - (32 - dtype.bits) if node.attr == "clz" else counted).node
        made = self.b.of(self.plain(node, inputs))
        return self.wrapped(made, node.value_type.dtype).node

    def over_zero(self, x: Value, zero: float) -> Value:
        """x / 0.0 or x / -0.0 by its bits: a driver may fold the division, or x * inf, to 0."""
        b = self.b
        format = FORMATS[x.dtype]
        sign = sign_of(b, x) if math.copysign(1.0, zero) > 0 else sign_of(b, negative(b, x))
        infinite = b.bitcast(sign | format.infinity, x.dtype)
        return nan_where(b, isnan(b, x) | (magnitude(b, x) == 0), infinite)

    def collective(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        made = self.b.of(self.plain(node, inputs))
        return self.wrapped(made, node.value_type.dtype).node

    def cast(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        dtype = node.value_type.dtype
        found = self.b.cast(self.b.of(inputs[0]), self.register(dtype))
        if dtype in _ENCODE and dtype not in self.capabilities.computes:
            return _DECODE[dtype](_ENCODE[dtype](found)).node
        return self.wrapped(found, dtype).node

    def bitcast(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        source, target = node.inputs[0].value_type.dtype, node.value_type.dtype
        if source in self.capabilities.computes and target in self.capabilities.computes:
            return self.plain(node, inputs)
        self.register(source)
        return self.decoded(self.encoded(self.b.of(inputs[0]), source), target).node

    def alloc(self, node: Node, _: tuple[Node, ...]) -> Node:
        dtype = node.value_type.dtype
        if dtype in self.capabilities.stores:
            return self.emit(node)
        stored = uint32 if dtype.is_bool else self.register(dtype)
        return self.make("alloc", scalar(stored), (), node.attr)

    # ---- packed elements ----

    def encoded(self, x: Value, dtype: DType) -> Value:
        """Return the bits of a value as uint32."""
        if dtype in _ENCODE:
            return _ENCODE[dtype](x)
        if dtype.is_bool or dtype.kind != "int":
            return self.b.cast(x, uint32)
        return self.b.cast(x, uint32) & ((1 << dtype.bits) - 1)

    def decoded(self, bits: Value, dtype: DType) -> Value:
        """Return the value of bits in uint32, of which the others are 0."""
        if dtype in _DECODE:
            return _DECODE[dtype](bits)
        if dtype.is_bool:
            return bits != 0
        return self.wrapped(self.b.cast(bits, self.register(dtype)), dtype)

    def load(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        memory, type = node.inputs[0], node.value_type
        if not self.is_packed(memory):
            return self.load_of_words(node, inputs)
        new_memory, index, *masked = inputs
        mask = self.b.of(masked[0]) if masked else None
        per_word = 4 // type.dtype.itemsize
        whole = node.attr and type.width % per_word == 0 and new_memory.attr[2] != "atomic"
        if whole and (mask is None or mask.width == 1):
            bits = self.words(new_memory, self.b.of(index), mask, type)
        else:
            bits = self.fields(new_memory, self.b.of(index), mask, type)
        value = self.decoded(bits, type.dtype)
        if mask is not None:
            value = self.b.select(mask, value, self.b.of(masked[1]))
        return value.node

    def load_of_words(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """A load of unpacked elements; bools of allocations are uint32."""
        type = node.value_type
        if inputs[0].value_type.dtype is not uint32 or not type.dtype.is_bool:
            return self.plain(node, inputs)
        words = type.with_dtype(uint32)
        if len(inputs) == 4:
            inputs = (*inputs[:3], self.b.cast(self.b.of(inputs[3]), uint32).node)
        return (self.b.of(self.make("load", words, inputs, node.attr)) != 0).node

    def words(self, memory: Node, index: Value, mask: Value | None, type: Type) -> Value:
        """Load whole words and return their fields."""
        per_word = 4 // type.dtype.itemsize
        count = type.width // per_word
        found = vector(uint32, count)
        inputs: tuple[Node, ...] = (memory, (index >> per_word.bit_length() - 1).node)
        if mask is not None:
            inputs = (*inputs, mask.node, self.b.const(0, found).node)
        loaded = self.b.of(self.make("load", found, inputs, True))
        single = [loaded] if count == 1 else [loaded[i] for i in range(count)]
        each = [single[i // per_word] for i in range(type.width)]
        shifts = tuple(i % per_word * type.dtype.bits for i in range(type.width))
        return self.field(self.b.make(each), self.b.const(shifts, vector(uint32, type.width)), type)

    def field(self, word: Value, shift: Value, type: Type) -> Value:
        return (word >> shift) & ((1 << type.dtype.bits) - 1)

    def place(self, index: Value, type: Type) -> tuple[Value, Value]:
        """Return the word in which each element is, and by how many bits it is shifted there."""
        per_word = 4 // type.dtype.itemsize
        if index.width < type.width:
            steps = tuple(range(type.width))
            index = index + self.b.const(steps, index.type.with_width(type.width))
        field = self.b.cast(index & (per_word - 1), uint32)
        return index >> per_word.bit_length() - 1, field * type.dtype.bits

    def fields(self, memory: Node, index: Value, mask: Value | None, type: Type) -> Value:
        """Load the word of each element and return its field."""
        word, shift = self.place(index, type)
        found = vector(uint32, type.width)
        if memory.attr[2] == "atomic":
            return self.field(self.atomic_words(memory, word, mask), shift, type)
        inputs: tuple[Node, ...] = (memory, word.node)
        if mask is not None:
            inputs = (*inputs, mask.node, self.b.const(0, found).node)
        return self.field(self.b.of(self.make("load", found, inputs, type.width == 1)), shift, type)

    def atomic_words(self, memory: Node, word: Value, mask: Value | None) -> Value:
        zero = self.b.const(0, uint32)
        each = [
            self.atomic("load", memory, at, zero, only)
            for at, only in zip(_elements(word), _elements(mask, word.width), strict=True)
        ]
        return each[0] if len(each) == 1 else self.b.make(each)

    def atomic(
        self, name: str, memory: Node, at: Value | None, value: Value, mask: Value | None
    ) -> Value:
        assert at is not None
        inputs: tuple[Node, ...] = (memory, at.node, value.node)
        if mask is not None:
            inputs = (*inputs, mask.node)
        return self.b.of(self.make("atomic", scalar(uint32), inputs, (name, mask is not None)))

    def store(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        old, memory = node.inputs[0], inputs[0]
        if not self.is_packed(old):
            if memory.value_type.dtype is uint32 and old.value_type.dtype.is_bool:
                bits = self.b.cast(self.b.of(inputs[2]), uint32).node
                inputs = (*inputs[:2], bits, *inputs[3:])
            return self.plain(node, inputs)
        type = node.inputs[2].value_type
        mask = self.b.of(inputs[3]) if len(inputs) == 4 else None
        packed = self.encoded(self.b.of(inputs[2]), type.dtype)
        if memory.attr[2] != "atomic":
            return self.store_words(memory, self.b.of(inputs[1]), packed, mask, type)
        return self.store_fields(memory, self.b.of(inputs[1]), packed, mask, type)

    def store_words(
        self, memory: Node, index: Value, bits: Value, mask: Value | None, type: Type
    ) -> Node:
        per_word = 4 // type.dtype.itemsize
        shifts = tuple(i % per_word * type.dtype.bits for i in range(type.width))
        shifted = bits << self.b.const(shifts, bits.type)
        words = []
        for start in range(0, type.width, per_word):
            word = shifted[start]
            for i in range(start + 1, start + per_word):
                word = word | shifted[i]
            words.append(word)
        value = words[0] if len(words) == 1 else self.b.make(words)
        inputs = [memory, (index >> per_word.bit_length() - 1).node, value.node]
        if mask is not None:
            inputs.append(mask.node)
        return self.make("store", None, tuple(inputs), True)

    def store_fields(
        self, memory: Node, index: Value, bits: Value, mask: Value | None, type: Type
    ) -> Node:
        word, shift = self.place(index, type)
        ones = self.b.const((1 << type.dtype.bits) - 1, shift.type)
        others, field = ~(ones << shift), bits << shift
        each = (_elements(word), _elements(others), _elements(field), _elements(mask, type.width))
        for at, keep, put, only in zip(*each, strict=True):
            assert keep is not None
            assert put is not None
            self.atomic("and", memory, at, keep, only)
            last = self.atomic("or", memory, at, put, only)
        return last.node


def _is_float_zero(node: Node) -> bool:
    """Whether a node is the constant 0.0 or -0.0."""
    return node.kind == "const" and node.value_type.dtype.is_float and node.attr == 0


def _fills_words(store: Node) -> bool:
    type = store.inputs[2].value_type
    has_mask_of_elements = len(store.inputs) == 4 and store.inputs[3].value_type.width > 1
    return (
        bool(store.attr)
        and store.inputs[1].value_type.width == 1
        and type.width * type.dtype.itemsize % 4 == 0
        and not has_mask_of_elements
    )


def _elements(x: Value | None, width: int = 1) -> Sequence[Value | None]:
    """Return the elements of a vector; a scalar, or nothing, as often as is asked."""
    if x is None or x.width == 1:
        return [x] * width
    return [x[i] for i in range(x.width)]


# ---- 16-bit floats as bits, by integer arithmetic that needs no denormals ----


def _encode_bfloat16(x: Value) -> Value:
    """Bits of float32 rounded to the upper half, to even; one NaN."""
    b = x.builder
    bits = b.bitcast(x, uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return b.select(is_nan, 0x7FC0, rounded)


def _decode_bfloat16(bits: Value) -> Value:
    return bits.builder.bitcast(bits << 16, float32)


def _encode_float16(x: Value) -> Value:
    """Bits of float32 rounded to float16: half of the least denormal is 2 ** -25."""
    b = x.builder
    bits = b.bitcast(x, uint32)
    size = bits & 0x7FFFFFFF
    # Below 2 ** -14 the bits count steps of 2 ** -24.
    small = b.cast(b.rint(b.min(abs(x), 2.0**-13) * 2.0**24), uint32)
    normal = ((size + 0xFFF + ((size >> 13) & 1)) >> 13) - (112 << 10)
    rounded = b.select(size < 0x38800000, small, normal)
    rounded = b.select(size >= 0x47800000, 0x7C00, rounded)
    rounded = b.select(size > 0x7F800000, 0x7E00, rounded)
    return rounded | ((bits >> 16) & 0x8000)


def _decode_float16(bits: Value) -> Value:
    b = bits.builder
    size = bits & 0x7FFF
    shifted = size << 13
    # The exponent counts from 15 there, from 127 here; that of infinity and NaN goes to the top.
    special = b.select(size >= 0x7C00, b.const(224 << 23, bits.type), 112 << 23)
    large = b.bitcast(shifted + special, float32)
    small = b.cast(size, float32) * 2.0**-24
    value = b.select(size < 0x400, small, large)
    return b.bitcast(b.bitcast(value, uint32) | ((bits & 0x8000) << 16), float32)


_ENCODE: dict[DType, Callable[[Value], Value]] = {
    bfloat16: _encode_bfloat16, float16: _encode_float16,
}  # fmt: skip
_DECODE: dict[DType, Callable[[Value], Value]] = {
    bfloat16: _decode_bfloat16, float16: _decode_float16,
}  # fmt: skip

_RULES: dict[str, Callable[[_Legalizer, Node, tuple[Node, ...]], Node]] = {
    "alu": _Legalizer.operation, "cast": _Legalizer.cast, "bitcast": _Legalizer.bitcast,
    "alloc": _Legalizer.alloc, "load": _Legalizer.load, "store": _Legalizer.store,
    "subgroup_reduce": _Legalizer.collective, "subgroup_scan": _Legalizer.collective,
}  # fmt: skip
