"""Plans of calls, made once for all calls alike: canonical attributes, types, casts.

A plan depends on the types of the inputs and on the attributes only, so it is kept in the record
under these and looked up by the next call.  A call that is a mistake is never kept.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import numpy as np

from pyrite.content import NoContentError, Reader
from pyrite.errors import ArgumentTypeError, DTypeError, ShapeError
from pyrite.op.foreign import instead
from pyrite.op.key import rules_key, without_content
from pyrite.op.launch_number import (
    are_same,
    form_without_numbers,
    may_read,
    number_at,
    numbers_among,
)
from pyrite.op.record import OPS, Attributes, Constant, Executor, Handle, Op, Plan, TensorBase
from pyrite.op.size import unmarked
from pyrite.op.symbol import SymbolicNumber
from pyrite.sized import has_symbol, is_size
from pyrite.types import (
    DType,
    Number,
    TensorType,
    bool_,
    broadcast,
    default_float,
    promote,
    promote_scalar,
)

#: How many plans are kept for an op: more than a network has shapes.
_PLANS_KEPT = 512

#: Part of the key of a plan.
Form = tuple[Any, ...]

#: Classes of Python's numbers.
NUMBERS = frozenset({int, float, bool})

#: Attributes whose class and value are their content.
_PLAIN = frozenset({int, bool, str, type(None), DType})
_INTEGERS = frozenset({int})


def prepare(
    op: Op,
    inputs: Sequence[Any],
    attrs: Attributes,
    form: Form | None,
    on: tuple[type[TensorBase], Executor] | None = None,
) -> tuple[type[TensorBase], Executor, Sequence[Any], Plan]:
    """Return tensor class, backend, the inputs unified, and the plan of a call.

    ``form`` is that of the attributes, by `form_of`.
    """
    lead, parts = _survey(inputs)
    if lead is not None:
        cls, backend = lead.__class__, lead._backend
    else:
        cls, backend = _required(op, inputs, on)
    key = None if parts is None or form is None else (form, *parts)
    plan = None if key is None else op.plans.get(key)
    if plan is None:
        unified, plan = _planned(op, inputs, attrs)
        if key is not None and _is_lasting(inputs, plan):
            plan.is_kept = True
            _kept(op, key, plan)
        return cls, backend, unified, plan
    if plan.takes is not None:
        inputs = [
            i if type is None else _taken(i, type)
            for i, type in zip(inputs, plan.takes, strict=True)
        ]
    if plan.numbers is not None and key is not None:
        plan = with_numbers(op, key, plan, inputs, attrs)
    return cls, backend, inputs, plan


def _survey(inputs: Sequence[Any]) -> tuple[TensorBase | None, list[Any] | None]:
    """Return the tensor on whose backend a call runs, and what its plan depends on.

    That is the types of tensors and the classes of numbers; None for a call that is planned
    each time, as one with a NumPy scalar.
    """
    lead: TensorBase | None = None
    parts: list[Any] | None = []
    for value in inputs:
        if isinstance(value, TensorBase):
            if lead is None or (
                value._backend is not lead._backend and _is_over(value._backend, lead._backend)
            ):
                lead = value
            if parts is not None:
                parts.append(value._type.key)
                if not parts[-1]:
                    parts = None
        elif value is not None and value.__class__ not in NUMBERS:
            parts = None
        elif parts is not None:
            parts.append(value.__class__)
    return lead, parts


def _is_over(x: Executor, y: Executor) -> bool:
    """Whether a backend lifts the tensors of another: it differentiates, or decorates that one."""
    return x.level > y.level or x.inner is y


Known = tuple[type[TensorBase], Executor, list[Handle], Plan]


def known(op: Op, inputs: Sequence[Any], attrs: Attributes, form: Form | None) -> Known | None:
    """Return class, backend, handles and plan of a call that was planned before, as most are.

    None for others, and where a tensor is to be cast or lifted.
    """
    # Written for speed: this is run for every op.
    cls: type[TensorBase] | None = None
    backend: Executor | None = None
    parts: list[Any] = [form]
    handles: list[Handle] = []
    for value in inputs:
        kind = value.__class__
        if kind in NUMBERS or value is None:
            parts.append(kind)
            handles.append(value)
        elif isinstance(value, TensorBase):
            its = value._backend
            if its is not backend:
                if backend is not None:
                    return None
                cls, backend = kind, its
            parts.append(value._type.key)
            handles.append(value._handle)
        else:
            return None
    if form is None or backend is None or cls is None:
        return None
    key = tuple(parts)
    plan = op.plans.get(key)
    if plan is None or (plan.takes is not None and not _puts_numbers(handles, plan.takes)):
        return None
    if plan.numbers is not None:
        given = [
            x if isinstance(x, TensorBase) else h for x, h in zip(inputs, handles, strict=True)
        ]
        plan = with_numbers(op, key, plan, given, attrs)
    return cls, backend, handles, plan


def with_numbers(
    op: Op, key: tuple[Any, ...], plan: Plan, inputs: Sequence[Any], attrs: Attributes
) -> Plan:
    """Return the plan of a call that may differ from another in numbers that its launch gives.

    What the op's rules say of the new numbers is asked, as they may say other types.  A plan is
    kept when its numbers come again: of most that change there is no second call.
    """
    names = plan.names
    if names is None:
        numbers = tuple([number_at(attrs, path) for path in plan.paths])
    else:
        numbers = names(attrs)  # by native code
    assert plan.numbers is not None, "a plan of an op with kernels"
    if numbers == plan.numbers and are_same(numbers, plan.numbers):
        if not plan.is_kept:
            plan.keep()
        return plan
    if plan.is_of_any_number:
        renewed = op.plans[key] = plan.renewed(attrs, numbers)
        return renewed
    found, out = _inferred(op, inputs, {name: unmarked(value) for name, value in attrs.items()})
    first = plan.first or plan
    if out != first.out:
        # Kept by types too, as those of a zoom may come in turns.
        first = op.plans.get((key, out)) or _kept(op, (key, out), Plan(found, out))
    renewed = Plan(found, out, plan.takes, paths=plan.paths, numbers=numbers, first=first)
    renewed.names = names
    return _kept(op, key, renewed)


def _puts_numbers(handles: list[Handle], takes: Sequence[TensorType | None]) -> bool:
    """Put Constants in the places of numbers; False where a tensor is to be cast."""
    for position, type in enumerate(takes):
        if type is not None:
            if handles[position].__class__ not in NUMBERS:
                return False
            handles[position] = Constant(handles[position], type)
    return True


def _required(
    op: Op, inputs: Sequence[Any], on: tuple[type[TensorBase], Executor] | None
) -> tuple[type[TensorBase], Executor]:
    if on is None:
        given = [value for value in inputs if not isinstance(value, Number | None)]
        got = instead(given[0]) if given else "got none"
        raise DTypeError(f"{op.name} requires a tensor among its inputs, {got}")
    return on


def form_of(op: Op, attrs: Attributes) -> Form | None:
    """Return what a plan depends on of the attributes and of an application's rules.

    None for a call that is planned each time: the attributes are not those of the record, or may
    change where they lie, as lists and arrays do.
    """
    form = attributes_form(op, attrs)
    is_own = op.reads is None and op.body_reads is None
    return form if is_own or form is None else (*form, rules_key(op))


def attributes_form(op: Op, attrs: Attributes) -> Form | None:
    """Return what `form_of` does, of the attributes alone.

    Equal values may differ, 1 and True, 0.0 and -0.0: it has their content.  Raises ArgumentError
    for an attribute of an application's op that has none; Pyrite's look at theirs themselves.
    """
    if not attrs:
        return ()
    if len(attrs) != len(op.attributes):
        return None
    parts: list[Any] = []
    is_lasting = True
    for name in op.attributes:
        value = attrs[name]
        kind = value.__class__
        if op.at_launch and name in op.at_launch:
            reader = Reader()
            if (left := _without_numbers(op, name, value, reader)) is not None:
                parts += (kind, left)
                is_lasting = is_lasting and reader.is_lasting
                continue
        if (
            kind in _PLAIN
            or (kind is float and (value > 0.0 or value < 0.0))
            or (kind is tuple and _INTEGERS.issuperset(map(type, value)))
        ):
            parts += (kind, value)
            continue
        if kind is tuple and (classes := _classes(value)) is not None:
            parts += (classes, value)
            continue
        reader = Reader()
        content = _content_of(op, name, value, reader)
        if content is None:
            return None
        parts += (kind, content)
        is_lasting = is_lasting and reader.is_lasting
    return tuple(parts) if is_lasting else None


def _content_of(op: Op, name: str, value: Any, reader: Reader) -> Hashable | None:
    """Return the content of an attribute, None where that is no key.

    Raises ArgumentError for an attribute of an application's op without content.
    """
    if value.__class__ is tuple and has_symbol(value):
        return None
    try:
        return reader.of(value)
    except NoContentError as error:
        if op.reads is not None:
            raise without_content(op, name, error) from None
        return None


def _without_numbers(op: Op, name: str, value: Any, reader: Reader) -> Form | None:
    """Return the form of an attribute whose numbers a launch gives; None for one without.

    Raises ArgumentError for settings with a field that has no content.
    """
    try:
        return form_without_numbers(value, reader.of)
    except NoContentError as error:
        raise without_content(op, name, error) from None


def _classes(values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the classes of plain values in nested tuples; None where others are among them."""
    found: list[Any] = []
    for value in values:
        kind = value.__class__
        if kind is tuple:
            kind = _classes(value)
            if kind is None:
                return None
        elif is_size(value):
            return None
        elif kind not in _PLAIN:
            return None
        found.append(kind)
    return tuple(found)


def _is_lasting(inputs: Sequence[Any], plan: Plan) -> bool:
    """Whether a plan is that of all calls of its key: an integer must fit the integers it meets."""
    return plan.takes is None or not any(
        value.__class__ is int and type is not None and type.dtype.is_integer
        for value, type in zip(inputs, plan.takes, strict=True)
    )


def _taken(value: Any, type: TensorType) -> Any:
    return value.astype(type.dtype) if isinstance(value, TensorBase) else Constant(value, type)


def _kept(op: Op, key: tuple[Any, ...], plan: Plan) -> Plan:
    """Return a plan, which later calls find under a key."""
    if plan.out is not None and _is_direct(op, key, plan):
        if len(plan.out) == 1:
            plan.result = plan.out[0]
        else:
            plan.results = plan.out
    if len(op.plans) >= _PLANS_KEPT:
        op.plans.clear()
    op.plans[key] = plan
    return plan


def _is_direct(op: Op, key: tuple[Any, ...], plan: Plan) -> bool:
    """Whether the tensors of a call go to the backend as they come, by the key of its plan."""
    if op.sync or plan.takes is None:
        return not op.sync
    kinds = key[1:]
    return plan.numbers is None and all(
        type is None or kind in NUMBERS for type, kind in zip(plan.takes, kinds, strict=True)
    )


def _planned(op: Op, inputs: Sequence[Any], attrs: Attributes) -> tuple[Sequence[Any], Plan]:
    """Return the inputs unified, and the plan of the call."""
    tensors = [i for i in inputs if isinstance(i, TensorBase)]
    unified = _unify(op, list(inputs), tensors)
    # An op keeps no more of sizes than their values, and so does what is made once for all calls.
    attrs = {name: unmarked(value) for name, value in attrs.items()}
    if OPS.get(op.name) is op:
        _require_flags(op, attrs)
        _require_integers(op, attrs)
    found, out = _inferred(op, unified, attrs)
    plan = Plan(found, out, _takes(inputs, unified))
    if op.at_launch:
        plan.paths = numbers_among(attrs, frozenset(attrs).difference(op.at_launch))
        plan.numbers = tuple([number_at(attrs, path) for path in plan.paths])
        if len(plan.paths) > 1 and not any(of for _, of in plan.paths):
            plan.names = operator.itemgetter(*[name for name, _ in plan.paths])
        plan.is_of_any_number = _is_of_any_number(op, plan)
    return unified, plan


def _takes(inputs: Sequence[Any], unified: Sequence[Any]) -> tuple[TensorType | None, ...] | None:
    """Return the types of inputs in place of which others are taken, None where all stay."""
    if all(map(operator.is_, unified, inputs)):
        return None
    return tuple(
        [
            None if new is old else new._type if isinstance(new, TensorBase) else new.type
            for new, old in zip(unified, inputs, strict=True)
        ]
    )


def _is_of_any_number(op: Op, plan: Plan) -> bool:
    """Whether rules look at none of the numbers of a plan, and all its attributes are numbers."""
    names = {name for name, _ in plan.paths}
    if op.canonical is not None or op.infer is None or len(names) < len(op.attributes):
        return False
    rule = getattr(op.infer, "__wrapped__", op.infer)  # the application's own, see `custom_op`
    return not any(may_read(rule, name) for name in names)


def _inferred(
    op: Op, inputs: Sequence[Any], attrs: Attributes
) -> tuple[Attributes, tuple[TensorType, ...] | None]:
    """Return the canonical attributes, and the types of results, for inputs that are unified."""
    given = [i._type if isinstance(i, TensorBase) else i for i in inputs]
    if op.canonical:
        attrs = op.canonical(*[i.type if isinstance(i, Constant) else i for i in given], **attrs)
    if op.is_elementwise and op.infer is None and OPS.get(op.name) is op:
        _require_numbers(op, attrs)
    return attrs, types_of_results(op, given, attrs)


def _require_numbers(op: Op, attrs: Attributes) -> None:
    """Raise ArgumentTypeError for an attribute of an elementwise op that no rule can compute with.

    An application's own rules may take anything.
    """
    for name, value in attrs.items():
        default = op.attributes[name]
        is_fit = isinstance(value, bool | int | float | DType | np.generic)
        if not is_fit and value.__class__ is not default.__class__:
            raise ArgumentTypeError(f"{op.name} requires {name} to be a number, got {value!r}")


def _require_flags(op: Op, attrs: Attributes) -> None:
    """Raise ArgumentTypeError for what is no bool where the default is one."""
    for name, value in attrs.items():
        if value is True or value is False or op.attributes[name].__class__ is not bool:
            continue
        if not isinstance(value, np.bool_) and (not isinstance(value, int) or value not in (0, 1)):
            raise ArgumentTypeError(f"{op.name} requires {name} to be a bool, got {value!r}")


def _require_integers(op: Op, attrs: Attributes) -> None:
    """Raise ArgumentTypeError for a float in the place of an integer, which int() would cut off."""
    for name in op.integers:
        if isinstance(attrs.get(name), float | np.floating):
            raise ArgumentTypeError(
                f"{op.name} requires {name} to be an integer, got {attrs[name]!r}"
            )


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
    number = _number(op, value)
    weak = _weak(number)
    return Constant(number, TensorType((), dtype or promote_scalar(op.name, bool_, weak)))


def _weak(number: Any) -> Number:
    """Return a number that meets dtypes as one does that may not be known yet."""
    return 0.5 if isinstance(number, SymbolicNumber) else number


def _number(op: Op, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, bool | int | float | SymbolicNumber):
        raise DTypeError(f"{op.name} requires tensors or Python numbers, {instead(value)}")
    return value


def _common_dtype(op: Op, values: Sequence[Any]) -> DType:
    found: DType | None = None
    for value in values:
        if isinstance(value, TensorBase | Constant):
            dtype = value.dtype if isinstance(value, TensorBase) else value.type.dtype
            found = dtype if found is None else promote(op.name, found, dtype)
    numbers = [_weak(_number(op, v)) for v in values if not isinstance(v, TensorBase | Constant)]
    # Floats first: beside them an integer becomes one, however large it is.
    for number in sorted(numbers, key=lambda n: isinstance(n, int)):
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


#: From a composite, the types and numbers that it is given and its attributes, to the types of its
#: results, or None where only a run can tell.
Inference = Callable[[Op, Sequence[Any], Attributes], tuple[TensorType, ...] | None]

_of_bodies: list[Inference] = []


def infers_bodies(inference: Inference) -> Inference:
    """Mark what finds the types of composites that have no rule for them, by their bodies.

    Who traces bodies is further up.
    """
    _of_bodies[:] = [inference]
    return inference


def types_of_results(
    op: Op, given: Sequence[Any], attrs: Attributes
) -> tuple[TensorType, ...] | None:
    """Return the types of what an op makes of types, Constants and None; None if a run must tell.

    Raises what a call of such inputs would.
    """
    types = [i.type if isinstance(i, Constant) else i for i in given]
    out = _infer(op, types, attrs)
    if out is None and op.body is not None and _of_bodies:
        out = _of_bodies[0](op, given, attrs)
    return out


def _infer(op: Op, types: list[Any], attrs: Attributes) -> tuple[TensorType, ...] | None:
    if op.infer is not None:
        out = op.infer(*types, **attrs)
        found = out if isinstance(out, tuple) else (out,)
        _require_sizes(op, found)
        return found
    if op.scalar is None:
        return None
    present = [t for t in types if t is not None]
    shape = broadcast(op.name, *(t.shape for t in present))
    dtype = bool_ if op.returns == "bool" else present[-1].dtype
    return (TensorType(shape, dtype),)


def _require_sizes(op: Op, types: tuple[TensorType, ...]) -> None:
    """Raise ShapeError of a size that no index reaches, also where another one is 0."""
    for type in types:
        if any(n > _MOST for n in type.shape):
            raise ShapeError(f"{op.name} requires sizes below 2 ** 63, got {type.shape}")


_MOST: Final = (1 << 63) - 1
