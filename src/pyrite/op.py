"""What an op is, and the one door through which every op reaches a backend.

An op is declared once, as a method under its rules, and everything else reads the record:

    @primitive(scalar=lambda k, x: k.exp(x), vjp=lambda g, out, _: (g * out,))
    def exp(self, /) -> Self:
        '''e ** x, elementwise.  Shapes: (...) -> (...).'''
        ...

Parameters before ``/`` are the inputs (tensors, numbers, or None where the annotation says so),
those after it the attributes.
Rules:

``scalar(k, *values, **attrs)``   meaning of an elementwise op, against an algebra (`algebra.py`)
``reference(*arrays, **attrs)``   meaning of any other primitive, in NumPy
``infer(*types, **attrs)``        type, or tuple of types, of the result; the home of shape errors
``canonical(*types, **attrs)``    attributes in their one form (axes positive, shapes complete)
``vjp``                           cotangents of the inputs, in tensor operators; see `Derivative`
a body                            what a composite is made of
``kernels``                       an application's own kernels, for the backends that know them

Invariant: nothing in this file names an op, except that inputs meet in one dtype by ``astype``.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any, Literal, NamedTuple, NoReturn, ParamSpec, Protocol, Self, TypeVar

import numpy as np

from pyrite.config import config
from pyrite.errors import DeviceError, DTypeError, GradientError, PyriteError
from pyrite.synchronization import note_sync
from pyrite.types import (
    Array,
    DType,
    Number,
    Shape,
    TensorType,
    bool_,
    broadcast,
    default_float,
    promote,
    promote_scalar,
)

Attributes = Mapping[str, Any]
Types = TensorType | tuple[TensorType, ...]
Handle = Any
P = ParamSpec("P")
R = TypeVar("R")

#: Which dtypes an op takes.  "float" lifts ints and bools to the default float; the rest refuse.
Accepts = Literal["any", "number", "float", "signed", "integer", "logical", "bool"]


class Executor(Protocol):
    """What ops need of a backend; `pyrite.backend.protocol.Backend` is the whole of it."""

    @property
    def level(self) -> int:
        """How many Autodiff decorators stand in the chain."""
        ...

    def keeps(self, op: Op, inputs: Sequence[Handle]) -> bool:
        """Whether a composite is run whole here, or expanded into its body."""
        ...

    def run(
        self,
        op: Op,
        inputs: Sequence[Handle],
        attrs: Attributes,
        out: tuple[TensorType, ...] | None,
    ) -> Sequence[Handle]:
        """Execute one op on handles, Constants and Nones; ``out`` holds the types if known."""
        ...

    def run_many(self, op: Op, calls: Sequence[Call]) -> Sequence[Sequence[Handle]]:
        """Execute one op on each of several lists of inputs."""
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

    def __init__(self, handle: Handle, type: TensorType, backend: Executor) -> None:
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


@dataclass(frozen=True, slots=True)
class Constant:
    """A Python number among the inputs of an op, with the dtype it takes there."""

    value: Number
    type: TensorType

    def numpy(self, dtype: DType | None = None) -> Array:
        """The number as a zero-d array of its dtype, or of another."""
        return np.asarray(self.value, dtype=(dtype or self.type.dtype).numpy)


class Call(NamedTuple):
    """What a backend gets to execute an op once, as of `Executor.run`."""

    inputs: Sequence[Handle]
    attrs: Attributes
    out: tuple[TensorType, ...] | None


class Plan(NamedTuple):
    """What `bind` finds out about the calls of an op with inputs and attributes of one kind."""

    #: The attributes in their canonical form.
    attrs: Attributes
    #: Types of the results, None where they depend on values.
    out: tuple[TensorType, ...] | None
    #: The type that each input takes, None for one that stays as it is; None where all do.
    takes: tuple[TensorType | None, ...] | None


@dataclass(frozen=True, slots=True)
class Spec:
    """A test input: what values an op's example takes, by default from the op's domain."""

    shape: Shape
    kind: Literal["float", "int", "uint", "bool"] = "float"
    low: float | None = None
    high: float | None = None
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """One example call of an op, from which the test suites of all backends are generated."""

    inputs: tuple[Spec | Number | None, ...]
    attrs: Attributes


def sample(*inputs: Shape | Spec | Number | None, **attrs: Any) -> Sample:
    """Return an example call: a shape stands for floats of that shape in the op's domain.

    ``Spec`` says more: integers, bools, a range, distinct values (where ties would have no
    gradient).
    """
    specs = tuple(Spec(i) if isinstance(i, tuple) else i for i in inputs)
    return Sample(specs, attrs)


def integers(shape: Shape, low: int, high: int) -> Spec:
    """Return the Spec of integers low <= i < high."""
    return Spec(shape, "int", low, high)


def bools(shape: Shape) -> Spec:
    """Return the Spec of bools."""
    return Spec(shape, "bool", 0, 2)


def distinct(shape: Shape, low: float = -2.0, high: float = 2.0) -> Spec:
    """Return the Spec of floats of which no two are close."""
    return Spec(shape, "float", low, high, distinct=True)


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """The record of an op.  Compared by identity; found by name in `OPS`."""

    name: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    variadic: bool = False
    optional: frozenset[int] = frozenset()
    accepts: Accepts = "number"
    returns: Literal["same", "bool"] = "same"
    promotes: tuple[int, ...] | Literal["all"] = ()
    scalar: Callable[..., Any] | None = None
    reference: Callable[..., Any] | None = None
    infer: Callable[..., Types] | None = None
    canonical: Callable[..., Attributes] | None = None
    derivative: Derivative | None = None
    body: Callable[..., Any] | None = None
    kernels: tuple[Any, ...] = ()
    sync: bool = False
    view: bool = False
    domain: tuple[Any, ...] | None = None
    samples: tuple[Sample, ...] = ()
    doc: str = field(default="", repr=False)
    #: Plans of calls made before, by what they depend on: `bind` looks up what it once found out.
    plans: dict[tuple[Any, ...], Plan] = field(default_factory=dict, init=False, repr=False)

    @property
    def is_elementwise(self) -> bool:
        """Whether it has a scalar rule: one output element from one element of each input."""
        return self.scalar is not None

    @property
    def is_cheap(self) -> bool:
        """Whether making the result again costs no more than reading it."""
        return self.view or self.scalar is not None

    @property
    def is_composite(self) -> bool:
        """Whether it has a body to expand into."""
        return self.body is not None

    def __repr__(self) -> str:
        return f"<op {self.name}>"


#: Every op by name.
OPS: dict[str, Op] = {}

_NO_DEFAULT = inspect.Parameter.empty


#: What a rule needs of the output or an input: the tensor, its type, or neither.
Want = Literal["value", "type", "nothing"]


class Rule:
    """One function of a derivative, with what it wants: only that is kept for the backward pass.

    Its parameters are ``g``, the output, then the inputs.  The name of a parameter says what it
    gets: ``_`` and ``_name`` get None, ``*_`` swallows the rest, ``x_type`` gets the type of the
    input, and any other name gets the tensor itself (or the Python number).  Attributes come by
    keyword, those that the function names, or all for ``**attrs``.
    """

    __slots__ = ("_attributes", "_count", "_function", "_rest", "_takes_all", "_wants")

    def __init__(self, function: Callable[..., Any]) -> None:
        # Of the code itself: inspect.signature of every rule would be a tenth of the import.
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

    __slots__ = ("_joint", "_rules", "_wants")

    def __init__(
        self,
        vjp: Callable[..., Any] | Sequence[Callable[..., Any] | None],
        joint: Callable[..., Any] | None = None,
    ) -> None:
        joint = vjp if callable(vjp) else joint
        self._joint = Rule(joint) if joint else None
        self._rules = () if callable(vjp) else tuple(f and Rule(f) for f in vjp)
        self._wants: dict[tuple[tuple[int, ...], int], tuple[Want, ...]] = {}

    def wants(self, tracked: tuple[int, ...], inputs: int) -> tuple[Want, ...]:
        """Return the most that any rule of the tracked inputs needs of output and inputs."""
        found = self._wants.get((tracked, inputs))
        if found is None:
            found = tuple(self._want(position, tracked) for position in range(inputs + 1))
            self._wants[tracked, inputs] = found
        return found

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
            if not isinstance(cotangents, tuple):
                raise TypeError(f"the vjp of {op.name} must return a tuple, one item per input")
            return {i: cotangents[i] for i in tracked if cotangents[i] is not None}
        rules = self._rules
        return {i: rule(g, saved, attrs) for i in tracked if (rule := rules[i])}


def primitive(
    *,
    scalar: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    infer: Callable[..., Types] | None = None,
    canonical: Callable[..., Attributes] | None = None,
    vjp: Callable[..., Any] | Sequence[Callable[..., Any] | None] | None = None,
    accepts: Accepts = "number",
    returns: Literal["same", "bool"] = "same",
    promotes: tuple[int, ...] | Literal["all"] | None = None,
    sync: bool = False,
    view: bool = False,
    domain: tuple[Any, ...] | None = None,
    samples: tuple[Sample, ...] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare the decorated signature as an op whose meaning is ``scalar`` or ``reference``.

    ``accepts`` and ``returns`` state the dtypes; ``promotes`` the positions of the inputs that meet
    in one dtype (all, for elementwise ops); ``domain`` where the op is defined and smooth, as
    (low, high) or one such pair per input; ``sync`` marks a result whose shape depends on values,
    ``view`` one that holds only elements of its input, at other places.
    """
    if (scalar is None) == (reference is None):
        raise TypeError("a primitive has either a scalar rule or a reference")
    if promotes is None:
        promotes = "all" if scalar else ()
    return _declare(
        scalar=scalar, reference=reference, infer=infer, canonical=canonical, vjp=vjp,
        accepts=accepts, returns=returns, promotes=promotes, sync=sync, view=view,
        domain=domain, samples=samples,
    )  # fmt: skip


def composite(
    *,
    infer: Callable[..., Types] | None = None,
    canonical: Callable[..., Attributes] | None = None,
    vjp: Callable[..., Any] | Sequence[Callable[..., Any] | None] | None = None,
    joint: Callable[..., Any] | None = None,
    accepts: Accepts = "any",
    promotes: tuple[int, ...] | Literal["all"] = (),
    domain: tuple[Any, ...] | None = None,
    samples: tuple[Sample, ...] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare the decorated method as an op made of others, which a backend may still run whole.

    With a ``vjp`` Autodiff keeps it whole too; without, its body is differentiated.
    """
    return _declare(
        is_composite=True, infer=infer, canonical=canonical, vjp=vjp, joint=joint, accepts=accepts,
        promotes=promotes, domain=domain, samples=samples,
    )  # fmt: skip


def custom_op(
    *,
    infer: Callable[..., Types] | None = None,
    scalar: Callable[..., Any] | None = None,
    body: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    kernels: Sequence[Any] = (),
    vjp: Callable[..., Any] | Sequence[Callable[..., Any] | None] | None = None,
    canonical: Callable[..., Attributes] | None = None,
    accepts: Accepts = "any",
    promotes: tuple[int, ...] | Literal["all"] | None = None,
    domain: tuple[Any, ...] | None = None,
    samples: tuple[Sample, ...] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare the decorated signature as an op of an application.

    It is a record like any other, but not in `OPS`: two applications may have ops of one name, and
    a notebook may declare one again.  ``kernels`` run it on the devices that they are for, the
    first that fits; elsewhere it is its ``body`` (tensor operators), ``scalar`` rule or
    ``reference`` (NumPy), at most one of them.  Without any it is an error there.
    """
    if sum(rule is not None for rule in (scalar, body, reference)) > 1:
        raise TypeError("a custom op has a scalar rule, a body or a reference, not two of them")
    if not (kernels or scalar or body or reference):
        raise TypeError("a custom op has kernels, a scalar rule, a body or a reference")
    if infer is None and scalar is None:
        raise TypeError("a custom op has infer, which gives the type of its result")
    if promotes is None:
        promotes = "all" if scalar else ()
    rules = {
        "infer": infer, "canonical": canonical, "scalar": scalar, "body": body,
        "reference": reference, "kernels": tuple(kernels), "vjp": vjp, "accepts": accepts,
        "promotes": promotes, "domain": domain, "samples": samples,
    }  # fmt: skip

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        op, method = _made(function, **rules)
        if op.name in OPS:
            raise TypeError(
                f"custom_op requires a name that no op of Pyrite has, got {op.name}; rename it"
            )
        return method

    return decorate


def _declare(
    *, is_composite: bool = False, **rules: Any
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        op, method = _made(function, body=function if is_composite else None, **rules)
        if op.name in OPS:
            raise TypeError(f"op {op.name} is declared twice")
        OPS[op.name] = op
        return method

    return decorate


def _made(
    function: Callable[P, R], *, vjp: Any = None, joint: Any = None, **rules: Any
) -> tuple[Op, Callable[P, R]]:
    """Return the record of a decorated signature, and the method that users call."""
    signature = inspect.signature(function)
    inputs, attributes, variadic, optional = _split_parameters(signature)
    op = Op(
        name=function.__name__.strip("_"),
        inputs=inputs,
        attributes=attributes,
        variadic=variadic,
        optional=optional,
        derivative=None if vjp is None else Derivative(vjp, joint),
        doc=inspect.getdoc(function) or "",
        **rules,
    )
    return op, _entry(op, function, signature)


def _split_parameters(
    signature: inspect.Signature,
) -> tuple[tuple[str, ...], dict[str, Any], bool, frozenset[int]]:
    """Return inputs, attributes with defaults, whether variadic, and which inputs may be None."""
    parameters = signature.parameters.values()
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    inputs = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)]
    optional = frozenset(i for i, p in enumerate(inputs) if "None" in str(p.annotation))
    attributes = {
        p.name: p.default for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }
    return tuple(p.name for p in inputs), attributes, variadic, optional


def _entry(op: Op, function: Callable[P, R], signature: inspect.Signature) -> Callable[P, R]:
    """Return the method that users call: arguments sorted into inputs and attributes, then bind."""
    in_order = _in_order(op, signature)

    @functools.wraps(function)
    def method(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            inputs, attrs = in_order(args, kwargs) or _arguments(op, signature, args, kwargs)
            return bind(op, inputs, attrs)  # type: ignore[no-any-return]
        except PyriteError as error:
            raise located(error)  # noqa: B904 - the same error, with the frames inside Pyrite cut off

    method.op = op  # type: ignore[attr-defined]
    return method


Arguments = tuple[Sequence[Any], dict[str, Any]]


def _in_order(
    op: Op, signature: inspect.Signature
) -> Callable[[tuple[Any, ...], dict[str, Any]], Arguments | None]:
    """Return a function that sorts the arguments of ordinary calls, ten times as fast as inspect.

    To any other call, one with a variable number of inputs or a mistake, it answers None.
    """
    arity, parameters = len(op.inputs), list(signature.parameters.values())
    fillers = [p.default for p in parameters[:arity]]
    named = [p.name for p in parameters[arity:] if p.kind is p.POSITIONAL_OR_KEYWORD]
    least, most = sum(default is _NO_DEFAULT for default in fillers), arity + len(named)
    defaults = dict(op.attributes)
    required = [name for name, default in defaults.items() if default is _NO_DEFAULT]

    def sort(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments | None:
        count = len(args)
        if count == arity and not kwargs and not defaults:
            return args, defaults
        if not least <= count <= most:
            return None
        attrs = defaults.copy()
        for name, value in kwargs.items():
            if name not in defaults:
                return None
            attrs[name] = value
        for name, value in zip(named, args[arity:], strict=False):
            if name in kwargs:
                return None
            attrs[name] = value
        for name in required:
            if attrs[name] is _NO_DEFAULT:
                return None
        return args[:arity] if count >= arity else (*args, *fillers[count:]), attrs

    return (lambda args, kwargs: None) if op.variadic else sort


def _arguments(
    op: Op, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Arguments:
    """Return inputs and attributes.  Raises TypeError for a call that does not fit."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{op.name}({', '.join(signature.parameters)}): {error}") from None
    bound.apply_defaults()
    arguments = bound.arguments
    inputs = arguments[op.inputs[0]] if op.variadic else [arguments[n] for n in op.inputs]
    return inputs, {name: arguments[name] for name in op.attributes}


E = TypeVar("E", bound=PyriteError)


def located(error: E) -> E:
    """Return the error with the user's line, and with none but the user's frames below this one."""
    if error.location is None:
        error.location = user_location()
    if config.full_traceback:
        return error
    return error.with_traceback(_users_frames(error.__traceback__))


def _users_frames(traceback: TracebackType | None) -> TracebackType | None:
    frames = []
    while traceback is not None:
        if not _is_ours(traceback.tb_frame):
            frames.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for one in reversed(frames):
        kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kept


def _is_ours(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith("pyrite.")


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Give a function that is no op the errors of one: raised at its call, with its line."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except PyriteError as error:
            raise located(error)  # noqa: B904 - the same error, with the frames inside Pyrite cut off

    return wrapped


def user_location() -> str:
    """Return ``file:line`` of the innermost frame outside Pyrite."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def user_frame() -> FrameType:
    """Return the innermost frame outside Pyrite."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    return frame


def bind(
    op: Op,
    inputs: Sequence[Any],
    attrs: Attributes,
    *,
    on: tuple[type[TensorBase], Executor] | None = None,
) -> Any:
    """Execute an op: check and unify its inputs, infer its type, and hand it to the backend.

    ``on`` gives the tensor class and backend of ops without a tensor among their inputs.
    Returns a tensor, or a tuple of tensors for an op with several outputs.
    """
    cls, backend, unified, plan = _prepared(op, inputs, attrs, on)
    if op.sync:
        note_sync(op.name)
    return apply(op, unified, plan.attrs, plan.out, cls, backend)


def apply(
    op: Op,
    inputs: Sequence[Any],
    attrs: Attributes,
    out: tuple[TensorType, ...] | None,
    cls: type[TensorBase],
    backend: Executor,
) -> Any:
    """Run an op whose inputs are unified and attributes canonical: whole, or by its body.

    This is where decorators come back in, one level down.
    """
    handles = _handles(inputs, backend)
    if op.body is not None and not backend.keeps(op, handles):
        numbers = [i.value if isinstance(i, Constant) else i for i in inputs]
        return op.body(*numbers, **attrs)
    return _wrapped(backend.run(op, handles, attrs, out), out, cls, backend)


def many(method: Callable[..., R], calls: Sequence[Sequence[Any]], **attrs: Any) -> list[R]:
    """Return an op's result for each of several lists of inputs, with the same attributes.

    It is what as many calls of the method return; a backend may have one kernel for all.

    >>> from pyrite import Tensor, tensor
    >>> [x.item() for x in many(Tensor.add, [(tensor(1), 2), (tensor(0.5), 1)])]
    [3, 1.5]
    """
    op: Op = method.op  # type: ignore[attr-defined]
    try:
        return _bound_many(op, calls, {**op.attributes, **attrs})
    except PyriteError as error:
        raise located(error)  # noqa: B904 - the same error, with the frames inside Pyrite cut off


def _bound_many(op: Op, calls: Sequence[Sequence[Any]], attrs: Attributes) -> list[Any]:
    prepared = [_prepared(op, inputs, attrs, None) for inputs in calls]
    backends = {id(backend): backend for _, backend, _, _ in prepared}
    if len(backends) == 1:
        (backend,) = backends.values()
        made = [
            Call(_handles(inputs, backend), plan.attrs, plan.out) for _, _, inputs, plan in prepared
        ]
        if op.body is None or all(backend.keeps(op, call.inputs) for call in made):
            results = backend.run_many(op, made)
            return [
                _wrapped(found, plan.out, cls, backend)
                for found, (cls, _, _, plan) in zip(results, prepared, strict=True)
            ]
    return [
        apply(op, inputs, plan.attrs, plan.out, cls, backend)
        for cls, backend, inputs, plan in prepared
    ]


def _handles(inputs: Sequence[Any], backend: Executor) -> list[Handle]:
    return [
        i
        if not isinstance(i, TensorBase)
        else i._handle
        if i._backend is backend
        else backend.lift(i)
        for i in inputs
    ]


def _wrapped(
    results: Sequence[Handle],
    out: tuple[TensorType, ...] | None,
    cls: type[TensorBase],
    backend: Executor,
) -> Any:
    types = out or [backend.type_of(r) for r in results]
    if len(types) == 1:
        return cls._wrap(results[0], types[0], backend)
    return tuple(
        [cls._wrap(handle, type, backend) for handle, type in zip(results, types, strict=True)]
    )


def _meeting_place(
    op: Op, tensors: Sequence[TensorBase], on: tuple[type[TensorBase], Executor] | None
) -> tuple[type[TensorBase], Executor]:
    if not tensors:
        if on is None:
            raise DTypeError(f"{op.name} requires a tensor among its inputs, got none")
        return on
    lead = tensors[0]
    for t in tensors:
        if t._backend is not lead._backend and t._backend.level > lead._backend.level:
            lead = t
    return type(lead), lead._backend


# ---- plans: what is found out about a call, once for all calls like it ----

#: How many plans are kept for an op: more than a network has shapes.
_PLANS_KEPT = 512

_NUMBERS = frozenset({int, float, bool})


def _prepared(
    op: Op,
    inputs: Sequence[Any],
    attrs: Attributes,
    on: tuple[type[TensorBase], Executor] | None,
) -> tuple[type[TensorBase], Executor, Sequence[Any], Plan]:
    """Return tensor class, backend, the inputs unified, and the plan of a call."""
    tensors = [i for i in inputs if isinstance(i, TensorBase)]
    cls, backend = _meeting_place(op, tensors, on)
    key = _key(op, inputs, attrs)
    try:
        plan = None if key is None else op.plans.get(key)
    except TypeError:
        # An attribute that has no hash: a list.
        key = plan = None
    if plan is None:
        unified, plan = _planned(op, inputs, attrs, tensors)
        if key is not None and _is_lasting(inputs, plan):
            if len(op.plans) >= _PLANS_KEPT:
                op.plans.clear()
            op.plans[key] = plan
        return cls, backend, unified, plan
    if plan.takes is not None:
        inputs = [
            i if type is None else _taken(i, type)
            for i, type in zip(inputs, plan.takes, strict=True)
        ]
    return cls, backend, inputs, plan


def _key(op: Op, inputs: Sequence[Any], attrs: Attributes) -> tuple[Any, ...] | None:
    """Return what the plan of a call depends on; None for a call that is planned each time.

    Equal values may differ, 1 and True, 0.0 and -0.0, so their classes and signs belong to it.
    """
    parts: list[Any] = []
    for value in inputs:
        if isinstance(value, TensorBase):
            type = value._type
            parts += (type.shape, type.dtype)
        elif value is None or value.__class__ in _NUMBERS:
            parts.append(value.__class__)
        else:
            return None
    if attrs:
        if len(attrs) != len(op.attributes):
            return None
        for name in op.attributes:
            value = attrs[name]
            kind = value.__class__
            if kind is tuple:
                kind = _classes(value)
            elif kind is float and not value:
                value = str(value)
            parts += (kind, value)
    return tuple(parts)


def _classes(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([_classes(v) if v.__class__ is tuple else v.__class__ for v in values])


def _is_lasting(inputs: Sequence[Any], plan: Plan) -> bool:
    """Whether a plan is that of all calls of its key: an integer must fit the integers it meets."""
    return plan.takes is None or not any(
        value.__class__ is int and type is not None and type.dtype.is_integer
        for value, type in zip(inputs, plan.takes, strict=True)
    )


def _taken(value: Any, type: TensorType) -> Any:
    return value.astype(type.dtype) if isinstance(value, TensorBase) else Constant(value, type)


def _planned(
    op: Op, inputs: Sequence[Any], attrs: Attributes, tensors: Sequence[TensorBase]
) -> tuple[Sequence[Any], Plan]:
    """Return the inputs unified, and the plan of the call."""
    unified = _unify(op, list(inputs), tensors)
    types = [i if i is None else i._type if isinstance(i, TensorBase) else i.type for i in unified]
    if op.canonical:
        attrs = op.canonical(*types, **attrs)
    takes = [
        None if new is old else type for new, old, type in zip(unified, inputs, types, strict=True)
    ]
    is_same = all(type is None for type in takes)
    return unified, Plan(attrs, _infer(op, types, attrs), None if is_same else tuple(takes))


def _unify(op: Op, inputs: list[Any], tensors: Sequence[TensorBase]) -> list[Any]:
    """Cast the inputs that must meet in one dtype, and give Python numbers the dtype they take."""
    if len(tensors) == len(inputs) and _have_met(op, tensors):
        return inputs
    positions = range(len(inputs)) if op.promotes == "all" else op.promotes
    given = (p for p in positions if p < len(inputs))
    meeting = [inputs[p] for p in given if not (inputs[p] is None and p in op.optional)]
    common = _common_dtype(op, meeting) if meeting else None
    for position, value in enumerate(inputs):
        if value is None and position in op.optional:
            continue
        wanted = common if position in positions else None
        if isinstance(value, TensorBase):
            if wanted is not None and value.dtype is not wanted:
                inputs[position] = value.astype(wanted)
        else:
            inputs[position] = _constant(op, value, wanted)
    return inputs


def _have_met(op: Op, tensors: Sequence[TensorBase]) -> bool:
    """Whether tensors, the only inputs, are of the dtype in which they are to meet."""
    if op.promotes != "all":
        return not op.promotes
    first = tensors[0]._type.dtype
    return all(t._type.dtype is first for t in tensors) and _accept(op, first) is first


def _constant(op: Op, value: Any, dtype: DType | None) -> Constant:
    if isinstance(value, Constant):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, bool | int | float):
        raise DTypeError(
            f"{op.name} requires tensors or Python numbers, got {type(value).__name__}; "
            "convert it: pyrite.tensor(...)"
        )
    return Constant(value, TensorType((), dtype or promote_scalar(op.name, bool_, value)))


def _common_dtype(op: Op, values: Sequence[Any]) -> DType:
    found: DType | None = None
    for value in values:
        if isinstance(value, TensorBase | Constant):
            dtype = value.dtype if isinstance(value, TensorBase) else value.type.dtype
            found = dtype if found is None else promote(op.name, found, dtype)
    for value in values:
        if not isinstance(value, TensorBase | Constant):
            number = _constant(op, value, None).value
            found = promote_scalar(op.name, found or bool_, number)
    assert found is not None
    return _accept(op, found)


_KINDS = {
    "number": ("int", "uint", "float"),
    "signed": ("int", "float"),
    "integer": ("int", "uint"),
    "logical": ("bool", "int", "uint"),
    "bool": ("bool",),
}


def _accept(op: Op, dtype: DType) -> DType:
    accepts = op.accepts
    if accepts == "any":
        return dtype
    if accepts == "float":
        return dtype if dtype.is_float else default_float
    if dtype.kind in _KINDS[accepts]:
        return dtype
    named = {"number": "a number", "signed": "a signed", "logical": "an integer or bool"}
    want = named.get(accepts, f"{'an' if accepts == 'integer' else 'a'} {accepts}")
    raise DTypeError(f"{op.name} requires {want} dtype, got {dtype.name}; cast it with astype")


def _infer(op: Op, types: list[Any], attrs: Attributes) -> tuple[TensorType, ...] | None:
    if op.infer is not None:
        out = op.infer(*types, **attrs)
        return out if isinstance(out, tuple) else (out,)
    if op.scalar is None:
        return None
    present = [t for t in types if t is not None]
    shape = broadcast(op.name, *(t.shape for t in present))
    dtype = bool_ if op.returns == "bool" else present[-1].dtype
    return (TensorType(shape, dtype),)


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
    if op.scalar is None and op.reference is None:
        raise DeviceError(
            f"{op.name} requires a kernel that runs on {device}, or a body or reference, got none; "
            "declare one, or move its inputs: x.to(device)"
        )


def different_devices(x: Any, y: Any) -> NoReturn:
    """Raise the error of two tensors that live on two devices."""
    raise DeviceError(
        f"an op requires tensors of one device, got {x.root.name} and {y.root.name}; move one: "
        "y.to(x.device)"
    )
