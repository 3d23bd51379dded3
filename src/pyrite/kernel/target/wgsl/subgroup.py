"""What the invocations of a subgroup do together."""

from __future__ import annotations

from pyrite.kernel.ir import Node, Type
from pyrite.kernel.target.wgsl.spelling import BINARY, SHUFFLES, SPELLED, SUBGROUP
from pyrite.kernel.target.wgsl.text import Text
from pyrite.types import DType, Number


class Subgroups(Text):
    """The part of the printer for subgroups."""

    def subgroup(self, node: Node) -> None:
        self.subgroups()
        x, *rest = (self.values[i] for i in node.inputs)
        if node.kind == "subgroup_reduce":
            self.define(node, [f"{SUBGROUP[node.attr]}({piece})" for piece in x])
        elif node.kind == "subgroup_broadcast":
            self.define(node, [f"subgroupBroadcastFirst({piece})" for piece in x])
        elif node.kind == "subgroup_ballot":
            self.define(node, [f"subgroupBallot({x[0]})"])
        else:
            lane = f"u32({rest[0][0]})"
            self.define(node, [f"{SHUFFLES[node.attr]}({piece}, {lane})" for piece in x])

    def subgroup_scan(self, node: Node) -> None:
        """Scan by shuffles, log2 of the lanes of them; WGSL scans only sums and products."""
        self.subgroups()
        name, is_inclusive = node.attr
        lane, lanes = self.builtin("subgroup_lane"), self.builtin("subgroup_size")
        type = node.value_type
        total = self.variables(type, self.values[node.inputs[0]])
        distance = self.name()

        def step() -> None:
            for piece in total:
                before = self.let(f"subgroupShuffleUp({piece}, {distance})")
                combined = self.combine(name, type, before, piece)
                self.line(f"if ({lane} >= {distance}) {{ {piece} = {combined}; }}")

        self.block(f"for (var {distance} = 1u; {distance} < {lanes}; {distance} *= 2u) {{", step)
        if is_inclusive:
            self.values[node] = total
            return
        zero = f"{self.type(type)}({self.literal(_identity(name, type.dtype), type.dtype)})"
        shifted = [self.let(f"subgroupShuffleUp({piece}, 1u)") for piece in total]
        self.define(node, [f"select({piece}, {zero}, {lane} == 0u)" for piece in shifted])

    def combine(self, name: str, type: Type, x: str, y: str) -> str:
        if name in BINARY:
            return f"{x} {BINARY[name]} {y}"
        return SPELLED[name](self, type, x, y)


def _identity(name: str, dtype: DType) -> Number:
    """Return the neutral element of an operation."""
    if name in ("min", "max"):
        return dtype.highest if name == "min" else dtype.lowest
    if name == "and":
        return True if dtype.is_bool else (-1 if dtype.kind == "int" else int(dtype.highest))
    return 1 if name == "mul" else 0
