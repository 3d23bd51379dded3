"""Traces of a model at several sizes, laid over each other: one, whose integers may vary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pyrite.content import NoContentError, content_of
from pyrite.errors import ArgumentError, ModelExportError
from pyrite.onnx.exporter.size import Size, ValueType, Varying, size_of
from pyrite.onnx.exporter.tracer import Found, Handle, Step, Trace
from pyrite.op import Attributes, Constant, Op
from pyrite.types import Array, DType, Number, TensorType


@dataclass(frozen=True, slots=True)
class Literal:
    """A number that an op is applied to, in a dtype; an integer may vary."""

    value: Number | Varying
    dtype: DType


#: What an op is applied to.
Operand = Handle | Literal | None


class DiffersError(Exception):
    """Two traces have something different in one place, which is no integer."""


@dataclass(frozen=True, slots=True, eq=False)
class Application:
    """An op applied to operands, at all traces; its results are the values from first on."""

    op: Op
    operands: tuple[Operand, ...]
    attrs: Attributes
    #: The attributes and the types of inputs at the first trace: they choose the exporter.
    example: tuple[Attributes, tuple[TensorType | None, ...]]
    results: tuple[Handle, ...]
    layer: str
    location: str
    bodies: tuple[SymbolicTrace, ...] = ()

    def error(self, message: str) -> ModelExportError:
        """Return an error of this op, at the user's line and in its layer."""
        place = f" (layer {self.layer!r})" if self.layer else ""
        error = ModelExportError(f"{self.op.name}{place} requires {message}")
        error.location = self.location
        error.add_note(f"at {self.location}")
        return error


@dataclass(frozen=True, slots=True, eq=False)
class SymbolicTrace:
    """A model or a body: what is applied to what, at all sizes."""

    inputs: tuple[Handle, ...]
    constants: Mapping[Handle, Found]
    steps: tuple[Application, ...]
    results: tuple[Handle, ...]
    types: Mapping[int, ValueType]
    #: The integers of small arrays of the host that vary, in row-major order.
    varying: Mapping[Handle, tuple[Size, ...]]


#: Elements of the largest array whose integers are found to be formulas of sizes.
_MOST_VARYING = 16


def overlay(traces: Sequence[Trace]) -> SymbolicTrace:
    """Return traces as one.  Raises ModelExportError where more than integers differ."""
    first = traces[0]
    _require_same_steps(traces)
    types = {
        number: _type([r.types[number] for r in traces])
        for number in first.types
        if all(number in r.types for r in traces)
    }
    return _laid_over(traces, first, types, _varying_constants(traces))


def _laid_over(
    traces: Sequence[Trace], root: Trace, types: Mapping[int, ValueType],
    varying: Mapping[Handle, tuple[Size, ...]],
) -> SymbolicTrace:  # fmt: skip
    """Return the traces of a model, the root, or of one body in it, as one."""
    first = traces[0]
    steps = [
        _application([r.steps[i] for r in traces], root, types, varying)
        for i in range(len(first.steps))
    ]
    return SymbolicTrace(
        tuple(first.inputs), root.constants, tuple(steps), tuple(first.results), types, varying
    )


def _type(types: Sequence[TensorType]) -> ValueType:
    shapes = zip(*(t.shape for t in types), strict=True)
    return ValueType(tuple(size_of(sizes) for sizes in shapes), types[0].dtype)


def _require_same_steps(traces: Sequence[Trace]) -> None:
    """Raise ModelExportError where models did different things at different sizes."""
    first = traces[0]
    for other in traces[1:]:
        for a, b in zip(first.steps, other.steps, strict=False):
            if _form(a) != _form(b):
                _refuse_branch(a.location)
            for bodies in zip(a.bodies, b.bodies, strict=True):
                _require_same_steps(bodies)
        if len(first.steps) != len(other.steps):
            longer = max(first.steps, other.steps, key=len)
            _refuse_branch(longer[min(len(first.steps), len(other.steps))].location)
        if first.results != other.results:
            _refuse_branch(first.steps[-1].location if first.steps else None)


def _form(step: Step) -> Any:
    """Return what must be the same at all sizes."""
    operands = tuple(int(x) if isinstance(x, Handle) else type(x) for x in step.operands)
    types = tuple((t.dtype, t.ndim) for t in step.types)
    # An application may declare an op anew each time: its body says what it is.
    op = step.op.name if step.bodies else step.op
    return op, operands, types, step.first, len(step.bodies)


def _refuse_branch(location: str | None) -> NoReturn:
    error = ModelExportError(
        "export requires the same ops at every size of a dynamic axis, got others: a loop over the "
        "axis, or a branch on its size; leave it out of dynamic, or write ops over the whole axis"
    )
    error.location = location
    if location is not None:
        error.add_note(f"at {location}")
    raise error


def _varying_constants(traces: Sequence[Trace]) -> dict[Handle, tuple[Size, ...]]:
    """Return the integers of arrays of the host that vary, which is what sizes become in them.

    Raises ModelExportError for an array that another size makes another one in other ways.
    """
    varying = {}
    for handle, found in traces[0].constants.items():
        twins = [trace.constants.get(handle) for trace in traces]
        if None in twins:
            _refuse_branch(found.location)
        if all(twin is not None and twin.source is found.source for twin in twins):
            continue
        arrays = [twin.array() for twin in twins if twin is not None]
        first = arrays[0]
        if any(a.dtype != first.dtype or a.shape != first.shape for a in arrays):
            _refuse_array(found, arrays)
        if all(a.tobytes() == first.tobytes() for a in arrays):
            continue
        if first.dtype.kind not in "iu" or first.size > _MOST_VARYING:
            _refuse_array(found, arrays)
        columns = zip(*(a.reshape(-1).tolist() for a in arrays), strict=True)
        varying[handle] = tuple(size_of(column) for column in columns)
    return varying


def _refuse_array(found: Found, arrays: Sequence[Array]) -> NoReturn:
    shapes = " and ".join(dict.fromkeys(str(a.shape) for a in arrays))
    error = ModelExportError(
        f"export requires arrays that do not depend on a dynamic axis, got {shapes} at several "
        "sizes; make it by ops: pyrite.arange(n)"
    )
    error.location = found.location
    error.add_note(f"at {found.location}")
    raise error


def _application(
    steps: Sequence[Step], root: Trace, types: Mapping[int, ValueType],
    varying: Mapping[Handle, tuple[Size, ...]],
) -> Application:  # fmt: skip
    first = steps[0]
    results = tuple(Handle(first.first + i) for i in range(len(first.types)))
    given = tuple(
        root.types[x] if isinstance(x, Handle) else x.type if isinstance(x, Constant) else None
        for x in first.operands
    )
    bare = Application(first.op, (), {}, (first.attrs, given), results, first.layer, first.location)
    try:
        operands = tuple(
            _operand(several) for several in zip(*(s.operands for s in steps), strict=True)
        )
        attrs = {name: _merged([s.attrs[name] for s in steps]) for name in first.attrs}
    except DiffersError as error:
        raise bare.error(
            f"numbers that are the same at every size of a dynamic axis, or integers, got {error}"
        ) from None
    bodies = zip(*(s.bodies for s in steps), strict=True)
    return Application(
        first.op,
        operands,
        attrs,
        bare.example,
        results,
        first.layer,
        first.location,
        tuple(_laid_over(traces, root, types, varying) for traces in bodies),
    )


def _operand(several: Sequence[Any]) -> Operand:
    first = several[0]
    if not isinstance(first, Constant):
        return first  # type: ignore[no-any-return]
    return Literal(_number([x.value for x in several]), first.type.dtype)


def _number(values: Sequence[Any]) -> Any:
    """Return a number; one that varies is an integer, also as a float: a count of elements."""
    if all(float(v).is_integer() for v in values if v == v and abs(v) < 2**53) and not all(
        v == values[0] for v in values
    ):
        return _merged([int(v) if abs(v) < 2**53 else v for v in values])
    return _merged(values)


def _merged(values: Sequence[Any]) -> Any:
    """Return what stands in one place of the attributes at all traces."""
    first = values[0]
    if isinstance(first, tuple) and all(
        isinstance(v, tuple) and len(v) == len(first) for v in values
    ):
        return tuple(_merged(several) for several in zip(*values, strict=True))
    if all(type(v) is int for v in values):
        return size_of(values)
    try:
        same = all(content_of(v) == content_of(first) for v in values[1:])
    except (NoContentError, ArgumentError):
        same = all(v is first for v in values)
    if not same:
        raise DiffersError(" and ".join(dict.fromkeys(map(repr, values))))
    return first
