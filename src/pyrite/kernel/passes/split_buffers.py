"""Makes several buffers of one that is larger than a device can bind.

Requires a legalised kernel.  Guarantees an equal one in which a buffer is as many as is asked for,
bound one after the other, of ``nbytes`` each; only the last may be shorter.  The buffer of an
``error`` stays whole.

Each access is made to every part, masked but for the part in which the element lies, so that the
parts of a tensor need no loop of launches, whatever the kernel does with it: reduce it, gather from
it, add to it at random.  An aligned vector lies in one part; any other is taken by its elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyrite.errors import KernelError
from pyrite.kernel.builder import Value
from pyrite.kernel.ir import Kernel, Node, Type
from pyrite.kernel.passes.rewrite import EmittingBuilder, Rewriter

#: Parts begin at whole vectors of 16 numbers of 8 bytes.
GRAIN = 128


def split_buffers(kernel: Kernel, counts: Sequence[int], nbytes: int) -> Kernel:
    """Return the kernel with ``counts`` parts of each buffer, in the order of binding.

    Raises KernelError unless ``nbytes``, the size of a part, is a multiple of `GRAIN`.

    >>> from pyrite.kernel.builder import KernelBuilder
    >>> from pyrite.types import float32
    >>> b = KernelBuilder("double")
    >>> x = b.buffer("x", float32, "read_write")
    >>> x[b.global_id()] = x[b.global_id()] * 2.0
    >>> [p.attr[1] for p in split_buffers(b.build(), [3], 1024).buffers]
    ['x_0', 'x_1', 'x_2']
    """
    if nbytes % GRAIN:
        raise KernelError(f"split_buffers requires parts of a multiple of {GRAIN}, got {nbytes}")
    return _Splitter(kernel, counts, nbytes).run()


class _Splitter(Rewriter):
    def __init__(self, kernel: Kernel, counts: Sequence[int], nbytes: int) -> None:
        super().__init__(kernel)
        self.b = EmittingBuilder(self)
        self.nbytes = nbytes
        self.counts = dict(zip(kernel.buffers, counts, strict=True))
        #: What stands for each buffer that is split.
        self.parts: dict[Node, list[Node]] = {}

    def run(self) -> Kernel:
        parameters: list[Node] = []
        for node in self.kernel.parameters:
            first, count = len(parameters), self.counts.get(node, 1)
            parameters += [_parameter(node, first + i, i, count) for i in range(count)]
            self.new[node] = parameters[first]
            if count > 1:
                self.parts[node] = parameters[first:]
        body = self.region(self.kernel.body)
        return replace(self.kernel, parameters=tuple(parameters), body=body)

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.inputs and node.inputs[0] in self.parts:
            if node.kind == "load":
                return self.load(node, inputs)
            if node.kind == "store":
                return self.store(node, inputs)
            if node.kind == "atomic":
                return self.atomic(node, inputs)
            if node.kind == "prefetch":
                # A hint, and not worth asking which part it is of: dropped.
                return node
        return self.keep(node, inputs)

    def load(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        type = node.value_type
        mask, other = inputs[2:] or (None, self.b.const(0, type).node)
        for part, at, inside in self.places(node, inputs[1], type, mask):
            aligned = bool(node.attr) and at.width == 1
            other = self.make("load", type, (part, at.node, inside.node, other), aligned)
        return other

    def store(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        value, *mask = inputs[2:]
        type = value.value_type
        for part, at, inside in self.places(node, inputs[1], type, mask[0] if mask else None):
            aligned = bool(node.attr) and at.width == 1
            last = self.make("store", None, (part, at.node, value, inside.node), aligned)
        return last

    def atomic(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        name, has_mask = node.attr
        operands = inputs[2 : len(inputs) - has_mask]
        mask = inputs[-1] if has_mask else None
        old: Value | None = None
        for part, at, inside in self.places(node, inputs[1], node.value_type, mask):
            made = self.make(
                "atomic", node.type, (part, at.node, *operands, inside.node), (name, True)
            )
            # Where it is masked an atomic gives 0.
            found = self.b.of(made)
            old = found if old is None else old + found if found.dtype.is_float else old | found
        assert old is not None
        return old.node

    def places(
        self, node: Node, index: Node, type: Type, mask: Node | None
    ) -> list[tuple[Node, Value, Value]]:
        """Return each part, where in it the elements would be, and whether they are."""
        parts = self.parts[node.inputs[0]]
        at = self.b.of(index)
        if at.width < type.width and not node.attr:
            at = at + self.b.const(range(type.width), at.type.with_width(type.width))
        allowed = None if mask is None else self.b.of(mask)
        if allowed is not None and allowed.width < at.width:
            allowed = self.b.splat(allowed, at.width)
        size = self.nbytes // parts[0].value_type.dtype.itemsize
        places = []
        for number, part in enumerate(parts):
            local = at - number * size if number else at
            inside = local >= 0
            if number < len(parts) - 1:
                inside = inside & (local < size)
            if allowed is not None:
                if inside.width < allowed.width:
                    inside = self.b.splat(inside, allowed.width)
                inside = inside & allowed
            places.append((part, local, inside))
        return places


def _parameter(node: Node, position: int, number: int, count: int) -> Node:
    _, name, *access = node.attr
    name = f"{name}_{number}" if count > 1 else name
    return Node(node.kind, node.type, (), (position, name, *access))
