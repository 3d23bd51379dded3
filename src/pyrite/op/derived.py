"""Derivatives that follow from the class of a rule: ops that read and write by index or by maps.

What a gather or a map read, its adjoint adds up; what a scatter added up, its adjoint reads.  These
are ops of their own, made the first time that they are wanted, and are each other's derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from pyrite.content import Functions
from pyrite.errors import GradientError
from pyrite.op.binding import bind
from pyrite.op.index import fibers
from pyrite.op.record import Attributes, Derivative, Op, TensorBase, Want
from pyrite.op.rule import (
    ADD,
    ASSIGN,
    AVERAGE,
    Adjoint,
    Contract,
    Gather,
    Map,
    Rule,
    Scatter,
    View,
    WindowFold,
)
from pyrite.op.rule.adjoint import gather_of, last_write_of, scatter_of
from pyrite.op.rule.contract import INPUTS
from pyrite.types import Shape, TensorType, bool_

#: From the op, the cotangent of its result, its inputs (types where those do) and attributes, to
#: the cotangent of an input.
Give = Callable[[Op, Any, Sequence[Any], Attributes], Any]

#: Rules whose adjoint is one of maps.
Mapped = View | Map | WindowFold

#: Adjoints that are kept, by op.
_KEPT = 256


class Derived(Derivative):
    """The derivative of an op by its rule: what to give to some inputs, and what that needs."""

    __slots__ = ("_gives", "_values")

    def __init__(self, gives: Mapping[int, Give], values: Sequence[int]) -> None:
        """Keep the tensors of ``values`` alone, of the other inputs their types."""
        super().__init__(())
        self._gives, self._values = dict(gives), frozenset(values)

    def reaches(self, position: int) -> bool:
        """Whether a gradient may flow to the input at that position."""
        return position in self._gives

    def _want(self, position: int, tracked: Sequence[int]) -> Want:
        if position == 0:
            return "nothing"
        return "value" if position - 1 in self._values else "type"

    def __call__(
        self, op: Op, g: Any, saved: Sequence[Any], attrs: Attributes, tracked: Sequence[int]
    ) -> dict[int, Any]:
        """Return the cotangent of each tracked input that has one."""
        gives = self._gives
        return {i: gives[i](op, g, saved[1:], attrs) for i in tracked if i in gives}


def derivative_of(rule: Rule | None, inputs: int) -> Derivative | None:
    """Return the derivative of an op with so many inputs that its rule has, None where none."""
    if isinstance(rule, View | Map):
        return Derived({p: partial(_to_mapped, rule, p) for p in range(inputs)}, ())
    if isinstance(rule, WindowFold) and rule.fold is AVERAGE:
        return Derived({0: partial(_to_mapped, rule, 0)}, ())
    if isinstance(rule, Gather):
        others = [p for p in range(inputs) if p != rule.source]
        return Derived({rule.source: partial(_to_source, rule)}, others)
    if isinstance(rule, Scatter):
        gives = {rule.base: partial(_to_base, rule), rule.updates: partial(_to_updates, rule)}
        written = {p: give for p, give in gives.items() if p is not None}
        return Derived(written, [p for p in range(inputs) if p not in written])
    if isinstance(rule, Contract) and rule.role == 2:
        return Bilinear(None, rule, 2)
    return None


# ---- maps ----


def _to_mapped(
    rule: Mapped, position: int, op: Op, g: Any, inputs: Sequence[Any], attrs: Attributes
) -> Any:
    number = TensorType((), g.dtype)
    types = [_type(i, number) for i in inputs]
    shapes = tuple(type.shape for type in types if type is not None)
    _require_fibers(op, rule, shapes, attrs)
    return bind(_map_adjoint(op, rule, position), [g], {**attrs, "source_shapes": shapes})


def _require_fibers(op: Op, rule: Mapped, shapes: Sequence[Shape], attrs: Attributes) -> None:
    """Raise GradientError for a map of which nobody can say who reads a place."""
    if isinstance(rule, WindowFold):
        maps = [rule.windows(*shapes, **attrs).index]
    else:
        maps = [piece.index for piece in rule.of(shapes, attrs)]
    if any(fibers(index) is None for index in maps):
        raise GradientError(
            f"{op.name} requires a derivative rule to be differentiated, got none: that of a map "
            "follows from its rule where places are sums of coordinates; give a vjp"
        )


@lru_cache(maxsize=_KEPT)
def _map_adjoint(op: Op, rule: Mapped, position: int) -> Op:
    """Return the adjoint of a map for one of its inputs as an op, whose derivative is the map."""

    def own(_: Shape, *, source_shapes: Any, **attrs: Any) -> dict[str, Any]:
        return attrs

    def shapes_of(_: Shape, *, source_shapes: Any, **attrs: Any) -> Sequence[Shape]:
        return source_shapes  # type: ignore[no-any-return]

    def mapped(_: Op, h: Any, inputs: Sequence[Any], attrs: Attributes) -> Any:
        shapes, given = attrs["source_shapes"], own((), **attrs)
        # What comes of the other inputs does not depend on this one.
        zero = h.sum().equal(0)._where(0, 0).astype(h.dtype)
        others = [h if p == position else zero.broadcast_to(s) for p, s in enumerate(shapes)]
        return bind(op, others, given)

    return _adjoint(
        op, f"adjoint_{position}" if position else "adjoint", ["g"],
        Adjoint(rule, own, position, shapes_of), ("source_shapes",),
        lambda g, *, source_shapes, **_: TensorType(source_shapes[position], g.dtype),
        Derived({0: mapped}, ()),
    )  # fmt: skip


# ---- gathers ----


def _to_source(rule: Gather, op: Op, g: Any, inputs: Sequence[Any], attrs: Attributes) -> Any:
    others = [i for position, i in enumerate(inputs) if position != rule.source]
    shape = inputs[rule.source].shape
    return bind(_scatter(op, rule), [*others, g], {**attrs, "source_shape": shape})


@lru_cache(maxsize=_KEPT)
def _scatter(gather: Op, rule: Gather) -> Op:
    """Return the adjoint of a gather as an op, of which the gather is the derivative."""

    def read(_: Op, h: Any, inputs: Sequence[Any], attrs: Attributes) -> Any:
        own = {name: value for name, value in attrs.items() if name != "source_shape"}
        return bind(gather, [*inputs[: rule.source], h, *inputs[rule.source : -1]], own)

    others = [name for position, name in enumerate(gather.inputs) if position != rule.source]
    return _adjoint(
        gather, "adjoint", [*others, "g"], scatter_of(rule), ("source_shape",),
        lambda *types, source_shape, **_: TensorType(source_shape, types[-1].dtype),
        Derived({len(others): read}, range(len(others))),
    )  # fmt: skip


# ---- scatters ----


def _to_base(rule: Scatter, op: Op, g: Any, inputs: Sequence[Any], attrs: Attributes) -> Any:
    if _is_sum(op, rule, attrs):
        return g
    # What was assigned to does not depend on the base.
    read = _read(rule, op, g, inputs, attrs)
    kept = list(inputs)
    for position, value in ((rule.base, g), (rule.updates, read.equal(0)._where(0, 0))):
        if position is not None:
            kept[position] = value.astype(g.dtype)
    return bind(op, kept, attrs)


def _to_updates(rule: Scatter, op: Op, g: Any, inputs: Sequence[Any], attrs: Attributes) -> Any:
    read = _read(rule, op, g, inputs, attrs)
    if _is_sum(op, rule, attrs):
        return read
    others = [i for p, i in enumerate(inputs) if p not in (rule.base, rule.updates)]
    shapes = {"points_shape": read.shape, "written_shape": g.shape}
    return bind(_last_write(op, rule), others, {**attrs, **shapes})._where(read, 0)


def _read(rule: Scatter, op: Op, g: Any, inputs: Sequence[Any], attrs: Attributes) -> Any:
    """Return what stands in g where the updates go."""
    others = [i for p, i in enumerate(inputs) if p not in (rule.base, rule.updates)]
    number = TensorType((), g.dtype)
    types = [_type(i, number) for i in inputs]
    points = rule.space(types, attrs)
    return bind(_gather(op, rule), [g, *others], {**attrs, "points_shape": points})


def _type(saved: Any, number: TensorType) -> TensorType | None:
    """Return the type of an input, which is kept itself or as its type; ``number`` of numbers."""
    if isinstance(saved, TensorBase):
        return saved._type
    return saved if isinstance(saved, TensorType | None) else number


def _is_sum(op: Op, rule: Scatter, attrs: Attributes) -> bool:
    """Return whether updates are added, not assigned.  Raises GradientError for any other."""
    collision = rule.collides(attrs)
    if collision not in (ADD, ASSIGN):
        raise GradientError(
            f"{op.name} requires a derivative rule to be differentiated, got none: that of a "
            "scatter follows from its rule where it adds or assigns; give a vjp"
        )
    return collision is ADD


@lru_cache(maxsize=_KEPT)
def _gather(scatter: Op, rule: Scatter) -> Op:
    """Return the adjoint of a scatter, for its updates, as an op."""
    others = [name for p, name in enumerate(scatter.inputs) if p not in (rule.base, rule.updates)]
    adjoint = gather_of(rule)
    return _adjoint(
        scatter, "adjoint", ["h", *others], adjoint, ("points_shape",),
        lambda h, *_, points_shape, **__: TensorType(points_shape, h.dtype),
        derivative_of(adjoint, 1 + len(others)),
    )  # fmt: skip


@lru_cache(maxsize=_KEPT)
def _last_write(scatter: Op, rule: Scatter) -> Op:
    """Return the op that says which updates of a scatter are still there."""
    others = [name for p, name in enumerate(scatter.inputs) if p not in (rule.base, rule.updates)]
    return _adjoint(
        scatter, "last", others, last_write_of(rule), ("points_shape", "written_shape"),
        lambda *_, points_shape, **__: TensorType(points_shape, bool_), Derived({}, ()),
    )  # fmt: skip


# ---- contractions ----


class Bilinear(Derivative):
    """The derivative of a contraction: the same products, with other roles.

    ``contraction`` is the op itself, or for a transpose of it that op.
    """

    __slots__ = ("_contraction", "_role", "_rule")

    def __init__(self, contraction: Op | None, rule: Contract, role: int) -> None:
        super().__init__(())
        self._contraction, self._rule, self._role = contraction, rule, role

    def _want(self, position: int, tracked: Sequence[int]) -> Want:
        if position == 0:
            return "nothing"
        return "value" if 2 - position in tracked else "type"

    def __call__(
        self, op: Op, g: Any, saved: Sequence[Any], attrs: Attributes, tracked: Sequence[int]
    ) -> dict[int, Any]:
        """Return the cotangent of each tracked input."""
        of = self._contraction or op
        return {i: self._given(of, i, g, saved[1:], attrs) for i in tracked}

    def _given(
        self, op: Op, position: int, g: Any, inputs: Sequence[Any], attrs: Attributes
    ) -> Any:
        """Return the cotangent of one input, from the result's and the other input."""
        if position == 2:
            return _to_bias(self._rule, g)
        roles = INPUTS[self._role]
        wanted, other = roles[position], roles[1 - position]
        known = {self._role: g, other: inputs[1 - position]}
        operands = [known[role] for role in INPUTS[wanted]]
        own = {name: value for name, value in attrs.items() if name != "result_shape"}
        if wanted == 2:
            without_bias = [None] if self._rule.bias is not None else []
            return bind(op, [*operands, *without_bias], own)
        shape = {"result_shape": inputs[position].shape}
        return bind(_transposed(op, self._rule, wanted), operands, {**own, **shape})


def _to_bias(rule: Contract, g: Any) -> Any:
    """Return the cotangent of what was added along an axis: the sum over all others."""
    return g.sum(tuple(a for a in range(g.ndim) if a != rule.bias_axis(g.ndim)))


@lru_cache(maxsize=_KEPT)
def _transposed(op: Op, rule: Contract, role: int) -> Op:
    """Return the op that computes the cotangent of an input of a contraction."""
    own = rule.transposed(role, lambda *_, result_shape, **__: result_shape, "result_shape")
    names = (*op.inputs[:2], "g")
    return _adjoint(
        op, ("of_x", "of_y")[role], [names[r] for r in INPUTS[role]], own, ("result_shape",),
        lambda x, _, *, result_shape, **__: TensorType(result_shape, x.dtype),
        Bilinear(op, rule, role),
    )  # fmt: skip


# ---- records ----


def _adjoint(
    op: Op, suffix: str, inputs: Sequence[str], rule: Rule, shapes: Sequence[str],
    infer: Callable[..., TensorType], derivative: Derivative | None,
) -> Op:  # fmt: skip
    """Return the record of an op that follows from another."""
    extra: dict[str, Shape] = dict.fromkeys(shapes, ())
    taken = sorted(set(extra) & set(op.attributes))
    assert not taken, f"{op.name} has an attribute {taken}, which its adjoint needs"
    return Op(
        name=f"{op.name}_{suffix}", inputs=tuple(inputs), attributes={**op.attributes, **extra},
        accepts="any", rule=rule, infer=infer, derivative=derivative,
        reads=None if op.reads is None else Functions(rule),
        doc=f"What follows from the rule of {op.name}.",
    )  # fmt: skip
