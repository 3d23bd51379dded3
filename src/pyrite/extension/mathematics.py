"""Mathematics in an application's kernel: ``k.math.exp(x)``.

The functions of `pyrite.algebra` are written with the plain operations of a `KernelBuilder`, which
know what they are given; so they get a builder of that kind, which records in the same kernel.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from pyrite.errors import KernelError
from pyrite.extension.mistake import require_dtype, require_own, shown
from pyrite.kernel import KernelBuilder, Memory, Value
from pyrite.kernel.builder import Operand
from pyrite.kernel.ir import ACCEPTED, Access, Kind, Node, Region, Type
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.symbol import Symbol
from pyrite.types import DType, DTypeLike, Number, int32, uint32
from pyrite.types import dtype as as_dtype


class Plain(KernelBuilder):
    """The builder below an application's: it records in the same kernel, and tests nothing.

    Its values are not for the application: `pyrite.kernel.builder.KernelBuilder.of` of the scope
    makes them its own.
    """

    def __init__(self, scope: KernelBuilder) -> None:
        super().__init__(scope.name, workgroup_size=scope.workgroup_size, grid=scope.grid)
        self.scope = scope

    def emit(
        self,
        kind: Kind,
        type: Type | None,
        inputs: tuple[Node, ...] = (),
        attr: Any = None,
        regions: tuple[Region, ...] = (),
    ) -> Node:
        """Append a node to the kernel."""
        return self.scope.emit(kind, type, inputs, attr, regions)

    def open(self, parameters: Iterable[Node] = ()) -> None:
        """Begin a region of the kernel."""
        self.scope.open(parameters)

    def close(self, yields: Iterable[Node] = ()) -> Region:
        """End the region begun last and return it."""
        return self.scope.close(yields)

    def discard(self) -> None:
        """Drop the region begun last."""
        self.scope.discard()

    def buffer(self, name: str, dtype: DType, access: Access) -> Memory:
        """Declare the next buffer parameter of the kernel."""
        return Memory(self, self.scope.buffer(name, dtype, access).node)

    def _argument(self, symbol: Symbol, dtype: DType) -> Value:
        return self.of(self.scope._argument(symbol, dtype).node)

    def scalar(self, name: str, dtype: DType) -> Value:
        """Declare the next parameter of the kernel as a number."""
        return self.of(self.scope.scalar(name, dtype).node)

    @property
    def invocations(self) -> int:
        """The number of invocations in a workgroup."""
        x, y, z = self.workgroup_size
        return x * y * z

    def position(self) -> int:
        """Return the number of nodes in the region that is being written."""
        return self.scope.position()

    def replace_last(self, node: Node) -> None:
        """Put a node in the place of the last one."""
        self.scope.replace_last(node)


class Noting(KernelBuilder):
    """A builder that hears of the mathematics in it."""

    @abstractmethod
    def note_applied(self, name: str, operands: Sequence[Value], result: Value) -> None:
        """Note a function of the mathematics."""


class Mathematics(RecordingAlgebra):
    """Every intrinsic of `pyrite.algebra`, of values of one kernel; and C's division.

    Raises KernelError for what is no value of the kernel, and for a dtype that it does not take.
    """

    def __init__(self, scope: Noting, plain: Plain) -> None:
        super().__init__(plain)
        self._scope = scope

    def where(self, condition: Value, x: Operand, y: Operand) -> Value:
        """Return x where the condition holds, else y."""
        return self._scope.select(condition, x, y)

    def cast(self, x: Value, dtype: DTypeLike) -> Value:
        """Convert; floats saturate at the bounds of integers, and NaN becomes 0."""
        if not isinstance(x, Value):
            raise KernelError(f"k.math.cast requires a value of the kernel, got {shown(x)}")
        require_own(self._scope, "k.math.cast", (x,))
        require_dtype("k.math.cast", dtype)
        wide = self.builder.cast(self._plain(x), x.dtype.compute)
        return self._scope.of(super().cast(wide, as_dtype(dtype)).node)

    def constant(self, value: Number, dtype: DTypeLike) -> Value:
        """Return the number, in a dtype."""
        return self._scope.const(value, as_dtype(dtype))

    def bitcast(self, x: Value, dtype: DTypeLike) -> Value:
        """Return the same bits as another dtype."""
        return self._scope.bitcast(x, as_dtype(dtype))

    def truncated_divide(self, x: Operand, y: Operand) -> Value:
        """Return x / y rounded towards 0, as C's division of integers; 0 for y = 0."""
        x, y = self._of_one_type("truncated_divide", (x, y))
        if x.dtype.is_integer:
            return self._scope.alu("div", x, y)
        return self.trunc(x / y)

    def _of_one_type(self, name: str, operands: tuple[Operand, ...]) -> tuple[Value, ...]:
        """Return the operands in the type in which they meet.  Raises KernelError of wrong ones."""
        require_own(self._scope, f"k.math.{name}", operands)
        if not any(isinstance(x, Value) for x in operands):
            raise KernelError(
                f"k.math.{name} requires a value of the kernel, got "
                f"{', '.join(map(shown, operands))}; of numbers that are known while it is written "
                "use Python's math"
            )
        type = self._scope._common_type(f"k.math.{name}", operands)
        require_taken(name, type.dtype, str(type))
        return tuple(self._scope.value(x, type) for x in operands)

    def _plain(self, x: Any) -> Any:
        """Return an operand as one of the plain builder.

        An integer comes as one of which nothing is known: its arithmetic may wrap around, which
        `pyrite.kernel.passes.simplify_index` trusts that of indices not to do.
        """
        if not isinstance(x, Value):
            return x
        value = Value(self.builder, x.node)
        if value.dtype is not int32 or x.node.kind == "const":
            return value
        return self.builder.bitcast(self.builder.bitcast(value, uint32), int32)


_INTEGERS: Final = ("shift_left", "shift_right", "popcount")
_NUMBERS: Final = (
    "isnan", "isinf", "exceeds", "abs", "sign", "signbit", "floor", "ceil", "trunc", "rint",
    "floor_divide", "remainder", "truncated_remainder", "truncated_divide", "pow",
)  # fmt: skip


def require_taken(name: str, dtype: DType, given: str) -> None:
    """Raise KernelError unless an intrinsic takes a dtype."""
    is_taken, cast = takes(name, dtype)
    if not is_taken:
        raise KernelError(
            f"k.math.{name} requires {cast}, got {given}; cast it: k.cast(x, "
            f"{'float32' if 'float' in cast else 'int32'!r})"
        )


def takes(name: str, dtype: DType) -> tuple[bool, str]:
    """Return whether an intrinsic takes a dtype, and which it takes."""
    if name in _INTEGERS:
        return dtype.is_integer, "integers"
    if name == "multiply_high":
        return dtype is uint32, "uint32"
    if name in _NUMBERS:
        return dtype in ACCEPTED["number"], "integers or floats of 32 or 64 bits"
    if name in ("minimum", "maximum"):
        return dtype in ACCEPTED["any"], "bools, integers or floats of 32 or 64 bits"
    return dtype in ACCEPTED["float"], "floats of 32 or 64 bits"


def _checked(name: str) -> Callable[..., Value]:
    function = getattr(RecordingAlgebra, name)

    def intrinsic(self: Mathematics, *operands: Operand) -> Value:
        values = self._of_one_type(name, operands)
        result = self._scope.of(function(self, *(self._plain(x) for x in values)).node)
        self._scope.note_applied(name, values, result)
        return result

    intrinsic.__name__, intrinsic.__doc__ = name, function.__doc__
    return intrinsic


for _name in vars(RecordingAlgebra):
    if not (_name.startswith("_") or _name == "lift" or _name in vars(Mathematics)):
        setattr(Mathematics, _name, _checked(_name))
