"""The readable text form of a kernel, for people, goldens and error messages.

One node a line, numbered in order; constants stand where they are used.  There is no parser: the
text is read by people, the hash of a kernel is `Kernel.digest`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyrite.kernel.ir import Kernel, Node, Region


def to_text(kernel: Kernel) -> str:
    """Return the kernel as text.

    >>> from pyrite.kernel.builder import KernelBuilder
    >>> from pyrite.types import float32
    >>> b = KernelBuilder("double", workgroup_size=64)
    >>> x = b.buffer("x", float32, "read_write")
    >>> i = b.global_id()
    >>> x[i] = x[i] * 2.0
    >>> print(to_text(b.build()))
    kernel double(x: float32 read_write)
      workgroup 64 1 1, grid 1, index int32
      %0: int32 = workgroup_id 0
      %1: int32 = mul %0, 64
      %2: int32 = local_id 0
      %3: int32 = add %1, %2
      %4: float32 = load x, %3
      %5: float32 = mul %4, 2.0
      store x, %3, %5
    """
    return _Printer(kernel).text()


def name_nodes(kernel: Kernel) -> dict[Node, str]:
    """Return the names that the text gives to nodes, for messages about them."""
    printer = _Printer(kernel)
    printer.text()
    return printer.names


def line_of(kernel: Kernel, node: Node) -> str:
    """Return the line of a node in the text, for messages about it."""
    printer = _Printer(kernel)
    printer.text()
    return printer.line_of.get(node, node.kind)


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.names: dict[Node, str] = {}
        self.lines: list[str] = []
        self.line_of: dict[Node, str] = {}
        self.numbered = 0
        self.controls = 0

    def text(self) -> str:
        kernel = self.kernel
        parameters = []
        for p in kernel.parameters:
            self.names[p] = p.attr[1]
            access = f" {p.attr[2]}" if p.kind == "buffer" else ""
            parameters.append(f"{p.attr[1]}: {p.type}{access}")
        sizes = " ".join(map(str, kernel.workgroup_size))
        self.lines = [
            f"kernel {kernel.name}({', '.join(parameters)})",
            f"  workgroup {sizes}, grid {kernel.grid}, index {kernel.index.name}",
        ]
        self.region(kernel.body, "  ")
        return "\n".join(self.lines)

    def region(self, region: Region, indent: str) -> None:
        for node in region.body:
            if node.kind == "const":
                self.names[node] = _constant(node)
            elif node.regions:
                self.control(node, indent)
            else:
                line = self.line_of[node] = self.line(node)
                self.lines.append(indent + line)
        if region.yields:
            self.lines.append(f"{indent}yield {self.all(region.yields)}")

    def line(self, node: Node) -> str:
        words = f"{_operation(node)} {self.operands(node)}".rstrip()
        if node.type is None:
            return words
        return f"{self.define(node)}: {node.type} = {words}"

    def operands(self, node: Node) -> str:
        inputs = node.inputs
        if node.kind == "load" and len(inputs) == 4:
            return (
                f"{self.all(inputs[:2])} where {self.all(inputs[2:3])} else {self.all(inputs[3:])}"
            )
        if node.kind == "store" and len(inputs) == 4:
            return f"{self.all(inputs[:3])} where {self.all(inputs[3:])}"
        if node.kind == "atomic" and node.attr[1]:
            return f"{self.all(inputs[:-1])} where {self.all(inputs[-1:])}"
        return self.all(inputs)

    def control(self, node: Node, indent: str) -> None:
        self.names[node] = label = f"{node.kind}.{self.controls}"
        self.controls += 1
        if node.kind == "for":
            heads: Sequence[str] = (self.for_head(label, node),)
        elif node.kind == "while":
            heads = self.while_heads(label, node)
        else:
            more = f" {node.attr}" if node.attr else ""
            heads = (f"{label} {self.name(node.inputs[0])}{more}", "else")
        for head, region in zip(heads, node.regions, strict=True):
            if head != "else" or region.body or region.yields:
                self.lines.append(indent + head)
                self.region(region, indent + "  ")

    def for_head(self, label: str, node: Node) -> str:
        step, unroll, is_entered = node.attr
        start, stop, *initial = node.inputs
        counter, *carried = node.regions[0].parameters
        head = f"{label} {self.define(counter)} in {self.name(start)} .. {self.name(stop)}"
        head += f" step {step}" if step != 1 else ""
        head += " unrolled" if unroll else ""
        head += " entered" if is_entered else ""
        return head + self.carrying(carried, initial)

    def while_heads(self, label: str, node: Node) -> tuple[str, str]:
        condition, body = node.regions
        first = label + self.carrying(condition.parameters, node.inputs)
        return first, f"do {', '.join(map(self.define, body.parameters))}".rstrip()

    def carrying(self, parameters: Sequence[Node], initial: Sequence[Node]) -> str:
        if not parameters:
            return ""
        pairs = [
            f"{self.define(p)}: {p.type} = {self.name(v)}"
            for p, v in zip(parameters, initial, strict=True)
        ]
        return f" carrying {', '.join(pairs)}"

    def define(self, node: Node) -> str:
        name = self.names[node] = f"%{self.numbered}"
        self.numbered += 1
        return name

    def name(self, node: Node) -> str:
        return self.names.get(node, f"<{node.kind} out of scope>")

    def all(self, nodes: Iterable[Node]) -> str:
        return ", ".join(map(self.name, nodes))


def _constant(node: Node) -> str:
    value = node.attr
    if isinstance(value, tuple):
        return f"({', '.join(map(str, value))})"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _operation(node: Node) -> str:
    """Return the kind and its attribute, as words."""
    attr = node.attr
    if node.kind == "alu":
        return str(attr)
    if node.kind == "builtin":
        return f"{attr[0]} {attr[1]}"
    if node.kind in ("load", "store"):
        is_plain = not attr or _width(node) == 1
        return node.kind if is_plain else f"{node.kind} aligned"
    if node.kind == "atomic":
        return f"atomic {attr[0]}"
    if node.kind == "subgroup_scan":
        return f"subgroup_scan {attr[0]} {'inclusive' if attr[1] else 'exclusive'}"
    if node.kind == "alloc":
        space, size, access = attr
        return f"alloc {space} {size}" + (" atomic" if access == "atomic" else "")
    return node.kind if attr is None else f"{node.kind} {attr}"


def _width(node: Node) -> int:
    return (node if node.kind == "load" else node.inputs[2]).value_type.width
