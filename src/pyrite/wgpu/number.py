"""Numbers that an application's WGSL gets at each launch, under their own names.

    var<private> scale: f32;             declared after the text
    fn main(...) { begin_numbers();      the one change of the text: no line moves

A uniform struct has them; what the entry point calls first copies each to a variable of its name.
So the text says ``scale``, also in its functions, and another scale compiles nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyrite.kernel.builder import exact
from pyrite.op import Attributes
from pyrite.types import DType, Number, float32, float64, int32

_BEGIN = "begin_numbers"


@dataclass(frozen=True, slots=True)
class Numbers:
    """The ints and floats among the attributes of a call, which are no constants, and their dtypes.

    Fractions travel as float32, and as float64 beside float64; they are in the kernel what its
    first input is, if that is of floats.
    """

    dtypes: Mapping[str, DType]
    values: Sequence[Number]

    @classmethod
    def of(cls, attrs: Attributes, static: frozenset[str], elem: DType) -> Numbers:
        """Return those of a call whose first tensor is of a dtype.

        Raises KernelError for an int that is none of int32.
        """
        of_kind = {int: int32, float: float64 if elem is float64 else float32}
        found = {n: v for n, v in attrs.items() if type(v) in of_kind and n not in static}
        dtypes = {name: of_kind[type(value)] for name, value in found.items()}
        return cls(dtypes, [exact(value, dtypes[name]) for name, value in found.items()])

    def begun(self, source: str) -> str:
        """Return a module whose entry point takes them first."""
        at = _body_of_main(source) if self.dtypes else None
        return source if at is None else f"{source[:at]} {_BEGIN}();{source[at:]}"

    def declarations(self, binding: int, elem: str, elem_is_float: bool) -> list[str]:
        """Return what declares them, as the binding of that number."""
        if not self.dtypes:
            return []
        lines = ["struct Numbers {"]
        lines += [f"    {name}: {_NAMES[dtype]}," for name, dtype in self.dtypes.items()]
        lines += ["}", f"@group(0) @binding({binding}) var<uniform> numbers_given: Numbers;"]
        copies: list[str] = []
        for name, dtype in self.dtypes.items():
            kind = elem if dtype.is_float and elem_is_float else _NAMES[dtype]
            lines.append(f"var<private> {name}: {kind};")
            copies.append(f"{name} = {kind}(numbers_given.{name});")
        return [*lines, f"fn {_BEGIN}() {{ {' '.join(copies)} }}"]


_NAMES = {int32: "i32", float32: "f32", float64: "f64"}


def _body_of_main(source: str) -> int | None:
    """Return the place behind the brace that opens the entry point, if there is one."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: " " * len(m[0]), source, flags=re.DOTALL)
    head = re.search(r"\bfn\s+main\s*\(", code)
    if head is None:
        return None
    depth = 1
    for place in range(head.end(), len(code)):
        depth += {"(": 1, ")": -1}.get(code[place], 0)
        if depth == 0:
            brace = code.find("{", place)
            return None if brace < 0 else brace + 1
    return None
