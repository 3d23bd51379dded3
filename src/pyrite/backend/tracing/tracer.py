"""Tracing: the body of a composite is run once on tensors without values, and becomes a graph.

The tensors are real ones, on a backend of their own whose handles are numbers of values; so a body
may call all that a tensor has.  What asks for a value, for another device or for random numbers
cannot be in a graph: then the composite is expanded at each call, as one op after another.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cache
from typing import Any, NoReturn

from pyrite.backend.graph import (
    Graph,
    Input,
    Literal,
    Node,
    Operand,
    content_of_node,
    pruned,
)
from pyrite.backend.protocol import Backend
from pyrite.backend.tracing.active import active
from pyrite.cached import UnhashableSymbolError
from pyrite.content import NoContentError, content_of
from pyrite.errors import ArgumentError
from pyrite.op import (
    Attributes,
    Constant,
    Op,
    Plan,
    SymbolicFloat,
    SymbolicInteger,
    SymbolicNumber,
    TensorBase,
    UntraceableError,
    body_key,
    rules_key,
)
from pyrite.op.size import SizeInt, SizeNumber, unmarked
from pyrite.recent import Recent
from pyrite.sized import is_size, size_of
from pyrite.types import Array, TensorType, element_count, float32, float64

#: The most ops of a body: one that goes on longer is a loop that belongs to the host.
MOST_NODES = 512

#: Graphs that are kept, and refusals.
_KEPT = 1024

#: What a body gets: the type of a tensor, the type and maybe the value of a number, or None.
Given = TensorType | Constant | None


class Handle(int):
    """The number of a value, as a handle: a plain int would be taken for a number of Python's."""

    __slots__ = ()


class _ShowsSizes:
    """A tensor while a body is traced: its sizes are marked."""

    __slots__ = ()

    @classmethod
    def _wrap(cls, handle: Any, type: TensorType, backend: Any) -> Any:
        made: Any = cls.__new__(cls)
        made._handle, made._type, made._backend = handle, type, backend
        return made

    @property
    def shape(self: Any) -> tuple[int, ...]:
        """Sizes of the axes."""
        value = int(self._handle)
        return tuple([
            n if is_size(n) else SizeInt(n, f"{value}.{axis}")
            for axis, n in enumerate(self._type.shape)
        ])  # fmt: skip

    @property
    def size(self) -> int:
        """Number of elements."""
        return element_count(self.shape)


@cache
def _showing_sizes(cls: Any) -> Any:
    """Return the class of tensors whose sizes are marked."""
    return type(cls.__name__, (_ShowsSizes, cls), {"__slots__": ()})


class Tracer(Backend):
    """A backend on which nothing is computed: it notes the primitive ops that it is to run."""

    # Above all that a body could have captured, so that a call with such a tensor comes here.
    level = 1 << 16

    def __init__(self, inputs: Sequence[Input]) -> None:
        self.inputs = list(inputs)
        self._nodes: list[Node] = []
        self._types: list[TensorType] = [i.type for i in inputs]
        self._made: dict[Hashable, Node] = {}
        #: Numbers among the inputs: by position, or by how they are made of sizes.
        self._numbers: dict[tuple[int | str, TensorType], Input] = {}
        self.refusal: str | None = None

    def refuse(self, what: str) -> NoReturn:
        """Raise UntraceableError, and remember it in case the body catches that."""
        self.refusal = what
        raise UntraceableError(what)

    @property
    def name(self) -> str:  # type: ignore[override]
        """Refuse to say where a body runs: it may run anywhere."""
        self.refuse("the name of the device")

    def supports(self, type: TensorType) -> bool:
        """Refuse to say which dtypes there are: devices differ."""
        self.refuse("whether the device has a dtype")

    @property
    def root(self) -> Backend:
        """The device of all tensors of a body."""
        return self

    def keeps(self, op: Op, inputs: Sequence[Any]) -> bool:
        """Whether a composite is noted whole: never, its body says what it is made of."""
        return False

    def execute(self, op: Op, inputs: Sequence[Any], plan: Plan) -> Sequence[Any] | None:
        """Note a primitive; None for a composite, whose body is then run here too."""
        if op.body is not None and not op.kernels:
            return None
        return self._note(op, inputs, plan.attrs, plan.out)

    def _note(
        self, op: Op, inputs: Sequence[Any], attrs: Attributes, out: tuple[TensorType, ...] | None
    ) -> Sequence[Any]:
        """Note an op, and return the numbers of its results."""
        if out is None or op.sync or op.kernels:
            self.refuse(f"{op.name}, which no graph holds")
        operands = tuple(self._operand(x) for x in inputs)
        try:
            content = content_of_node(op, operands, attrs)
        except (NoContentError, ArgumentError):
            self.refuse(f"attributes of {op.name}")
        key = (content, *[x for x in operands if isinstance(x, int)])
        node = self._made.get(key)
        if node is None:
            if len(self._nodes) >= MOST_NODES:
                self.refuse("more ops than a graph may hold")
            node = Node(op, operands, attrs, out, len(self._types), content)
            self._nodes.append(node)
            self._types += out
            self._made[key] = node
        return [Handle(value) for value in node.results]

    def _operand(self, x: Any) -> Operand:
        if isinstance(x, Constant):
            if isinstance(x.value, SymbolicNumber):
                return self._number(x.value, x.type)
            if isinstance(x.value, SizeNumber) and not x.type.dtype.is_bool:
                value = unmarked(x.value)
                return self._noted(x.value.text, Input(-1, x.type, is_number=True, value=value))
            if (size := size_of(x.value)) is not None:
                number = Input(-1, x.type, is_number=True, value=x.value)
                return self._noted(size.text, number)
            return Literal(x.value, x.type.dtype)
        return x if x is None else int(x)

    # ---- numbers of a call ----

    def _number(self, number: SymbolicNumber, type: TensorType) -> int:
        """Return the value that is a number in a dtype.

        Arithmetic that the body did with it is done in the dtype of a computation, at the device.
        """
        if number.function is None:
            return self._given(number.position, type)
        wide = float64 if type.dtype is float64 else float32
        found = self._computed(number, TensorType((), wide))
        if found.dtype is not type.dtype:
            found = found.astype(type.dtype)
        return int(found._handle)

    def _computed(self, number: Any, type: TensorType) -> Any:
        if not isinstance(number, SymbolicNumber):
            return number
        if number.function is None:
            return self.tensor(self._given(number.position, type), type)
        return number.function(*(self._computed(x, type) for x in number.operands))

    def _given(self, position: int, type: TensorType) -> int:
        """Return the value that stands for a number among the inputs; noted as the first one."""
        return self._noted(position, Input(position, type, is_number=True))

    def _noted(self, name: int | str, number: Input) -> int:
        """Return the value of a number among the inputs.

        Its number is negative until the graph is made, for tensors and results come before.
        """
        self._numbers.setdefault((name, number.type), number)
        return -1 - list(self._numbers).index((name, number.type))

    def tensor(self, value: int, type: TensorType) -> Any:
        """Return the tensor that is a value."""
        cls: Any = TensorBase.concrete
        assert cls is not None, "the module of tensors says which class they are of"
        return _showing_sizes(cls)._wrap(Handle(value), type, self)

    def graph(self, results: Sequence[int]) -> Graph:
        """Return what was noted, for a body that returned these values."""
        numbers = list(self._numbers.values())
        count = len(numbers)

        def renumbered(x: Operand) -> Operand:
            if not isinstance(x, int):
                return x
            # Numbers of the call were -1, -2, ...; they come behind the tensors given.
            if x < 0:
                return len(self.inputs) - 1 - x
            return x if x < len(self.inputs) else x + count

        nodes = [] if numbers else self._nodes
        for node in self._nodes if numbers else ():
            operands = tuple(renumbered(x) for x in node.operands)
            nodes.append(
                Node(node.op, operands, node.attrs, node.types, node.first + count, node.content)
            )
        wanted = tuple(x for x in map(renumbered, results) if isinstance(x, int))
        return pruned(Graph((*self.inputs, *numbers), tuple(nodes), wanted))

    # ---- what a graph cannot hold ----

    def upload(self, array: Array) -> Any:
        """Refuse an array of the host."""
        self.refuse("an array of the host")

    def adopt(self, array: Any) -> Any:
        """Refuse memory of the host."""
        self.refuse("memory of the host")

    def download(self, handle: Any) -> Array:
        """Refuse to tell values."""
        self.refuse("a value of a tensor")

    def lift(self, tensor: TensorBase) -> Any:
        """Refuse a tensor that the body did not get as an input."""
        if tensor._backend is self:
            return tensor._handle
        self.refuse("a tensor that is no input")

    def type_of(self, handle: Any) -> TensorType:
        """Return the type of a value."""
        found: TensorType = self._types[handle]
        return found

    def primitive(self, handle: Any) -> Any:
        """Refuse to show memory."""
        self.refuse("the memory of a tensor")

    def synchronize(self) -> None:
        """Refuse to wait."""
        self.refuse("a wait")

    def __repr__(self) -> str:
        return "Tracer()"


def traced(op: Op, given: Sequence[Given], attrs: Attributes) -> Graph | None:
    """Return the graph of a composite's body for inputs of types, None where there is none.

    It is traced once for each kind of inputs.  A body that raises an error has no graph: it raises
    it again where it is expanded, at the line of the call.
    """
    if op.body_reads is not None and body_key(op) is None:
        return None
    try:
        key = (op, rules_key(op), _form(given), content_of(tuple(sorted(attrs.items()))))
    except (NoContentError, ArgumentError):
        return None
    try:
        found = _graphs.get(key)
    except UnhashableSymbolError:
        found = _repeated(op, given, attrs)
    else:
        if found is None:
            found = _repeated(op, given, attrs)
            _graphs.put(key, found)
    return found if isinstance(found, Graph) else None


def _repeated(op: Op, given: Sequence[Given], attrs: Attributes) -> Graph | str:
    """Return the graph of a body, or why there is none.

    An application's body is run again: where a clock or Python's own random numbers are in it, its
    graph would hold those of the first call for ever.  And it may ask whether a number is a float
    or an int, which calls of one graph may differ in.
    """
    found = _trace(op, given, attrs)
    if op.body_reads is None:
        return found
    for numbers in (SymbolicFloat, SymbolicInteger):
        again = _trace(op, given, attrs, numbers)
        if not (isinstance(found, Graph) and isinstance(again, Graph) and again.key == found.key):
            return found if isinstance(found, str) else "what differs from call to call"
    return found


_graphs: Recent[Hashable, Graph | str] = Recent(_KEPT)


def _form(given: Sequence[Given]) -> Hashable:
    return tuple(
        (content_of(x.value) if x.type.dtype.is_bool else "number", x.type)
        if isinstance(x, Constant) else x
        for x in given
    )  # fmt: skip


def _trace(
    op: Op,
    given: Sequence[Given],
    attrs: Attributes,
    numbers: type[SymbolicNumber] = SymbolicNumber,
) -> Graph | str:
    """Return the graph of a body, or why there is none."""
    inputs = [Input(n, x) for n, x in enumerate(given) if isinstance(x, TensorType)]
    tracer = Tracer(inputs)
    values = {i.position: n for n, i in enumerate(inputs)}
    before, active.tracer = active.tracer, tracer
    try:
        arguments = [
            tracer.tensor(values[n], x)
            if isinstance(x, TensorType)
            else _argument(tracer, n, x, numbers)
            for n, x in enumerate(given)
        ]
        assert op.body is not None, "a composite has a body"
        found = op.body(*arguments, **attrs)
        results = found if isinstance(found, tuple | list) else (found,)
        if not all(isinstance(r, TensorBase) and r._backend is tracer for r in results):
            return "a result that is none of its tensors"
        return tracer.refusal or tracer.graph([r._handle for r in results])
    except Exception as error:
        return tracer.refusal or f"{type(error).__name__}: {error}"
    finally:
        active.tracer = before


def _argument(
    tracer: Tracer, position: int, x: Constant | None, numbers: type[SymbolicNumber]
) -> Any:
    """Return what a body gets for a number or for what was left out."""
    if x is None:
        return None
    dtype = x.type.dtype
    if dtype.is_bool:
        return bool(x.value)
    if not dtype.is_float:
        tracer.refuse("an integer that only a call knows")
    return numbers(position)


def why_untraceable(op: Op, given: Sequence[Given], attrs: Attributes) -> str | None:
    """Return why a body has no graph for such inputs, None where it has one."""
    found = _repeated(op, given, attrs)
    return found if isinstance(found, str) else None
