"""The record of an op, and what a record is about: tensors, numbers, rules, derivatives.

Whoever executes, differentiates, lowers or tests ops reads this, and names none of them.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol, Self

import numpy as np

from pyrite.content import Functions, NoContentError
from pyrite.errors import DeviceError, DTypeError, GradientError
from pyrite.op.coordinates import coordinates_read
from pyrite.op.example import Sample
from pyrite.op.foreign import instead
from pyrite.op.launch_number import Path
from pyrite.op.rule import Rule, View
from pyrite.types import (
    Array,
    DType,
    Number,
    Shape,
    TensorType,
)

_new = object.__new__

Attributes = Mapping[str, Any]
Types = TensorType | tuple[TensorType, ...]
Handle = Any

#: Which dtypes an op takes.  "float" lifts ints and bools to the default float; the rest refuse.
Accepts = Literal["any", "number", "float", "signed", "integer", "logical", "bool"]


class Executor(Protocol):
    """What ops need of a backend; `pyrite.backend.protocol.Backend` is the whole of it."""

    #: How many Autodiff decorators stand in the chain.
    level: int
    #: The backend one level down, where there is one.
    inner: Any

    def keeps(self, op: Op, inputs: Sequence[Handle]) -> bool:
        """Whether a composite is run whole here, or expanded into its body."""
        ...

    def execute(self, op: Op, inputs: Sequence[Handle], plan: Plan) -> Sequence[Handle] | None:
        """Execute one op on handles, Constants and Nones; None for a body to be expanded."""
        ...

    def execute_many(
        self, op: Op, calls: Sequence[tuple[Sequence[Handle], Plan]]
    ) -> Sequence[Sequence[Handle] | None]:
        """Execute one op on each of several lists of inputs."""
        ...

    def execute_into(
        self, op: Op, inputs: Sequence[Handle], plan: Plan, targets: Sequence[Handle]
    ) -> Sequence[Handle]:
        """Execute one op into the application's memory; return the handles of what is there."""
        ...

    def upload(self, array: Array) -> Handle:
        """Return a handle of a copy of an array."""
        ...

    def type_of(self, handle: Handle) -> TensorType:
        """Return the type of a handle."""
        ...

    def lift(self, tensor: Any) -> Handle:
        """Return the handle of a tensor of a backend further down this chain, as a constant."""
        ...


class TensorBase:
    """A handle, its type and the backend that made it.  The rest of Tensor is ops.

    ``_handle`` is opaque: an array, a buffer, a node of a tape.
    """

    __slots__ = ("__weakref__", "_backend", "_handle", "_type")

    _handle: Handle
    _type: TensorType
    _backend: Executor

    #: The class of all tensors, which its own module puts here: bodies are traced on such.
    concrete: ClassVar[type[TensorBase] | None] = None
    #: Those of what modules hold, of which ops make tensors of that class.
    held: ClassVar[tuple[type[TensorBase], ...]] = ()

    def __init__(
        self, handle: Handle, type: TensorType | None = None, backend: Executor | None = None
    ) -> None:
        if type is None or backend is None:
            raise DTypeError(
                "Tensor requires a handle, its type and its backend, got one value; make one of "
                "values by pyrite.tensor(...)"
            )
        self._handle = handle
        self._type = type
        self._backend = backend

    @classmethod
    def _wrap(cls, handle: Handle, type: TensorType, backend: Executor) -> Self:
        """Return a plain tensor, also when called on a subclass with more fields."""
        raise NotImplementedError

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return self._type.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._type.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._type.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._type.size

    def astype(self, dtype: DType, /) -> Self:
        """Return the values as another dtype."""
        raise NotImplementedError


class Constant:
    """A Python number among the inputs of an op, with the dtype it takes there.  Never changed."""

    __slots__ = ("type", "value")

    # By hand: a frozen dataclass takes four times as long, and there is one for every number.
    def __init__(self, value: Number, type: TensorType) -> None:
        self.value = value
        self.type = type

    def with_type(self, type: TensorType) -> Self:
        """Return the number as one of another type."""
        other = copy.copy(self)
        other.type = type
        return other

    def __repr__(self) -> str:
        return f"Constant({self.value!r}, {self.type})"

    def numpy(self, dtype: DType | None = None) -> Array:
        """Return the number as a zero-d array of its dtype, or of another."""
        return np.asarray(self.value, dtype=(dtype or self.type.dtype).numpy)


#: What a backend makes of a plan: from handles to handles, or None for a body to be expanded.
Runner = Callable[[Sequence[Handle]], "Sequence[Handle] | None"]


#: What is kept by a plan that is not kept.
_NONE: Final[dict[Any, Any]] = {}


@dataclass(slots=True, eq=False)
class Plan:
    """What `bind` finds out about the calls of an op with inputs and attributes of one kind.

    Compared by identity: two calls of one plan do the same to inputs of the same types.
    """

    #: The attributes in their canonical form.
    attrs: Attributes
    #: Types of the results, None where they depend on values.
    out: tuple[TensorType, ...] | None
    #: The type that each input takes, None for one that stays as it is; None where all do.
    takes: tuple[TensorType | None, ...] | None = None
    #: The type of the one result, where inputs are taken as they come and no more is to be done.
    result: TensorType | None = None
    #: The types of several results, where the same is so.
    results: tuple[TensorType, ...] | None = None
    #: Whether it is kept for the next call, so that backends and tapes may keep things by it.
    is_kept: bool = False
    #: What tapes have made of it, by the positions under which leaves lie.
    tapes: dict[tuple[int, ...], Any] = field(default_factory=dict)
    #: The plan of the same calls with residuals, once a tape has asked for it.
    with_residuals: Plan | None = None
    #: Whether it is that plan: nobody reads residuals but the derivative, on this backend.
    is_for_derivative: bool = False
    #: Where numbers are that launches give, and those of this call; None for an op without kernels.
    paths: tuple[Path, ...] = ()
    numbers: tuple[Number, ...] | None = None
    #: What takes them out of attributes, where they are several and stand alone.
    names: Callable[[Attributes], tuple[Number, ...]] | None = None
    #: The plan from which it differs in these numbers alone, if that is another one.
    first: Plan | None = None
    #: Whether the op's rules look at none of these numbers: no type depends on them.
    is_of_any_number: bool = False
    #: What backends that look at types only have made of it.
    runners: dict[Executor, Runner] = field(default_factory=dict)

    def renewed(self, attrs: Attributes, numbers: tuple[Number, ...]) -> Plan:
        """Return the plan of a call with other numbers, on which no type depends."""
        made = _new(Plan)  # by its name in half the time
        made.attrs, made.numbers = attrs, numbers
        made.out, made.takes, made.result = self.out, self.takes, self.result
        made.results = self.results
        made.paths, made.first, made.is_of_any_number = self.paths, self.first or self, True
        made.names = self.names
        made.is_kept, made.tapes, made.with_residuals, made.runners = False, _NONE, None, _NONE
        made.is_for_derivative = self.is_for_derivative
        return made

    def keep(self) -> None:
        """Note that it came again: backends and tapes may keep things by it."""
        self.is_kept = True
        if self.tapes is _NONE:
            self.tapes, self.runners = {}, {}


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """The record of an op.  Compared by identity; found by name in `OPS`."""

    name: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    variadic: bool = False
    optional: frozenset[int] = frozenset()
    #: Attributes that are integers: a float is refused, even 2.0, rather than cut off.
    integers: frozenset[str] = frozenset()
    #: Attributes that are sizes of tensors, or places in them: other calls have others.
    sizes: frozenset[str] = frozenset()
    accepts: Accepts = "number"
    returns: Literal["same", "bool"] = "same"
    promotes: tuple[int, ...] | Literal["all"] = ()
    scalar: Callable[..., Any] | None = None
    rule: Rule | None = None
    reference: Callable[..., Any] | None = None
    infer: Callable[..., Types] | None = None
    canonical: Callable[..., Attributes] | None = None
    derivative: Derivative | None = None
    #: With these attributes its results are followed by residuals, which only its derivative reads:
    #: a tape runs it so.  None for an op whose derivative reads its results alone.
    residuals: Attributes | None = None
    body: Callable[..., Any] | None = None
    kernels: tuple[Any, ...] = ()
    sync: bool = False
    accumulates: bool = False
    domain: tuple[Any, ...] | None = None
    samples: tuple[Sample, ...] = ()
    doc: str = field(default="", repr=False)
    #: The rules of an application's op on which plans and kernels depend, with all that they read.
    reads: Functions | None = field(default=None, repr=False)
    #: The body of an application's op, with all that it reads: kernels depend on that.
    body_reads: Functions | None = field(default=None, repr=False)
    #: What its scalar rule reads of where its element lies; see `pyrite.op.coordinates`.
    coordinates: tuple[str, ...] = field(default=(), init=False)
    #: Attributes whose numbers its kernels get when they are launched.
    at_launch: frozenset[str] = frozenset()
    #: Plans of calls made before, by what they depend on: `bind` looks up what it once found out.
    plans: dict[tuple[Any, ...], Plan] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.scalar is not None:
            object.__setattr__(self, "coordinates", coordinates_read(self.scalar))

    @property
    def is_elementwise(self) -> bool:
        """Whether an element of its result is made of one element of each input, and no more."""
        return self.scalar is not None and not self.coordinates

    @property
    def rule_class(self) -> str | None:
        """The class of its rule, as "scalar" or "fold"; None where it has no rule of a class."""
        if self.scalar is not None:
            return "scalar"
        return None if self.rule is None else self.rule.name

    @property
    def is_classed(self) -> bool:
        """Whether its record says all that it computes: by a rule of a class, or by a body."""
        return self.rule_class is not None or self.body is not None

    @property
    def is_cheap(self) -> bool:
        """Whether making the result again costs no more than reading it."""
        return self.scalar is not None or isinstance(self.rule, View)

    @property
    def is_composite(self) -> bool:
        """Whether it has a body to expand into."""
        return self.body is not None

    def written_content(self) -> Hashable:
        """Return what stands for it in digests (`pyrite.content.digest_of`).

        Of Pyrite's own ops that is the name, or of one that follows from another its rules too.
        Raises NoContentError for an application's, whose rules may read what changes.
        """
        if self.reads is not None or self.body_reads is not None:
            raise NoContentError(f"op {self.name}, which is an application's")
        if OPS.get(self.name) is self:
            return self.name
        return (self.name, self.inputs, tuple(self.attributes), self.scalar, self.rule, self.body)

    def __repr__(self) -> str:
        return f"<op {self.name}>"


#: Every op by name.
OPS: dict[str, Op] = {}


#: What a rule needs of the output or an input: the tensor, its type, or neither.
Want = Literal["value", "type", "nothing"]


class CotangentRule:
    """One function of a derivative, with what it wants: only that is kept for the backward pass.

    Its parameters are ``g``, the output, then the inputs.  The name of a parameter says what it
    gets: ``_`` and ``_name`` get None, ``*_`` swallows the rest, ``x_type`` gets the type of the
    input, and any other name gets the tensor itself (or the Python number).  Attributes come by
    keyword, those that the function names, or all for ``**attrs``.
    """

    __slots__ = ("_attributes", "_count", "_function", "_rest", "_takes_all", "_wants")

    def __init__(self, function: Callable[..., Any]) -> None:
        # From the code itself: inspect.signature of every rule would be a tenth of the import.
        code = function.__code__
        named = code.co_argcount + code.co_kwonlyargcount
        self._function = function
        self._wants = tuple(_want(name) for name in code.co_varnames[1 : code.co_argcount])
        self._rest = _want(code.co_varnames[named]) if code.co_flags & inspect.CO_VARARGS else None
        self._count = None if self._rest not in (None, "nothing") else len(self._wants)
        self._attributes = code.co_varnames[code.co_argcount : named]
        self._takes_all = bool(code.co_flags & inspect.CO_VARKEYWORDS)

    def want(self, position: int) -> Want:
        """Return what it needs of position 0, the output, or 1 and up, the inputs."""
        if position < len(self._wants):
            return self._wants[position]
        return self._rest or "nothing"

    def __call__(self, g: Any, saved: Sequence[Any], attrs: Attributes) -> Any:
        """Apply to the cotangent and to what was saved: the output, then the inputs."""
        if self._count is not None:
            saved = saved[: self._count]
        if not self._takes_all:
            if not self._attributes:
                return self._function(g, *saved)
            attrs = {name: attrs[name] for name in self._attributes}
        return self._function(g, *saved, **attrs)


def _want(name: str) -> Want:
    if name.startswith("_"):
        return "nothing"
    return "type" if name.endswith(("_type", "_types")) else "value"


class Needs(NamedTuple):
    """What a backward pass through an op needs of the forward pass."""

    #: Positions of the inputs to which gradients flow.
    tracked: tuple[int, ...]
    #: What the rules of these want of the output.
    output: Want
    #: Positions of the inputs that they want, and of those whose types they want.
    values: tuple[int, ...]
    types: tuple[int, ...]


class Derivative:
    """The vjp of an op: either one rule per input, or one joint rule that returns a tuple.

    Given ``vjp=(rule, None, rule)``, None marks an input without a gradient and only the rules of
    inputs that are tracked run.  Given ``vjp=rule``, the rule returns one cotangent (or None) per
    input; take it where the cotangents share work.  Its keyword ``tracked`` holds the positions of
    the inputs that want one.  Broadcasting is undone by the tape.  An op with several outputs gets
    tuples for ``g`` and ``out``; cotangents of unused outputs are zeros.

    With both, ``vjp=(rule, rule)`` and ``joint=rule``, the joint one runs where several inputs are
    tracked: it saves calls, and a rule that runs alone needs less to be kept.
    """

    __slots__ = ("_joint", "_needs", "_rules")

    def __init__(
        self,
        vjp: Callable[..., Any] | Sequence[Callable[..., Any] | None],
        joint: Callable[..., Any] | None = None,
    ) -> None:
        joint = vjp if callable(vjp) else joint
        self._joint = CotangentRule(joint) if joint else None
        self._rules = () if callable(vjp) else tuple(f and CotangentRule(f) for f in vjp)
        self._needs: dict[tuple[tuple[int, ...], int], Needs] = {}

    def needs(self, active: tuple[int, ...], inputs: int) -> Needs:
        """Return what is needed where there are leaves under the inputs at some positions."""
        found = self._needs.get((active, inputs))
        if found is None:
            found = self._needs[active, inputs] = self._needed(active, inputs)
        return found

    def _needed(self, active: tuple[int, ...], inputs: int) -> Needs:
        tracked = tuple(p for p in active if self.reaches(p))
        wants = [self._want(position, tracked) for position in range(inputs + 1)]

        def wanting(want: Want) -> tuple[int, ...]:
            return tuple(p for p in range(inputs) if wants[p + 1] == want)

        return Needs(tracked, wants[0], wanting("value"), wanting("type"))

    def _want(self, position: int, tracked: Sequence[int]) -> Want:
        rules = [self._joint] if self._is_joint(tracked) else [self._rules[i] for i in tracked]
        wants = {rule.want(position) for rule in rules if rule}
        return "value" if "value" in wants else "type" if "type" in wants else "nothing"

    def reaches(self, position: int) -> bool:
        """Whether a gradient may flow to the input at that position."""
        return not self._rules or self._rules[position] is not None

    def _is_joint(self, tracked: Sequence[int]) -> bool:
        return self._joint is not None and (not self._rules or len(tracked) > 1)

    def __call__(
        self, op: Op, g: Any, saved: Sequence[Any], attrs: Attributes, tracked: Sequence[int]
    ) -> dict[int, Any]:
        """Return the cotangent of each tracked input that has one."""
        if self._joint and self._is_joint(tracked):
            cotangents = self._joint(g, saved, {**attrs, "tracked": tuple(tracked)})
            if OPS.get(op.name) is not op:
                _require_tuple(op, cotangents)
            return {i: cotangents[i] for i in tracked if cotangents[i] is not None}
        rules = self._rules
        return {i: rule(g, saved, attrs) for i in tracked if (rule := rules[i])}


def _require_tuple(op: Op, cotangents: Any) -> None:
    """Raise GradientError unless an application's rule returned what a joint rule returns."""
    if not isinstance(cotangents, tuple):
        got = instead(cotangents)
    elif len(cotangents) != len(op.inputs) and not op.variadic:
        got = f"got {len(cotangents)} items"
    elif wrong := [c for c in cotangents if not isinstance(c, TensorBase | None)]:
        got = instead(wrong[0])
    else:
        return
    raise GradientError(
        f"{op.name} requires its vjp to return a tuple of a tensor or None for each of "
        f"{', '.join(op.inputs)}, {got}"
    )


def require_derivative(op: Op) -> Derivative:
    """Return the derivative of an op, or raise GradientError when it has none."""
    if op.derivative is None:
        raise GradientError(
            f"{op.name} requires a derivative rule to be differentiated, got none; use detach() "
            "if no gradient is meant"
        )
    return op.derivative


def require_reference(op: Op, device: str) -> None:
    """Raise DeviceError where an op of an application has nothing that runs on a device."""
    if op.scalar is None and op.rule is None and op.reference is None:
        raise DeviceError(
            f"{op.name} requires a kernel that runs on {device}, or a body or reference, got none; "
            "declare one, or move its inputs: x.to(device)"
        )
