"""The text of a module while it is written: types and numbers, lines and values."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from pyrite.errors import DTypeError, KernelError, UnsupportedKernelError
from pyrite.kernel.ir import Kernel, Node, Region, Type
from pyrite.kernel.target.wgsl.place import vector_widths
from pyrite.kernel.target.wgsl.spelling import BUILTINS, COMPONENTS, INSTEAD, TYPES, function_of
from pyrite.types import DType, Number

INDENT = "  "

#: The value of a node: one expression for each four elements.
Pieces = tuple[str, ...]


class Text(ABC):
    """What all parts of the printer write to, and what they know of the nodes before."""

    def __init__(
        self,
        kernel: Kernel,
        features: frozenset[str],
        all_writable: bool,
        is_folded: bool,
        has_immediates: bool,
    ) -> None:
        self.kernel = kernel
        self.features = features
        self.all_writable = all_writable
        self.is_folded = is_folded
        self.has_immediates = has_immediates
        self.values: dict[Node, Pieces] = {}
        #: What the regions of each control node yielded.
        self.results: dict[Node, Sequence[Pieces]] = {}
        self.memories: dict[Node, str] = {}
        self.vector_widths = vector_widths(kernel)
        self.module: list[str] = []
        self.lines: list[str] = []
        #: For each region being printed, indices over the width of a vector: see `quotient`.
        self.quotients: list[dict[tuple[Node, int], str]] = []
        self.depth = 1
        self.numbered = 0
        self.functions: dict[str, str] = {}
        self.builtins: dict[str, None] = {}
        self.enabled: dict[str, None] = {}

    @abstractmethod
    def region(self, region: Region) -> None:
        """Write the nodes of a region."""

    # Types and numbers.

    def scalar(self, dtype: DType) -> str:
        if dtype.name not in TYPES:
            self.unsupported(dtype)
        name, _, feature = TYPES[dtype.name]
        if feature is not None:
            if feature not in self.features:
                self.unsupported(dtype)
            if feature == "shader-f16":
                self.enabled["f16"] = None
        return name

    def no_wide_atomics(self, dtype: DType) -> None:
        raise DTypeError(
            f"kernel '{self.kernel.name}' requires atomics of 32 bits for WGSL, got {dtype.name}; "
            "use float32, int32 or uint32, or run it on cpu"
        )

    def unsupported(self, dtype: DType) -> None:
        if dtype.name in INSTEAD:
            raise DTypeError(
                f"kernel '{self.kernel.name}' requires a device with {dtype.name}, got one "
                f"without; use {INSTEAD[dtype.name]}: x.astype(pyrite.{INSTEAD[dtype.name]})"
            )
        raise KernelError(
            f"kernel '{self.kernel.name}' requires 32-bit words for WGSL, got {dtype.name}; "
            "legalise it first"
        )

    def type(self, type: Type) -> str:
        """Return the type of one piece of a value."""
        name = self.scalar(type.dtype)
        return name if type.width == 1 else f"vec{min(type.width, 4)}<{name}>"

    def literal(self, value: Number, dtype: DType) -> str:
        """Return a number as WGSL writes it."""
        if dtype.is_bool:
            return "true" if value else "false"
        suffix = TYPES[dtype.name][1] if self.scalar(dtype) else ""
        if dtype.is_float:
            return self.float_literal(float(value), dtype, suffix)
        if value == dtype.lowest and dtype.kind == "int":
            return f"({int(value) + 1}{suffix} - 1{suffix})"
        return f"{int(value)}{suffix}"

    def float_literal(self, value: float, dtype: DType, suffix: str) -> str:
        if math.isfinite(value):
            return f"{value!r}{suffix}"
        self.function("bits_f32")
        bits = "0x7fc00000u" if math.isnan(value) else "0x7f800000u"
        sign = "-" if value < 0 else ""
        spelled = f"{sign}bits_f32({bits})"
        return spelled if dtype.name == "float32" else f"{self.scalar(dtype)}({spelled})"

    def function(self, name: str) -> str:
        if name not in self.functions:
            if name.startswith("mulhi_i"):
                self.function(name.replace("_i", "_u"))
            self.functions[name] = function_of(name, self.features)
        return name

    # Lines and values.

    def line(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def name(self) -> str:
        self.numbered += 1
        return f"v{self.numbered - 1}"

    def let(self, expression: str) -> str:
        name = self.name()
        self.line(f"let {name} = {expression};")
        return name

    def define(self, node: Node, expressions: Sequence[str]) -> None:
        """Give the node its value, an expression for each piece."""
        self.values[node] = tuple(self.let(e) for e in expressions)

    def variables(self, type: Type, initial: Pieces | None) -> Pieces:
        """New variables of the type."""
        names = []
        for piece in range(pieces_of(type)):
            name = self.name()
            value = f" = {initial[piece]}" if initial is not None else ""
            self.line(f"var {name}: {self.type(type)}{value};")
            names.append(name)
        return tuple(names)

    def element(self, node: Node, element: int) -> str:
        """Return the expression of one element of a value."""
        width = node.value_type.width
        if width == 1:
            return self.values[node][0]
        return f"{self.values[node][element // 4]}.{COMPONENTS[element % 4]}"

    def grouped(self, type: Type, elements: Sequence[str]) -> Iterator[str]:
        """Yield the pieces of a vector of these elements."""
        for start in range(0, type.width, 4):
            part = elements[start : start + 4]
            inside = part[0] if len(set(part)) == 1 else ", ".join(part)
            yield f"{self.type(type)}({inside})"

    def block(self, opening: str, fill: Callable[[], None], closing: str = "}") -> None:
        self.line(opening)
        self.depth += 1
        fill()
        self.depth -= 1
        self.line(closing)

    def builtin(self, name: str) -> str:
        self.builtins[name] = None
        if name.startswith("subgroup"):
            self.subgroups()
        return BUILTINS[name][1]

    def subgroups(self) -> None:
        if "subgroups" in self.features:
            self.enabled["subgroups"] = None
        elif "subgroup" not in self.features:
            raise UnsupportedKernelError(
                f"kernel '{self.kernel.name}' requires a device with subgroups, got one without; "
                "use workgroup memory"
            )


def pieces_of(type: Type) -> int:
    return max(1, type.width // 4)
