"""Loops and branches that are being written: ``with b.for_(0, n, carried=[x]) as loop``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from pyrite.errors import KernelError
from pyrite.kernel.ir import RARE, Kind, Node, Region, Type
from pyrite.types import Number


class TypedNode(Protocol):
    """What a value is here: a node that has a type."""

    @property
    def node(self) -> Node: ...
    @property
    def type(self) -> Type: ...


V = TypeVar("V", bound=TypedNode)


class Author(Protocol[V]):
    """What loops and branches ask of the builder that opens them."""

    @property
    def index_type(self) -> Type: ...
    def of(self, node: Node) -> V: ...
    def value(self, x: V | Number, type: Type) -> V: ...
    def open(self, parameters: Iterable[Node] = ()) -> None: ...
    def close(self, yields: Iterable[Node] = ()) -> Region: ...
    def discard(self) -> None: ...
    def position(self) -> int: ...
    def replace_last(self, node: Node) -> None: ...
    def emit(
        self,
        kind: Kind,
        type: Type | None,
        inputs: tuple[Node, ...] = (),
        attr: Any = None,
        regions: tuple[Region, ...] = (),
    ) -> Node: ...


class _Loop(Generic[V]):
    """What both loops share: carried values, their yields, their results."""

    def __init__(self, builder: Author[V], carried: Sequence[V]) -> None:
        self._builder = builder
        self._initial = tuple(carried)
        self._yields: tuple[V, ...] | None = None
        #: The carried values as the body sees them.
        self.carried: tuple[V, ...] = ()
        #: The carried values after the loop; set when it is closed.
        self.results: tuple[V, ...] = ()

    def yield_(self, *values: V | Number) -> None:
        """Say what the carried values are in the next round.  Once, at the end of the body."""
        self._yields = _yielded(self._builder, values, [v.type for v in self._initial])

    def _parameters(self, extra: tuple[Type, ...] = ()) -> tuple[Node, ...]:
        types = (*extra, *(v.type for v in self._initial))
        return tuple(Node("parameter", t, (), i) for i, t in enumerate(types))

    def _close(self) -> Region:
        if self._yields is None:
            if self._initial:
                raise KernelError("a loop with carried values requires yield_ at its end")
            self._yields = ()
        return self._builder.close(v.node for v in self._yields)


class ForLoop(_Loop[V]):
    """A counted loop that is being written: `index`, `carried`, `yield_`, then `results`."""

    def __init__(
        self,
        builder: Author[V],
        start: V,
        stop: V,
        step: int,
        carried: Sequence[V],
        unroll: bool,
        is_entered: bool = False,
    ) -> None:
        super().__init__(builder, carried)
        self._bounds = (start, stop)
        self._attr = (step, unroll, is_entered)
        #: The counter; set when the loop is entered.
        self.index: V = start

    def __enter__(self) -> ForLoop[V]:
        parameters = self._parameters((self._builder.index_type,))
        self._builder.open(parameters)
        self.index, *carried = (self._builder.of(p) for p in parameters)
        self.carried = tuple(carried)
        return self

    def __exit__(
        self, error: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        if error is not None:
            return self._builder.discard()
        region = self._close()
        inputs = tuple(v.node for v in (*self._bounds, *self._initial))
        node = self._builder.emit("for", None, inputs, self._attr, (region,))
        self.results = _results(self._builder, node, self._initial)
        return None


class WhileLoop(_Loop[V]):
    """A loop that is being written: compute the condition, `condition`, the body, `yield_`."""

    def __init__(self, builder: Author[V], carried: Sequence[V]) -> None:
        super().__init__(builder, carried)
        self._condition: Region | None = None

    def __enter__(self) -> WhileLoop[V]:
        self._open()
        return self

    def condition(self, value: V) -> None:
        """End the part that is run to decide; from here on the loop's body is written."""
        decided = self._builder.value(value, value.type)
        self._condition = self._builder.close((decided.node,))
        self._open()

    def _open(self) -> None:
        parameters = self._parameters()
        self._builder.open(parameters)
        self.carried = tuple(self._builder.of(p) for p in parameters)

    def __exit__(
        self, error: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        if error is not None:
            return self._builder.discard()
        if self._condition is None:
            raise KernelError("while_ requires a call of condition(...) in its body")
        regions = (self._condition, self._close())
        inputs = tuple(v.node for v in self._initial)
        node = self._builder.emit("while", None, inputs, None, regions)
        self.results = _results(self._builder, node, self._initial)
        return None


class Branch(Generic[V]):
    """A branch that is being written: `yield_` in both parts, then `results`."""

    def __init__(self, builder: Author[V], condition: V, *, is_rare: bool = False) -> None:
        self._builder = builder
        self._attr = RARE if is_rare else None
        self._condition = condition
        self._parts: list[Region] = []
        self._yields: tuple[V, ...] = ()
        self._end = 0
        #: What the parts yielded; set when `else_` is closed.
        self.results: tuple[V, ...] = ()

    def __enter__(self) -> Branch[V]:
        self._builder.open()
        self._yields = ()
        return self

    def else_(self) -> Branch[V]:
        """Open the other part, right after the first: ``with branch.else_():``."""
        if len(self._parts) != 1 or self._builder.position() != self._end:
            raise KernelError("else_ requires to stand right after its if_")
        return self

    def yield_(self, *values: V | Number) -> None:
        """Say what this part gives.  Both parts give as many values, of the same types."""
        if self._parts:
            types = [y.value_type for y in self._parts[0].yields]
        else:
            types = [self._type_of(v) for v in values]
        self._yields = _yielded(self._builder, values, types)

    @staticmethod
    def _type_of(value: V | Number) -> Type:
        if isinstance(value, int | float):
            raise KernelError(f"yield_ requires a value in the first part, got {value}; use const")
        return value.type

    def __exit__(
        self, error: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        builder = self._builder
        if error is not None:
            return builder.discard()
        self._parts.append(builder.close(v.node for v in self._yields))
        inputs = (self._condition.node,)
        if len(self._parts) == 1:
            builder.emit("if", None, inputs, self._attr, (self._parts[0], Region((), ())))
            self._end = builder.position()
            return None
        node = Node("if", None, inputs, self._attr, tuple(self._parts))
        builder.replace_last(node)
        if len(self._parts[0].yields) != len(self._parts[1].yields):
            raise KernelError("if_ and else_ require the same number of yielded values")
        self.results = _results(builder, node, self._yields)
        return None


def _yielded(
    builder: Author[V], values: Sequence[V | Number], types: Sequence[Type]
) -> tuple[V, ...]:
    if len(values) != len(types):
        raise KernelError(f"yield_ requires {len(types)} values, got {len(values)}")
    found = tuple(builder.value(v, t) for v, t in zip(values, types, strict=True))
    for value, type in zip(found, types, strict=True):
        if value.type is not type:
            raise KernelError(f"yield_ requires a value of {type}, got {value.type}")
    return found


def _results(builder: Author[V], node: Node, like: Sequence[V]) -> tuple[V, ...]:
    """Return what a control node yields."""
    return tuple(builder.of(builder.emit("result", v.type, (node,), i)) for i, v in enumerate(like))
