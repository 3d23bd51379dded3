"""What a kernel in Python is written with: the scope, and tensors by their coordinates.

Every coordinate is tested where it is not known to be inside: a counter of a loop with fixed bounds
and the coordinates of the point itself need no test.  Outside, ``x[i, j]`` is an error, raised by
the next read of a value of the device, and ``x.get(i, j)`` is 0.  So no kernel of an application
can touch memory that is not its own, on any runtime.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.backend.cube.operand import Layout, Operand, invocation_of, unravel
from pyrite.errors import KernelError
from pyrite.kernel import KernelBuilder, Memory, Value
from pyrite.kernel.build import ForLoop
from pyrite.kernel.build import Operand as Number
from pyrite.kernel.ir import Node
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.types import DType, Shape, bool_, element_count, uint32

Coordinates = tuple[Number, ...] | Number


class KernelScope(KernelBuilder):
    """A `KernelBuilder` that knows which point it is at, and has mathematics.

    ``at`` are the coordinates of the element of the first output that this invocation makes; empty
    for a kernel with a grid of its own.  ``math`` has exp, log, tanh, erf and the like, as
    `pyrite.algebra` lists them, within a few ulp on every device.
    """

    def __init__(self, name: str, *, workgroup_size: tuple[int, ...], grid: int) -> None:
        super().__init__(name, workgroup_size=workgroup_size, grid=grid)
        self.math = RecordingAlgebra(self)
        self.at: tuple[Value, ...] = ()
        #: Least and greatest value of nodes.
        self._known: dict[Node, tuple[int, int]] = {}
        self._fault: tuple[Memory, Value] | None = None

    @property
    def can_fail(self) -> bool:
        """Whether an access was recorded that may be outside; then an error word is bound last."""
        return self._fault is not None

    def stand_at(self, shape: Shape) -> Value:
        """Set `at` to the point of a shape; return the number of the invocation, which may be none.

        What is recorded next stands under a test that the number is less than the elements.
        """
        index = invocation_of(self)
        self.at = tuple(self.index(c) for c in unravel(self, index, shape))
        for coordinate, size in zip(self.at, shape, strict=True):
            self.know(coordinate, 0, size - 1)
        return index

    def for_(
        self,
        start: Number,
        stop: Number,
        *,
        step: int = 1,
        carried: Sequence[Value] = (),
        unroll: bool = False,
    ) -> ForLoop:
        """Open a counted loop: ``with k.for_(0, n, carried=[total]) as loop``."""
        return _KnownLoop(self, self.index(start), self.index(stop), step, carried, unroll)

    def know(self, x: Value, low: int, high: int) -> None:
        """Note that low <= x <= high wherever x is used."""
        self._known[x.node] = (low, high)

    def inside(self, x: Value, size: int) -> Value | None:
        """Return whether 0 <= x < size, or None where that is known."""
        low, high = self._range(x.node)
        if low is not None and high is not None and 0 <= low and high < size:
            return None
        found = self.const(size > 0, bool_)
        if size <= int(x.dtype.highest):
            found = found & (x < size)
        return found if x.dtype.kind == "uint" else found & (x >= 0)

    def fail(self, failed: Value) -> None:
        """Have the next read of a value of the device raise IndexRangeError, if that is true."""
        if self._fault is None:
            word = self.buffer("error_word", uint32, "atomic")
            self._fault = word, self.scalar("error_number", uint32)
        self.error(self._fault[0], failed, self._fault[1])

    def _range(self, node: Node) -> tuple[int, int] | tuple[None, None]:
        if node.kind == "const":
            return node.attr, node.attr
        if node.kind == "builtin" and node.attr[0] == "local_id":
            return 0, self.workgroup_size[node.attr[1]] - 1
        return self._known.get(node, (None, None))


class _KnownLoop(ForLoop):
    """A loop between constants tells how far its counter goes."""

    def __enter__(self) -> ForLoop:
        super().__enter__()
        scope, (start, stop) = self._builder, self._bounds
        if isinstance(scope, KernelScope) and start.node.kind == stop.node.kind == "const":
            scope.know(self.index, start.node.attr, stop.node.attr - 1)
        return self


class TensorArgument:
    """An input or output of a kernel: ``x[i, j]`` reads, ``out[i, j] = value`` writes.

    Elements of float16 and bfloat16 are float32 in the kernel, and rounded when they are written.
    Inputs may be views of any strides: no copy is made of them.
    """

    def __init__(
        self, scope: KernelScope, name: str, shape: Shape, layout: Layout, *, is_output: bool
    ) -> None:
        self.name = name
        self.shape = shape
        self._is_output = is_output
        self._scope = scope
        self._operand = Operand(scope, name, layout, "write" if is_output else "read")

    @property
    def dtype(self) -> DType:
        """Element type of the tensor."""
        return self._operand.layout.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return element_count(self.shape)

    def __getitem__(self, coordinates: Coordinates) -> Value:
        return self._load(coordinates, is_strict=True)[0]

    def get(self, *coordinates: Number, other: Number = 0) -> Value:
        """Return the element at the coordinates, or ``other`` where there is none."""
        value, inside = self._load(coordinates, is_strict=False)
        return value if inside is None else self._scope.select(inside, value, other)

    def __setitem__(self, coordinates: Coordinates, value: Number) -> None:
        if not self._is_output:
            raise KernelError(f"kernel requires writes to outputs, got one to input {self.name!r}")
        place, inside = self._place(coordinates, is_strict=True)
        made = value if isinstance(value, Value) else self._operand.const(value)
        self._operand.store(place, made, mask=inside)

    def _load(self, coordinates: Coordinates, *, is_strict: bool) -> tuple[Value, Value | None]:
        if self._is_output:
            raise KernelError(
                f"kernel requires reads of inputs, got one of output {self.name!r}; keep the value "
                "in a variable, or in shared memory"
            )
        place, inside = self._place(coordinates, is_strict)
        return self._operand.load(place, mask=inside), inside

    def _place(self, coordinates: Coordinates, is_strict: bool) -> tuple[Value, Value | None]:
        """Return where the element is, and whether it is there, None where that is known."""
        given = coordinates if isinstance(coordinates, tuple) else (coordinates,)
        if len(given) != self.ndim:
            raise KernelError(
                f"{self.name}[...] requires {self.ndim} coordinates of shape {self.shape}, got "
                f"{len(given)}"
            )
        scope, inside = self._scope, None
        at: list[Value | int] = []
        for axis, (coordinate, size) in enumerate(zip(given, self.shape, strict=True)):
            here = self._on_axis(axis, coordinate, size)
            test = scope.inside(here, size)
            at.append(_as_index(scope, here, test))
            if test is not None:
                inside = test if inside is None else inside & test
        if inside is not None and is_strict:
            scope.fail(~inside)
        return self._operand.at(at), inside

    def _on_axis(self, axis: int, coordinate: Number, size: int) -> Value:
        if isinstance(coordinate, Value):
            if coordinate.dtype.is_integer and coordinate.width == 1:
                return coordinate
            got = str(coordinate.type)
        elif isinstance(coordinate, int):
            return self._scope.index(coordinate)
        else:
            got = repr(coordinate)
        raise KernelError(
            f"{self.name}[...] requires integers as coordinates, got {got} on axis {axis}"
        )


def _as_index(scope: KernelScope, x: Value, inside: Value | None) -> Value:
    """Return a coordinate in the index dtype; 0 where it is outside and might not fit."""
    index = scope.index_type.dtype
    if x.dtype is index:
        return x
    return scope.cast(x if inside is None else scope.select(inside, x, 0), index)
