"""Softmax and its kin, and norms over axes, with their gradients: one kernel for each.

Each goes over a row two to four times, as the op's composite says, in the compute dtype, and rounds
once when it writes.  Where the axes are not the last ones, a row is made by a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.registry import lowers
from pyrite.backend.cube.skeleton.elementwise import contiguous, zeros
from pyrite.backend.cube.skeleton.fold import reduce_axes, sum_of
from pyrite.backend.cube.skeleton.row import (
    At,
    Body,
    Make,
    Row,
    Store,
    as_rows,
    for_rows,
    from_rows,
    groups_of,
    select,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.content import content_of
from pyrite.kernel import Value
from pyrite.op import Attributes, Op
from pyrite.types import TensorType

# ---- softmax and its kin ----


@lowers("softmax", "log_softmax", "quiet_softmax")
def softmax(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The row's maximum, the sum of the powers of what lies below it, and the result."""
    body = {"softmax": _softmax, "log_softmax": _log_softmax, "quiet_softmax": _quiet_softmax}
    return [_same_shape(launcher, op.name, "", inputs, (attrs["axis"],), body[op.name])]


def _softmax(row: Row) -> None:
    _write_shares(row, row.largest(row.sources[0]), lambda total, _: total)


def _quiet_softmax(row: Row) -> None:
    shift = row.k.maximum(row.largest(row.sources[0]), 0)
    _write_shares(row, shift, lambda total, shift: row.k.exp(-shift) + total)


def _write_shares(row: Row, shift: Value, whole: Callable[[Value, Value], Value]) -> None:
    (x,), (out,) = row.sources, row.targets
    power, again = row.kept(lambda at: row.k.exp(x(at) - row.spread(shift, at)))
    rate = 1.0 / whole(row.sum(power), shift)
    row.write(lambda at: out(at, again(at) * row.spread(rate, at)))


def _log_softmax(row: Row) -> None:
    (x,), (out,), k = row.sources, row.targets, row.k
    shift = row.largest(x)
    total = row.sum(lambda at: k.exp(x(at) - row.spread(shift, at)))
    logarithm = k.log(total)

    def write(at: At) -> None:
        out(at, x(at) - row.spread(shift, at) - row.spread(logarithm, at))

    row.write(write)


@lowers("softmax_backward", "log_softmax_backward")
def softmax_backward(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """A sum over the row, and the cotangent."""
    body = _softmax_backward if op.name == "softmax_backward" else _log_softmax_backward
    return [_same_shape(launcher, op.name, "", inputs, (attrs["axis"],), body)]


def _softmax_backward(row: Row) -> None:
    (g, y), (out,) = row.sources, row.targets
    total = row.sum(lambda at: g(at) * y(at))
    row.write(lambda at: out(at, y(at) * (g(at) - row.spread(total, at))))


def _log_softmax_backward(row: Row) -> None:
    (g, y), (out,) = row.sources, row.targets
    total = row.sum(g)
    row.write(lambda at: out(at, g(at) - row.k.exp(y(at)) * row.spread(total, at)))


# ---- norms ----


@lowers("layer_norm", "rms_norm")
def norm(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The moments of the row, and the result."""
    axes, eps = _axes(attrs), attrs["eps"]
    has = [v is not None for v in (*inputs[1:], None)]
    vectors = [_vector(launcher, v) for v in inputs[1:] if v is not None]

    def body(row: Row) -> None:
        x, *rest = row.sources
        (out,) = row.targets
        normal, _ = _normal(row, op.name, x, eps)
        weight = rest.pop(0) if has[0] else None
        bias = rest.pop(0) if has[1] else None

        def write(at: At) -> None:
            y = normal(at)
            y = y if weight is None else y * weight(at)
            out(at, y if bias is None else y + bias(at))

        row.write(write)

    return [_same_shape(launcher, op.name, content_of((eps, has)), inputs[:1], axes, body, vectors)]


def _normal(row: Row, name: str, x: Make, eps: float) -> tuple[Make, Value]:
    """Return the values of a row less their mean over their deviation, and one over that.

    The variance is taken from the centred values, and there is no mean in an RMS norm.
    """
    centred = row.centred(x)[1] if name.startswith("layer_norm") else x

    def square(at: At) -> Value:
        y = centred(at)
        return y * y

    rate = row.k.rsqrt(row.mean(square) + eps)
    return (lambda at: centred(at) * row.spread(rate, at)), rate


@lowers("layer_norm_backward", "rms_norm_backward")
def norm_backward(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The gradients that were asked for: a kernel over rows, and the sums that it leaves."""
    g, x, weight = inputs
    axes, eps, argnums = _axes(attrs), attrs["eps"], attrs["argnums"]
    if x.type.size == 0:
        return [zeros(launcher, type) for type in out]
    rows = [as_rows(launcher, t, axes) for t in (g, x)]
    vectors = [] if weight is None else [_vector(launcher, weight)]
    count, length = rows[0].shape
    compute = x.dtype.compute
    config = select(length, compute, launcher.machine, adds=argnums != (0,))
    groups = TensorType((groups_of(count, config), length), compute)
    # Where rows are taken one by one, the sums of g over a row are g itself.
    summed = [n for n in argnums if n == 1 or (n == 2 and config.rows > 1)]
    of_x = launcher.empty(TensorType(rows[1].shape, x.dtype)) if 0 in argnums else None
    partial = {n: launcher.empty(groups) for n in summed}

    def body(row: Row) -> None:
        adders = dict(zip(summed, row.sums, strict=True))
        _write_gradients(row, op.name, eps, adders)

    if of_x is not None or partial:
        for_rows(
            launcher, op.name, content_of((eps, weight is None, summed)), [*rows, *vectors],
            [] if of_x is None else [of_x], body, config, list(partial.values()),
        )  # fmt: skip
    partial.setdefault(2, rows[0])
    return [
        from_rows(of_x, x.shape, axes) if n == 0 and of_x is not None
        else _over_rows(launcher, partial[n], type)
        for n, type in zip(argnums, out, strict=True)
    ]  # fmt: skip


def _over_rows(launcher: Launcher, x: CubeTensor, type: TensorType) -> CubeTensor:
    """Return the sum of all rows, as a tensor of the type."""
    flat = TensorType((type.size,), type.dtype)
    found = reduce_axes(launcher, sum_of(type.dtype.compute), x, (0,), flat).reshaped(type.shape)
    assert found is not None, "a dense tensor has any shape"
    return found


def _write_gradients(row: Row, name: str, eps: float, adders: dict[int, Store]) -> None:
    g, x, *rest = row.sources
    normal, rate = _normal(row, name, x, eps)

    def scaled(at: At) -> Value:
        return g(at) * rest[0](at) if rest else g(at)

    def both(at: At) -> tuple[Value, Value]:
        y = scaled(at)
        return y, y * normal(at)

    # That of x is scaled, less its parts along 1, if the norm is centred, and along normal.
    means = row.means(2, both) if row.targets else ()

    def write(at: At) -> None:
        y = normal(at)
        if 1 in adders:
            adders[1](at, g(at) * y)
        if 2 in adders:
            adders[2](at, g(at))
        if means:
            of_scaled, of_product = (row.spread(mean, at) for mean in means)
            rest_of = scaled(at) - y * of_product
            if name == "layer_norm_backward":
                rest_of = rest_of - of_scaled
            row.targets[0](at, rest_of * row.spread(rate, at))

    row.write(write)


# ---- what they share ----


def _same_shape(
    launcher: Launcher, name: str, variant: Hashable, inputs: Sequence[CubeTensor],
    axes: Sequence[int], body: Body, vectors: Sequence[CubeTensor] = (),
) -> CubeTensor:  # fmt: skip
    """Return the result of a body that writes what is of the inputs' type."""
    type = inputs[0].type
    if type.size == 0:
        return launcher.empty(type)
    sources = [as_rows(launcher, x, axes) for x in inputs]
    target = launcher.empty(TensorType(sources[0].shape, type.dtype))
    for_rows(launcher, name, variant, [*sources, *vectors], [target], body)
    return from_rows(target, type.shape, axes)


def _axes(attrs: Attributes) -> tuple[int, ...]:
    """Return the normalised axes in the order in which weights have them."""
    return tuple(sorted(attrs["axis"]))


def _vector(launcher: Launcher, x: CubeTensor) -> CubeTensor:
    """Return a weight, of the normalised axes, as a vector."""
    flat = contiguous(launcher, x).reshaped((x.type.size,))
    assert flat is not None, "what has no gaps has any shape"
    return flat
