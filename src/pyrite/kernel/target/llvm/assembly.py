"""The text of a module while it is written: lines, names of values, calls of intrinsics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from pyrite.kernel.ir import Kernel, Node, Region, Type
from pyrite.kernel.target.llvm.processor import LLVMTarget
from pyrite.kernel.target.llvm.spelling import element_type, splat, type_of

#: The widest access: 16 elements of 8 bytes.
SPARE: Final = "128 x i8"


class Assembly(ABC):
    """What all parts of the printer write to, and what they know of the nodes before."""

    def __init__(self, kernel: Kernel, target: LLVMTarget, streams: frozenset[int]) -> None:
        self.kernel = kernel
        self.target = target
        self.streams = streams
        self.lines: list[str] = []
        self.names: dict[Node, str] = {}
        self.results: dict[Node, Sequence[str]] = {}
        self.declarations: dict[str, str] = {}
        #: Which of the memories that may be touched for nothing are in use.
        self.spares: set[str] = set()
        self.count = 0
        self.block = "entry"

    @abstractmethod
    def region(self, region: Region) -> None:
        """Write the nodes of a region."""

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def value(self, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def labels(self, *names: str) -> list[str]:
        self.count += 1
        return [f"{name}{self.count}" for name in names]

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def reserve(self) -> int:
        """Keep a line for a phi, of which what comes in is known only later."""
        self.lines.append("")
        return len(self.lines) - 1

    def call(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Call an intrinsic on pairs of a type and a value."""
        if name not in self.declarations:
            types = ", ".join(type for type, _ in arguments)
            self.declarations[name] = f"declare {result} @{name}({types})"
        given = ", ".join(f"{type} {value}" for type, value in arguments)
        text = f"call {result} @{name}({given})"
        if result == "void":
            self.line(text)
            return ""
        return self.value(text)

    def typed(self, node: Node) -> str:
        return f"{type_of(node.value_type)} {self.names[node]}"

    def convert(self, instruction: str, x: str, source: str, to: str) -> str:
        return self.value(f"{instruction} {source} {x} to {to}")

    def splat_value(self, x: str, type: Type) -> str:
        spelled, element = type_of(type), element_type(type.dtype)
        if not x.startswith("%"):
            return splat(element, type.width, x)
        first = self.value(f"insertelement {spelled} poison, {element} {x}, i64 0")
        lanes = f"<{type.width} x i32> zeroinitializer"
        return self.value(f"shufflevector {spelled} {first}, {spelled} poison, {lanes}")
