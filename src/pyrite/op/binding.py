"""The way of a call to a backend: `bind`, and `apply` where decorators come back in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, NoReturn, TypeVar

from pyrite.errors import DeviceError, PyriteError
from pyrite.op.arguments import KnownArguments
from pyrite.op.columns import known_rows
from pyrite.op.location import located
from pyrite.op.plan import NUMBERS, Form, form_of, known, prepare, with_numbers
from pyrite.op.record import (
    Attributes,
    Constant,
    Executor,
    Handle,
    Op,
    Plan,
    TensorBase,
)
from pyrite.synchronization import note_sync
from pyrite.types import TensorType

R = TypeVar("R")

#: What a block forbids: asked before each op, on the backend that is to run it; mostly there is
#: nothing.
restrictions: list[Callable[[Op, Executor], None]] = []

_new = object.__new__


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
    return call(op, inputs, attrs, form_of(op, attrs), on)


def call(
    op: Op,
    inputs: Sequence[Any],
    attrs: Attributes,
    form: Form | None,
    on: tuple[type[TensorBase], Executor] | None = None,
) -> Any:
    """Execute an op as `bind` does, given also the form of its attributes by `form_of`."""
    count = len(inputs)
    if count == 1 and on is None:
        return call_one(op, inputs, attrs, form)
    if count == 2 and on is None:
        return call_two(op, inputs, attrs, form)
    return _called(op, inputs, attrs, form, on)


def call_one(op: Op, inputs: Sequence[Any], attrs: Attributes, form: Form | None) -> Any:
    """Execute an op of one input as `call` does: mostly a tensor, as planned before.

    Then it is one look-up, the backend, and the result.  Any other call goes on in `_called`, which
    would do the same for this one.
    """
    (x,) = inputs
    if isinstance(x, TensorBase) and not restrictions:
        key = (form, x._type.key)
        plan = op.plans.get(key)
        if plan is not None and (result := plan.result) is not None:
            if plan.numbers is not None:
                plan = with_numbers(op, key, plan, inputs, attrs)
                result = plan.result
            if result is not None:
                results = x._backend.execute(op, [x._handle], plan)
                if results is None:
                    return expanded(op, inputs, plan)
                cls = x.__class__
                if cls is not TensorBase.concrete:
                    return x._wrap(results[0], result, x._backend)
                # As `_wrap` does, in half the time.
                made = _new(cls)
                made._handle = results[0]
                made._type = result
                made._backend = x._backend
                return made
    return _called(op, inputs, attrs, form, None)


def call_two(op: Op, inputs: Sequence[Any], attrs: Attributes, form: Form | None) -> Any:
    """Execute an op of two inputs, tensors or a tensor and a number: see `call_one`."""
    x, y = inputs
    if isinstance(x, TensorBase) and not restrictions:
        backend = x._backend
        kind: Any = None
        if isinstance(y, TensorBase):
            if y._backend is backend:
                kind = y._type.key
        elif y.__class__ in NUMBERS:
            kind = y.__class__
        key = (form, x._type.key, kind)
        plan = op.plans.get(key)
        if plan is not None and (result := plan.result) is not None:
            if plan.numbers is not None:
                plan = with_numbers(op, key, plan, inputs, attrs)
                result = plan.result
            if result is not None:
                takes = plan.takes
                other = y._handle if takes is None else Constant(y, takes[1])  # type: ignore[arg-type]
                results = backend.execute(op, [x._handle, other], plan)
                if results is None:
                    return expanded(op, inputs, plan)
                cls = x.__class__
                if cls is not TensorBase.concrete:
                    return x._wrap(results[0], result, backend)
                # As `_wrap` does, in half the time.
                made = _new(cls)
                made._handle = results[0]
                made._type = result
                made._backend = backend
                return made
    return _called(op, inputs, attrs, form, None)


def call_as_given(known: KnownArguments, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Execute an op of a fixed number of inputs, given what its method was called with."""
    inputs, attrs, form = known.sorted(args, kwargs)
    count = len(inputs)
    return callers[count if count < len(callers) else 0](known.op, inputs, attrs, form)


#: What executes an op of any number of inputs, of one, and of two.  Who can do the latter faster
#: puts that here.
callers: Final[list[Callable[..., Any]]] = [call, call_one, call_two]
#: And what does what `call_as_given` does, where somebody can do it faster.
written: Final[list[Callable[[KnownArguments, tuple[Any, ...], dict[str, Any]], Any]]] = []
#: What makes many plain tensors of handles, types and a backend, where somebody can do it faster.
makers: Final[list[Callable[..., list[Any]]]] = []


def _called(
    op: Op,
    inputs: Sequence[Any],
    attrs: Attributes,
    form: Form | None,
    on: tuple[type[TensorBase], Executor] | None,
) -> Any:
    """Execute an op as `call` does, whatever its inputs are."""
    found = known(op, inputs, attrs, form)
    if found is None:
        cls, backend, unified, plan = prepare(op, inputs, attrs, form, on)
        if op.sync:
            note_sync(op.name)
        if restrictions:
            _ask(op, backend)
        return apply(op, unified, plan, cls, backend)
    if op.sync:
        note_sync(op.name)
    cls, backend, handles, plan = found
    if restrictions:
        _ask(op, backend)
    results = backend.execute(op, handles, plan)
    if results is None:
        return expanded(op, inputs, plan)
    types = plan.out
    # As `_wrapped` does, with a call less for most ops.
    if types is not None and len(types) == 1:
        return cls._wrap(results[0], types[0], backend)
    return _wrapped(op, results, plan, cls, backend)


def _ask(op: Op, *backends: Executor) -> None:
    for asked in list(restrictions):
        for backend in backends:
            asked(op, backend)


def apply(
    op: Op, inputs: Sequence[Any], plan: Plan, cls: type[TensorBase], backend: Executor
) -> Any:
    """Run an op whose inputs are unified: whole, or by its body.

    This is where decorators come back in, one level down.
    """
    results = backend.execute(op, handles_of(op, inputs, backend), plan)
    if results is None:
        numbers = [i.value if isinstance(i, Constant) else i for i in inputs]
        return expanded(op, numbers, plan)
    return _wrapped(op, results, plan, cls, backend)


def expanded(op: Op, inputs: Sequence[Any], plan: Plan) -> Any:
    """Return what the body of a composite makes of tensors and numbers."""
    assert op.body is not None
    return op.body(*inputs, **plan.attrs)


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
    found = known_rows(op, calls, form_of(op, attrs))
    if found is None:
        return _prepared_many(op, calls, attrs)
    cls, backend, rows = found
    if restrictions:
        _ask(op, backend)
    several = backend.execute_many(op, rows)
    if makers and (cls is TensorBase.concrete or cls in TensorBase.held) and None not in several:
        made = _all_wrapped(several, [plan for _, plan in rows], backend)
        if made is not None:
            return made
    return [
        expanded(op, inputs, plan) if results is None else _wrapped(op, results, plan, cls, backend)
        for inputs, (_, plan), results in zip(calls, rows, several, strict=True)
    ]


def _all_wrapped(
    several: Sequence[Any], plans: Sequence[Plan], backend: Executor
) -> list[Any] | None:
    """Return the results of calls that have as many each, of known types; None of others."""
    outs = [plan.out for plan in plans]
    count = len(outs[0] or ())
    types: list[TensorType] = []
    for out in outs:
        if out is None or len(out) != count:
            return None
        types += out
    handles = [*chain.from_iterable(several)]
    made = makers[0](len(handles), handles, types, backend)
    return made if count == 1 else [*zip(*[iter(made)] * count, strict=True)]


def _prepared_many(op: Op, calls: Sequence[Sequence[Any]], attrs: Attributes) -> list[Any]:
    """Return what `many` returns where some calls have to be planned, or devices differ."""
    form = form_of(op, attrs)
    prepared = [prepare(op, inputs, attrs, form) for inputs in calls]
    if restrictions:
        _ask(op, *[backend for _, backend, _, _ in prepared])
    found: Sequence[Any] = [None] * len(calls)
    if len({id(backend) for _, backend, _, _ in prepared}) == 1:
        backend = prepared[0][1]
        rows = [(handles_of(op, inputs, backend), plan) for _, _, inputs, plan in prepared]
        found = backend.execute_many(op, rows)
    return [
        apply(op, inputs, plan, cls, backend)
        if results is None
        else _wrapped(op, results, plan, cls, backend)
        for results, (cls, backend, inputs, plan) in zip(found, prepared, strict=True)
    ]


def handles_of(op: Op, inputs: Sequence[Any], backend: Executor) -> list[Handle]:
    """Return the handles of tensors on a backend, beside numbers and Nones as they are."""
    try:
        return [
            i
            if not isinstance(i, TensorBase)
            else i._handle
            if i._backend is backend
            else backend.lift(i)
            for i in inputs
        ]
    except DeviceError:
        _require_one_device(op, inputs, backend)
        raise


def _wrapped(
    op: Op, results: Sequence[Handle], plan: Plan, cls: type[TensorBase], backend: Executor
) -> Any:
    """Return results as a tensor, or as a tuple of several."""
    types = plan.out
    if types is None:
        types = tuple([backend.type_of(r) for r in results])
        if not op.sync:
            plan.out = types
    if len(types) == 1:
        return cls._wrap(results[0], types[0], backend)
    return tuple(
        [cls._wrap(handle, type, backend) for handle, type in zip(results, types, strict=True)]
    )


def _require_one_device(op: Op, inputs: Sequence[Any], backend: Any) -> None:
    others: list[Any] = [i._backend for i in inputs if isinstance(i, TensorBase)]
    for other in others:
        if other.root is not backend.root:
            different_devices(backend, other, op.name)


def different_devices(x: Any, y: Any, op: str = "an op") -> NoReturn:
    """Raise the error of two tensors that live on two devices, in the name of an op."""
    names = (x.root.name, y.root.name)
    if names[0] == names[1]:
        names = (repr(x), repr(y))
    raise DeviceError(
        f"{op} requires tensors of one device, got {names[0]} and {names[1]}; move one: "
        "y.to(x.device)"
    ) from None
