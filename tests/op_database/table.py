"""PyTorch's op database in Pyrite's names: for each of its entries how the same is written here.

An entry of the name of a method or function of Pyrite, with arguments that differ in spelling only
(`SPELLING`), needs no line.  `OURS` says how to write the others, `DIFFERENT` which are no test of
the same meaning, and why.  A call raises `Lacking` for an argument that Pyrite has not.  What is in
none of these has no name here: docs/pytorch-ops.md lists it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyrite
from pyrite import nn
from pyrite.tensor.tensor import Tensor

Call = Callable[..., Any]


class Lacking(Exception):
    """A sample uses what Pyrite has not, or means otherwise: the text says which."""


#: Arguments, by their names in PyTorch.
SPELLING = {
    "dim": "axis",
    "dims": "axis",
    "dim0": "axis1",
    "dim1": "axis1",
    "dim2": "axis2",
    "start_dim": "start_axis",
    "end_dim": "end_axis",
    "keepdim": "keepdims",
    "min_val": "min_value",
    "max_val": "max_value",
}


def call_of(name: str, variant: str = "") -> Call | None:
    """How an entry is called here, None where it has no name."""
    full = f"{name}/{variant}" if variant else name
    for key in (full, name):
        if key in OURS:
            return OURS[key]
    if name not in SAME:
        return None
    return _respelled(getattr(Tensor, name.rpartition(".")[2]))


def _respelled(function: Call) -> Call:
    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{SPELLING.get(k, k): v for k, v in kwargs.items()})

    return called


def _first(call: Call) -> Call:
    """The first of several results."""
    return lambda *args, **kwargs: call(*args, **kwargs)[0]


def _without(call: Call, **ignored: Any) -> Call:
    """A call that lacks some arguments, which must have the value that it stands for."""

    def called(*args: Any, **kwargs: Any) -> Any:
        for name, value in ignored.items():
            if kwargs.pop(name, value) != value:
                raise Lacking(f"{name}=")
        return _respelled(call)(*args, **kwargs)

    return called


def _made(call: Call) -> Call:
    """A call that makes a tensor of a dtype that is asked for."""

    def called(*args: Any, **kwargs: Any) -> Any:
        for name in ("device", "layout", "requires_grad"):
            kwargs.pop(name, None)
        if "end" in kwargs:
            args = (kwargs.pop("start", 0), kwargs.pop("end"))
        return _only(call, "dtype")(*args, **kwargs)

    return called


def _cast(dtype: str) -> Call:
    def called(x: Any, **kwargs: Any) -> Any:
        return x.astype(dtype)

    return called


def _only(call: Call, *allowed: str) -> Call:
    """A call that has some of PyTorch's arguments."""

    def called(*args: Any, **kwargs: Any) -> Any:
        for name, value in kwargs.items():
            if name not in allowed and value is not None:
                raise Lacking(f"{name}=")
        return _respelled(call)(*args, **{k: v for k, v in kwargs.items() if k in allowed})

    return called


def _loss(kind: Call, *options: str) -> Call:
    def called(*tensors: Any, **kwargs: Any) -> Any:
        for name, value in kwargs.items():
            if name not in (*options, "reduction") and value is not None:
                raise Lacking(f"{name}=")
        if kwargs.get("reduction") == "batchmean":
            kwargs["reduction"] = "batch_mean"
        if len({t.shape for t in tensors}) > 1 and kind in _OF_ONE_SHAPE:
            raise Lacking("tensors of several shapes")
        return kind(**{k: v for k, v in kwargs.items() if v is not None})(*tensors)

    return called


#: Losses that broadcast nothing.
_OF_ONE_SHAPE = (nn.GaussianNLLLoss,)


def _hinge(x: Any, target: Any, **kwargs: Any) -> Any:
    if not ((target == 1) | (target == -1)).all().item():
        raise Lacking("targets other than 1 and -1")
    return _loss(nn.HingeEmbeddingLoss, "margin")(x, target, **kwargs)


def _multilabel(x: Any, target: Any, **kwargs: Any) -> Any:
    if x.ndim != 2:
        raise Lacking("logits without a batch")
    return _loss(nn.MultiLabelMarginLoss)(x, target, **kwargs)


def _multi_margin(x: Any, target: Any, **kwargs: Any) -> Any:
    if x.ndim != 2:
        raise Lacking("logits without a batch")
    return _loss(nn.MultiMarginLoss, "p", "margin")(x, target, **kwargs)


# ---- calls that need more than a line ----


def _added(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    return x + y * alpha if alpha != 1 else x + y


def _divided(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return x // y
    return (x / y).trunc() if rounding_mode == "trunc" else x / y


def _by_correction(call: Call) -> Call:
    """Variances: PyTorch divides by n - 1 where nothing else is said."""

    def called(x: Any, *args: Any, **kwargs: Any) -> Any:
        args, unbiased = (args[:-1], args[-1]) if args and isinstance(args[-1], bool) else (args, 1)
        unbiased = kwargs.pop("unbiased", unbiased)
        correction = kwargs.pop("correction", None)
        found = int(unbiased) if correction is None else correction
        axis = kwargs.pop("dim", args[0] if args else None)
        axis = None if axis in ((), []) else axis
        return call(x, axis=axis, correction=found, keepdims=kwargs.pop("keepdim", False))

    return called


def _reduced(call: Call) -> Call:
    """Reductions: to PyTorch no axes mean all of them, and a scalar has an axis."""

    def called(x: Any, *args: Any, **kwargs: Any) -> Any:
        axis = kwargs.pop("dim", args[0] if args else None)
        axis = None if axis in ((), []) or x.ndim == 0 else axis
        keepdims = kwargs.pop("keepdim", args[1] if len(args) > 1 else False)
        return call(x, axis=axis, keepdims=keepdims, **kwargs)

    return called


def _scalar_has_an_axis(call: Call) -> Call:
    """PyTorch lets a zero-d tensor be reduced or scanned along axis 0."""

    def called(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not x.ndim:
            raise Lacking("an axis of a zero-d tensor")
        return _respelled(call)(x, *args, **kwargs)

    return called


def _padded(x: Any, widths: Any, mode: str = "constant", value: Any = None) -> Any:
    pairs = [(widths[i], widths[i + 1]) for i in reversed(range(0, len(widths), 2))]
    if any(w < 0 for w in widths):
        raise Lacking("negative widths")
    ours = {"replicate": "edge"}.get(mode, mode)
    return x.pad(pairs, mode=ours, value=0 if value is None else value)


def _axes_of(shape: Any) -> tuple[int, ...]:
    return tuple(range(-len(shape), 0))


def _require_eps(eps: float | None) -> None:
    if eps is not None and eps < 0:
        raise Lacking("a negative eps")


def _layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, **kwargs: Any) -> Any:
    _require_eps(kwargs.get("eps"))
    return x.layer_norm(weight, bias, axis=_axes_of(shape), **kwargs)


def _rms_norm(x: Any, shape: Any, weight: Any = None, *, eps: float | None = None) -> Any:
    if eps is None:
        raise Lacking("eps=None, by which it is the dtype's")
    _require_eps(eps)
    return x.rms_norm(weight, axis=_axes_of(shape), eps=eps)


def _group_norm(x: Any, groups: int, *, weight: Any = None, bias: Any = None, **kw: Any) -> Any:
    _require_eps(kw.get("eps"))
    return x.group_norm(weight, bias, num_groups=groups, **kw)


def _instance_norm(x: Any, **kwargs: Any) -> Any:
    if kwargs.pop("running_mean", None) is not None and not kwargs.get("use_input_stats", True):
        raise Lacking("running moments of instances")
    for name in ("running_var", "use_input_stats", "momentum"):
        kwargs.pop(name, None)
    return x.instance_norm(kwargs.pop("weight", None), kwargs.pop("bias", None), **kwargs)


def _batch_norm(
    x: Any, mean: Any, variance: Any, weight: Any = None, bias: Any = None, *,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    if x.ndim < 2:
        raise Lacking("a batch without channels")
    if training:
        return x.batch_norm(weight, bias, eps=eps)[0]
    return x.batch_norm_inference(mean, variance, weight, bias, eps=eps)


def _interpolated(x: Any, size: Any = None, **kwargs: Any) -> Any:
    if kwargs.pop("recompute_scale_factor", None):
        raise Lacking("recompute_scale_factor=")
    align = kwargs.pop("align_corners", None)
    size = kwargs.pop("size", size)
    factor, mode = kwargs.pop("scale_factor", None), kwargs.pop("mode", "nearest")
    if mode not in ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear"):
        raise Lacking(f"mode={mode!r}")
    return x.interpolate(size, scale_factor=factor, mode=mode, align_corners=bool(align), **kwargs)


def _pool(call: Call) -> Call:
    def called(x: Any, *args: Any, **kwargs: Any) -> Any:
        names = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if given.pop("return_indices", False):
            raise Lacking("return_indices=, which is another function")
        if given.pop("divisor_override", None) is not None or len(args) > len(names):
            raise Lacking("divisor_override=")
        if isinstance(given.get("stride"), (list, tuple)) and not given["stride"]:
            given["stride"] = None
        return _batched(call, len(_rank(call)))(x, **given)

    return called


def _rank(call: Call) -> str:
    return "x" * int(call.__name__[-2])


def _batched(call: Call, axes: int) -> Call:
    """PyTorch takes an image without a batch; here it is given one."""

    def called(x: Any, *args: Any, **kwargs: Any) -> Any:
        if x.ndim == axes + 2:
            return call(x, *args, **kwargs)
        return call(x.unsqueeze(0), *args, **kwargs).squeeze(0)

    return called


def _adaptive(call: Call) -> Call:
    def called(x: Any, size: Any, return_indices: bool = False) -> Any:
        if return_indices:
            raise Lacking("return_indices=, which is another function")
        axes = int(call.__name__[-2])
        if isinstance(size, (list, tuple)):
            whole = x.shape[-axes:]
            size = tuple(n if s is None else s for s, n in zip(size, whole, strict=True))
        return _batched(call, axes)(x, size)

    return called


def _convolved(call: Call) -> Call:
    def called(x: Any, weight: Any, bias: Any = None, *rest: Any, **kwargs: Any) -> Any:
        names = ("stride", "padding", "dilation", "groups")
        extra, stride = kwargs.get("output_padding", 0), kwargs.get("stride", 1)
        if _some(extra, stride, lambda e, s: e >= s > 0 and e > 0):
            raise Lacking("output_padding of the stride or more")
        return _batched(call, weight.ndim - 2)(
            x, weight, bias, **dict(zip(names, rest, strict=False)), **kwargs
        )

    return called


def _some(left: Any, right: Any, holds: Callable[[int, int], bool]) -> bool:
    """Whether it holds of a pair of numbers, or of two numbers."""
    count = max(len(v) if isinstance(v, (list, tuple)) else 1 for v in (left, right))
    pairs = (v if isinstance(v, (list, tuple)) else (v,) * count for v in (left, right))
    return any(holds(a, b) for a, b in zip(*pairs, strict=True))


def _attention(q: Any, k: Any, v: Any, *, attn_mask: Any = None, **kwargs: Any) -> Any:
    if kwargs.get("dropout_p"):
        raise Lacking("dropout, whose draws are other ones")
    kwargs.pop("dropout_p", None)
    if kwargs.pop("enable_gqa", False):
        raise Lacking("enable_gqa=, which shapes say here")
    if not q.ndim == k.ndim == v.ndim:
        raise Lacking("batches that broadcast")
    is_mask = attn_mask is not None and attn_mask.dtype.is_bool
    chosen = {"mask": attn_mask} if is_mask else {"bias": attn_mask}
    return q.scaled_dot_product_attention(k, v, **chosen, **kwargs)


def _cross_entropy(x: Any, targets: Any, **kwargs: Any) -> Any:
    return nn.CrossEntropyLoss(axis=min(1, x.ndim - 1), **kwargs)(x, targets)


def _nll(x: Any, targets: Any, **kwargs: Any) -> Any:
    return nn.NLLLoss(axis=min(1, x.ndim - 1), **kwargs)(x, targets)


def _cov(x: Any, **kwargs: Any) -> Any:
    if x.ndim < 2 or x.shape[0] == 1:
        raise Lacking("one variable, of which the matrix has one element here and no axes there")
    return _only(Tensor.cov, "correction")(x, **kwargs)


def _quantile(x: Any, q: Any, **kwargs: Any) -> Any:
    axis = kwargs.pop("dim", None)
    if x.ndim == 0:
        raise Lacking("an axis of a zero-d tensor")
    points = q if isinstance(q, (int, float)) else q.tolist()
    return x.quantile(
        points,
        axis,
        keepdims=kwargs.pop("keepdim", False),
        method=kwargs.pop("interpolation", "linear"),
    )


def _normalized(x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    if not x.ndim:
        raise Lacking("an axis of a zero-d tensor")
    return x.vector_normalize(p, dim, eps=eps)


def _by_axis(call: Call, *names: str) -> Call:
    """A call whose arguments after the axis are keywords here."""

    def called(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not x.ndim:
            raise Lacking("an axis of a zero-d tensor")
        return _respelled(call)(x, **dict(zip(names, args, strict=False)), **kwargs)

    return called


def _in_dtype(call: Call) -> Call:
    """PyTorch casts before where a dtype is asked for."""

    def called(x: Any, dim: int, *, dtype: Any = None) -> Any:
        if not x.ndim:
            raise Lacking("an axis of a zero-d tensor")
        return call(x if dtype is None else x.astype(dtype), dim)

    return called


def _sorted(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    return x.sort_with_indices(dim, descending=descending) if x.ndim else (x, x.astype("int32") * 0)


def _scattered(x: Any, dim: int, indices: Any, source: Any, *, reduce: str | None = None) -> Any:
    reduction = {None: "assign", "add": "add", "multiply": "mul"}[reduce]
    if x.ndim == 0:
        raise Lacking("an axis of a zero-d tensor")
    _require_whole(x, indices, dim)
    if isinstance(source, Tensor) and source.shape != indices.shape:
        raise Lacking("more updates than indices")
    return x.scatter(dim, indices, source, reduction=reduction)


def _scatter_reduced(
    x: Any, dim: int, indices: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    how = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}.get(reduce)
    if how is None or not include_self:
        raise Lacking("means, and reductions without what is there")
    if x.ndim == 0:
        raise Lacking("an axis of a zero-d tensor")
    _require_whole(x, indices, dim)
    if source.shape != indices.shape:
        raise Lacking("more updates than indices")
    return x.scatter(dim, indices, source, reduction=how)


def _gathered(x: Any, dim: int, indices: Any) -> Any:
    if x.ndim == 0:
        raise Lacking("an axis of a zero-d tensor")
    _require_whole(x, indices, dim)
    return x.gather(dim, indices)


def _require_whole(x: Any, indices: Any, dim: int) -> None:
    """Other axes are of one length here, or broadcast; PyTorch takes a corner of x."""
    others = [a for a in range(x.ndim) if a != dim % x.ndim]
    if indices.ndim != x.ndim or any(indices.shape[a] != x.shape[a] for a in others):
        raise Lacking("indices that are shorter than x along other axes")


def _indexed(how: str) -> Call:
    def called(x: Any, dim: int, indices: Any, source: Any, **kwargs: Any) -> Any:
        if not x.ndim or (isinstance(source, Tensor) and not source.ndim and how == "assign"):
            raise Lacking("an axis of a zero-d tensor")
        if kwargs.get("alpha", 1) != 1:
            source = source * kwargs["alpha"]
        return x.select_assign(dim, indices, source, reduction=how)

    return called


def _searchsorted(x: Any, values: Any, **kwargs: Any) -> Any:
    if x.ndim != 1:
        raise Lacking("several sorted sequences at once")
    side = kwargs.get("side") or ("right" if kwargs.get("right") else "left")
    return x.searchsorted(values, side=side, sorter=kwargs.get("sorter"))


def _vector_norm(x: Any, **kwargs: Any) -> Any:
    axis = kwargs.get("dim")
    order = kwargs.get("ord", 2)
    if order is None:
        order = 2
    return x.vector_norm(
        None if axis in ((), []) or not x.ndim else axis,
        keepdims=kwargs.get("keepdim", False), ord=order,
    )  # fmt: skip


def _extreme(call: Call, pair: Call, binary: Call) -> Call:
    def called(x: Any, *args: Any) -> Any:
        if not args:
            return call(x)
        if isinstance(args[0], Tensor):
            return binary(x, args[0])
        if not x.ndim:
            raise Lacking("an axis of a zero-d tensor")
        axis, keepdims = args[0], len(args) > 1 and args[1]
        values, indices = pair(x, axis)
        if keepdims and values.ndim < x.ndim:
            return values.unsqueeze(axis), indices.unsqueeze(axis)
        return values, indices

    return called


def _diff(x: Any, *args: Any) -> Any:
    n, axis, prepend, append = (*args, *(1, -1, None, None)[len(args) :])
    if not n:
        raise Lacking("n=0, which leaves out what is to be added")
    return x.diff(axis=axis, n=n, prepend=prepend, append=append)


def _split(x: Any, sizes: Any, dim: int = 0) -> Any:
    return x.split(sizes if isinstance(sizes, int) else list(sizes), dim)


def _embedding(weight: Any, indices: Any, **kwargs: Any) -> Any:
    for name, value in kwargs.items():
        if value not in (None, False) and name != "norm_type":
            raise Lacking(f"{name}=")
    return weight.embedding(indices)


def _embedding_bag(weight: Any, indices: Any, offsets: Any = None, **kwargs: Any) -> Any:
    offsets = kwargs.pop("offsets", offsets)
    known = {"mode", "padding_idx", "per_sample_weights"}
    for name, value in kwargs.items():
        if name not in known | {"norm_type"} and value not in (None, False):
            raise Lacking(f"{name}=")
    given = {name: value for name, value in kwargs.items() if name in known}
    return pyrite.embedding_bag(weight, indices, offsets, **given)


def _grid_sample(x: Any, grid: Any, mode: str, padding_mode: str, align_corners: Any) -> Any:
    return pyrite.grid_sample(
        x, grid, mode=mode, padding_mode=padding_mode, align_corners=bool(align_corners)
    )


def _ctc_loss(log_probs: Any, *args: Any, **kwargs: Any) -> Any:
    return pyrite.ctc_loss(log_probs, *args, **kwargs)


def _median(x: Any, **kwargs: Any) -> Any:
    axis = kwargs.get("dim")
    if axis is None:
        count = math.prod(x.shape)
        return x.flatten().sort()[(count - 1) // 2] if count else x.median()
    if not x.ndim:
        raise Lacking("an axis of a zero-d tensor")
    middle = (x.shape[axis] - 1) // 2
    values, indices = x.sort_with_indices(axis)
    found = values.narrow(axis, middle, 1), indices.narrow(axis, middle, 1)
    return found if kwargs.get("keepdim") else tuple(t.squeeze(axis) for t in found)


def _unfold(x: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    return _batched(nn.Unfold(kernel_size, dilation, padding, stride), 2)(x)


def _unsupported(what: str) -> Call:
    def called(*args: Any, **kwargs: Any) -> Any:
        raise Lacking(what)

    return called


def _masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return pyrite.where(mask, value, x)


def _hard_tanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    return x.hardtanh(min_val, max_val)


def _softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    # Here exp does not overflow, so nothing needs the threshold; PyTorch's samples have low ones.
    return pyrite.where(x * beta > threshold, x, x.softplus(beta))


def _one_hot(x: Any, num_classes: int = -1) -> Any:
    if num_classes < 0:
        raise Lacking("a number of classes that depends on the data")
    return x.one_hot(num_classes)


def _grid(*tensors: Any, indexing: str = "ij") -> Any:
    parts = tensors[0] if isinstance(tensors[0], (list, tuple)) else tensors
    if any(p.ndim != 1 for p in parts):
        raise Lacking("zero-d axes of a grid")
    return pyrite.meshgrid(*parts, indexing=indexing)


def _tiled(x: Any, repetitions: Any) -> Any:
    return x.tile(repetitions)


def _add_product(call: Call) -> Call:
    """beta * c + alpha * call(x, y)."""

    def called(c: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        # To PyTorch a beta of 0 means that c is not looked at.
        if not beta:
            raise Lacking("beta=0, by which NaN of c is not looked at")
        return c * beta + call(x, y) * alpha

    return called


def _copied_index(x: Any, dim: int, indices: Any, value: Any) -> Any:
    return _indexed("assign")(x, dim, indices, value)


def _take(x: Any, indices: Any) -> Any:
    return x.flatten().take(indices)


def _triplet(a: Any, p: Any, n: Any, **kwargs: Any) -> Any:
    return nn.TripletMarginLoss(**kwargs)(a, p, n)


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _tensordot(x: Any, y: Any, dims: Any = 2) -> Any:
    axes = dims if not isinstance(dims, int) else ([*range(-dims, 0)], [*range(dims)])
    if any(x.shape[a] != y.shape[b] for a, b in zip(*axes, strict=True)):
        raise Lacking("axes of one element that broadcast")
    return x.tensordot(y, dims)


def _chain(parts: Any) -> Any:
    found = parts[0]
    for part in parts[1:]:
        found = found @ part
    return found


def _flat(parts: Any) -> Any:
    return parts[0] if len(parts) == 1 and isinstance(parts[0], (list, tuple)) else parts


def _squeezed(x: Any, *axes: int) -> Any:
    """PyTorch leaves an axis that is longer; here that is an error."""
    if not x.ndim:
        return x
    found = tuple(a for a in axes if x.shape[a] == 1)
    return x.squeeze(found) if found else x


def _summed_to(x: Any, shape: tuple[int, ...]) -> Any:
    lead = x.ndim - len(shape)
    found = x.sum(tuple(range(lead))) if lead else x
    axes = tuple(a for a, (n, m) in enumerate(zip(found.shape, shape, strict=True)) if n != m == 1)
    return found.sum(axes, keepdims=True) if axes else found


def _at_least(function: Call) -> Call:
    return lambda x, *rest: function(*x) if isinstance(x, (list, tuple)) else function(x, *rest)


def _tensor_split(x: Any, where: Any, dim: int = 0) -> Any:
    if isinstance(where, Tensor):
        raise Lacking("a tensor of sections or indices, which are no numbers until they are read")
    return x.tensor_split(where, dim)


def _histogram(
    x: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    if weight is not None or density:
        raise Lacking("weights and densities")
    counts, edges = pyrite.histogram(x, bins, range)
    return counts.astype(x.dtype), edges


_F = "nn.functional."

#: How an entry is written here, where its name or an argument is another one.
OURS: dict[str, Call] = {
    # ---- from nothing ----
    **{
        name: _made(getattr(pyrite, name))
        for name in ("zeros_like", "ones_like", "full_like", "zeros", "ones", "full", "eye")
    },
    "arange": _made(pyrite.arange),
    "logspace": lambda start, end, steps, base=10.0, **kw: (
        pyrite.logspace(_number(start), _number(end), steps, base=base, dtype=kw.get("dtype"))
    ),
    "byte": _cast("uint8"), "char": _cast("int8"), "short": _cast("int16"), "int": _cast("int32"),
    "long": _cast("int64"), "half": _cast("float16"), "bfloat16": _cast("bfloat16"),
    "float": _cast("float32"), "double": _cast("float64"), "bool": _cast("bool"),
    "linspace": lambda start, stop, steps, dtype="float32", **kw: (
        pyrite.linspace(_number(start), _number(stop), steps, dtype=dtype)
    ),
    # ---- arithmetic ----
    "add": _added,
    "sub": lambda x, y, alpha=1: x - y * alpha if alpha != 1 else x - y,
    "rsub": lambda x, y, alpha=1: y - x * alpha if alpha != 1 else y - x,
    "div": _divided,
    "true_divide": lambda x, y: x / y,
    "__radd__": lambda x, y: y + x,
    "__rmul__": lambda x, y: y * x,
    "__rsub__": lambda x, y: y - x,
    "__rdiv__": lambda x, y: y / x,
    "__rmod__": lambda x, y: y % x,
    "__rpow__": lambda x, y: y**x,
    "__rand__": lambda x, y: y & x,
    "__ror__": lambda x, y: y | x,
    "__rxor__": lambda x, y: y ^ x,
    "__rmatmul__": lambda x, y: y @ x,
    "__getitem__": lambda x, key: x[key],
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "float_power": lambda x, y: x.astype("float64") ** y,
    "special.xlog1py": lambda x, y: pyrite.where(x == 0, 0.0, x * (y + 1 - 1).log1p()),
    "special.ndtr": lambda x: x.ndtr(),
    "equal": lambda x, y: (x == y).all() if x.shape == y.shape else pyrite.tensor(False),
    "logical_not": lambda x: x.astype("bool").logical_not(),
    "logical_and": lambda x, y: x.astype("bool").logical_and(y.astype("bool")),
    "logical_or": lambda x, y: x.astype("bool").logical_or(y.astype("bool")),
    "logical_xor": lambda x, y: x.astype("bool").logical_xor(y.astype("bool")),
    "masked_fill": _masked_fill,
    "where": lambda x, condition, y: pyrite.where(condition, x, y),
    "isposinf": lambda x: x == math.inf,
    "isneginf": lambda x: x == -math.inf,
    "item": lambda x: x.item(),
    "conj": pyrite.conj,
    "real": pyrite.real,
    # ---- products ----
    "addbmm": _add_product(lambda x, y: (x @ y).sum(0)),
    "addr": _add_product(lambda x, y: x.outer(y)),
    "vdot": lambda x, y: x.dot(y),
    "inner": lambda x, y: pyrite.tensordot(x, y, (-1, -1)) if x.ndim and y.ndim else x * y,
    "einsum": lambda operands, equation: pyrite.einsum(equation, *operands),
    "tensordot": _tensordot,
    "linalg.multi_dot": lambda parts: _chain(parts),
    "linalg.vecdot": lambda x, y, dim=-1: x.vecdot(
        y, dim - max(x.ndim, y.ndim) if dim >= 0 else dim
    ),
    "linalg.vector_norm": _vector_norm,
    "cross": lambda x, y, dim=None: (
        x.cross(y, dim) if dim is not None
        else _unsupported("dim=None: the first axis of three elements")()
    ),
    "linalg.cross": lambda x, y, dim=-1: x.cross(y, dim),
    # ---- reductions ----
    **{
        name: _reduced(getattr(Tensor, name))
        for name in ("sum", "mean", "nansum", "nanmean", "amax", "amin", "all", "any", "argmax",
                     "argmin", "logsumexp", "count_nonzero")
    },
    "prod": lambda x, dim=None, *, keepdim=False, dtype=None: (
        x.prod(dim if x.ndim else None, keepdims=keepdim, dtype=dtype)
    ),
    **{name: _by_correction(getattr(Tensor, name)) for name in ("var", "std", "var_mean")},
    "std_mean": lambda x, *args, **kw: (
        _by_correction(Tensor.std)(x, *args, **kw),
        _by_correction(Tensor.var_mean)(x, *args, **kw)[1],
    ),
    "max": _extreme(Tensor.max, Tensor.max_dim_with_indices, Tensor.maximum),
    "min": _extreme(Tensor.min, Tensor.min_dim_with_indices, Tensor.minimum),
    "aminmax": lambda x, *, dim=None, keepdim=False: (
        x.amin(dim if x.ndim else None, keepdims=keepdim),
        x.amax(dim if x.ndim else None, keepdims=keepdim),
    ),
    "median": _median,
    "quantile": _quantile,
    "cov": _cov,
    "trace": lambda x: x.trace(),
    **{
        name: _scalar_has_an_axis(getattr(Tensor, name))
        for name in ("cumsum", "cumprod", "logcumsumexp")
    },
    "argsort": _by_axis(Tensor.argsort, "axis", "descending"),
    "kthvalue": _by_axis(Tensor.kthvalue, "k", "axis", "keepdims"),
    "unfold": _scalar_has_an_axis(Tensor.unfold),
    "softmax": _in_dtype(Tensor.softmax),
    "log_softmax": _in_dtype(Tensor.log_softmax),
    "cummax": _scalar_has_an_axis(Tensor.cummax_with_indices),
    "cummin": _scalar_has_an_axis(Tensor.cummin_with_indices),
    f"{_F}softmin": _in_dtype(Tensor.softmin),
    f"{_F}normalize": _normalized,
    "topk": lambda x, k, dim=-1, largest=True, sorted=True: (
        x.topk(k, dim, largest=largest) if x.ndim
        else _unsupported("an axis of a zero-d tensor")()
    ),
    "sort": _sorted,
    "msort": lambda x: x.sort(0),
    "bincount": lambda x, weights=None, minlength=0: x.bincount(weights, minlength=minlength),
    "searchsorted": _searchsorted,
    "bucketize": lambda x, bounds, right=False, **kw: _searchsorted(bounds, x, right=right),
    # ---- movement ----
    "cat": lambda parts, dim=0: (
        pyrite.cat(parts, dim) if len({p.ndim for p in parts}) == 1
        else _unsupported("empty vectors beside tensors of more axes")()
    ),
    "stack": lambda parts, dim=0: pyrite.stack(parts, dim),
    "hstack": pyrite.hstack,
    "vstack": pyrite.vstack,
    "dstack": pyrite.dstack,
    "atleast_1d": _at_least(pyrite.atleast_1d),
    "atleast_2d": _at_least(pyrite.atleast_2d),
    "atleast_3d": _at_least(pyrite.atleast_3d),
    "histogram": _histogram,
    "tensor_split": _tensor_split,
    "cdist": lambda x, y, p=2.0, _mode=None: x.cdist(y, p),
    "unbind": lambda x, dim=0: x.unstack(dim),
    "split": _split,
    "split_with_sizes": _split,
    "unsafe_split": _split,
    "unsafe_chunk": lambda x, chunks, dim=0: x.chunk(chunks, dim),
    "chunk": lambda x, chunks, dim=0: x.chunk(chunks, dim),
    "select": lambda x, dim, index: x.narrow(dim, index % x.shape[dim], 1).squeeze(dim),
    "flip": lambda x, dims: x.flip(tuple(dims)) if len(dims) else x,
    "fliplr": Tensor.fliplr,
    "flipud": Tensor.flipud,
    "repeat": lambda x, repetitions: x.tile(repetitions),
    "repeat_interleave": lambda x, repeats, dim=None, **kw: (
        x.repeat(repeats if isinstance(repeats, int) else repeats.astype("int32"), dim) if x.ndim
        else _unsupported("an axis of a zero-d tensor")()
    ),
    "tile": _tiled,
    "roll": lambda x, shifts, dims=None: x.roll(shifts, None if dims in ((), []) else dims),
    "diag": lambda x, offset=0: x.diagonal(offset, 0, 1) if x.ndim == 2 else x.diag(offset),
    "diagonal": lambda x, offset=0, dim1=0, dim2=1: x.diagonal(offset, dim1, dim2),
    "linalg.diagonal": lambda x, *, offset=0, dim1=-2, dim2=-1: x.diagonal(offset, dim1, dim2),
    "diff": _diff,
    "view": lambda x, shape: x.reshape(shape),
    "view_as": lambda x, y: x.reshape(y.shape),
    "reshape_as": lambda x, y: x.reshape(y.shape),
    "expand_as": lambda x, y: x.expand(y.shape),
    "ravel": lambda x: x.flatten() if x.ndim else x.reshape(1),
    "flatten": lambda x, start_dim=0, end_dim=-1: (
        x.flatten(start_dim, end_dim) if x.ndim else x.reshape(1)
    ),
    "unsqueeze": lambda x, dim: x.unsqueeze(dim),
    "squeeze": lambda x, dim=None: (
        x.squeeze(dim) if dim is None or not isinstance(dim, int) else _squeezed(x, dim)
    ),
    "squeeze/multiple": lambda x, dims: _squeezed(x, *dims),
    "t": lambda x: x.mT if x.ndim == 2 else x,
    "T": lambda x: x.T if x.ndim == 2 else _unsupported("T of other than matrices")(),
    "mT": lambda x: x.mT,
    "transpose": lambda x, a, b: x.transpose(a, b) if x.ndim else x,
    "narrow": lambda x, dim, start, length: (
        x.narrow(dim, start % x.shape[dim] if start < 0 else start, length)
        if isinstance(start, int) else _unsupported("a start that is a tensor")()
    ),
    "broadcast_to": lambda x, shape: x.broadcast_to(shape),
    "broadcast_tensors": lambda *parts: pyrite.broadcast_arrays(*_flat(parts)),
    "meshgrid": _grid,
    "column_stack": pyrite.column_stack,
    "sum_to_size": lambda x, *shape: _summed_to(
        x, shape if isinstance(shape[0], int) else tuple(shape[0])
    ),
    "tril": lambda x, k=0: x.tril(k),
    "triu": lambda x, k=0: x.triu(k),
    "take_along_dim": lambda x, indices, dim=None: (
        pyrite.take_along_axis(x, indices, dim) if dim is not None
        else _unsupported("dim=None")()
    ),
    # ---- indices ----
    "gather": _gathered,
    "scatter": _scattered,
    "scatter_add": lambda x, dim, indices, source: _scattered(
        x, dim, indices, source, reduce="add"
    ),
    "scatter_reduce": _scatter_reduced,
    "index_add": _indexed("add"),
    "index_copy": _copied_index,
    "index_fill": _copied_index,
    "index_select": lambda x, dim, indices: (
        x.index_select(dim, indices if indices.ndim else indices.reshape(1)) if x.ndim
        else _unsupported("an axis of a zero-d tensor")()
    ),
    "take": _take,
    "masked_select": lambda x, mask: pyrite.masked_select(*pyrite.broadcast_arrays(x, mask)),
    "argwhere": lambda x: x.argwhere(),
    "nonzero": lambda x, as_tuple=False: (
        x.argwhere() if not as_tuple
        else x.nonzero() if x.ndim else _unsupported("an axis of a zero-d tensor")()
    ),
    f"{_F}embedding": _embedding,
    f"{_F}embedding_bag": _embedding_bag,
    f"{_F}grid_sample": _grid_sample,
    f"{_F}ctc_loss": _ctc_loss,
    f"{_F}one_hot": _one_hot,
    # ---- activations and norms ----
    f"{_F}hardtanh": _hard_tanh,
    f"{_F}hardsigmoid": lambda x: x.hard_sigmoid(),
    f"{_F}hardswish": lambda x: x.hard_swish(),
    f"{_F}logsigmoid": lambda x: x.log_sigmoid(),
    f"{_F}hardshrink": lambda x, lambd=0.5: x.hard_shrink(lambd),
    f"{_F}softshrink": lambda x, lambd=0.5: x.soft_shrink(lambd),
    f"{_F}softplus": _softplus,
    f"{_F}prelu": lambda x, weight: x.prelu(weight),
    f"{_F}layer_norm": _layer_norm,
    f"{_F}rms_norm": _rms_norm,
    f"{_F}group_norm": _group_norm,
    f"{_F}instance_norm": _instance_norm,
    f"{_F}batch_norm": _batch_norm,
    f"{_F}scaled_dot_product_attention": _attention,
    f"{_F}cosine_similarity": lambda x, y, dim=1, eps=1e-8: (
        x.cosine_similarity(y, dim, eps=eps) if x.shape == y.shape and x.ndim
        else _unsupported("vectors that broadcast, and zero-d ones")()
    ),
    f"{_F}pixel_shuffle": lambda x, upscale_factor: x.pixel_shuffle(upscale_factor),
    f"{_F}pixel_unshuffle": lambda x, downscale_factor: x.pixel_unshuffle(downscale_factor),
    # ---- windows ----
    f"{_F}pad": _padded,
    "constant_pad_nd": lambda x, widths, value=0: _padded(x, widths, "constant", value),
    f"{_F}interpolate": _interpolated,
    f"{_F}upsample_nearest": lambda x, size=None, scale_factor=None: _interpolated(
        x, size, scale_factor=scale_factor
    ),
    f"{_F}upsample_bilinear": lambda x, size=None, scale_factor=None: _interpolated(
        x, size, scale_factor=scale_factor, mode="bilinear", align_corners=True
    ),
    f"{_F}unfold": _unfold,
    **{
        f"{_F}{kind}_pool{n}d": _pool(getattr(Tensor, f"{kind}_pool{n}d"))
        for kind in ("avg", "max") for n in (1, 2, 3)
    },
    **{
        f"{_F}adaptive_{kind}_pool{n}d": _adaptive(getattr(Tensor, f"adaptive_{kind}_pool{n}d"))
        for kind in ("avg", "max") for n in (1, 2, 3)
    },
    **{f"{_F}conv{n}d": _convolved(getattr(Tensor, f"conv{n}d")) for n in (1, 2, 3)},
    **{
        f"{_F}conv_transpose{n}d": _convolved(getattr(Tensor, f"conv_transpose{n}d"))
        for n in (1, 2, 3)
    },
    # ---- losses ----
    f"{_F}cross_entropy": _cross_entropy,
    f"{_F}nll_loss": _nll,
    f"{_F}mse_loss": _loss(nn.MSELoss),
    f"{_F}l1_loss": _loss(nn.L1Loss),
    f"{_F}smooth_l1_loss": _loss(nn.SmoothL1Loss, "beta"),
    f"{_F}huber_loss": _loss(nn.HuberLoss, "delta"),
    f"{_F}kl_div": _loss(nn.KLDivLoss, "log_target"),
    f"{_F}soft_margin_loss": _loss(nn.SoftMarginLoss),
    f"{_F}hinge_embedding_loss": _hinge,
    f"{_F}margin_ranking_loss": _loss(nn.MarginRankingLoss, "margin"),
    f"{_F}multi_margin_loss": _multi_margin,
    f"{_F}cosine_embedding_loss": _loss(nn.CosineEmbeddingLoss, "margin"),
    f"{_F}multilabel_margin_loss": _multilabel,
    f"{_F}gaussian_nll_loss": _loss(nn.GaussianNLLLoss, "full", "eps"),
    f"{_F}poisson_nll_loss": _loss(nn.PoissonNLLLoss, "log_input", "full", "eps"),
    f"{_F}triplet_margin_loss": _loss(nn.TripletMarginLoss, "margin", "p", "eps", "swap"),
    f"{_F}binary_cross_entropy": _loss(nn.BCELoss),
    f"{_F}binary_cross_entropy_with_logits": _loss(nn.BCEWithLogitsLoss),
}  # fmt: skip


#: Entries whose names are Pyrite's too, but whose results no sample can judge, or mean otherwise.
DIFFERENT: dict[str, str] = {
    "uniform": "draws; other generators",
    "normal": "draws; other generators",
    "bernoulli": "draws; other generators",
    "multinomial": "draws; other generators",
    "randint": "draws; other generators",
    "randint_like": "draws; other generators",
    f"{_F}dropout": "draws; other generators",
    f"{_F}alpha_dropout": "draws; other generators",
    f"{_F}feature_alpha_dropout": "draws; other generators",
    "empty": "what memory holds",
    "empty_like": "what memory holds",
    "to": "another meaning: `to` is of devices here, `astype` of dtypes",
    "clone": "the samples are memory formats",
    "sparse.mm": "of sparse tensors only",
    "imag": "of complex numbers only",
    "unique": "the functions of the array API, `unique_values` and others, sorted",
    "split_with_sizes_copy": "`split`: tensors are values, so there are no copies to ask for",
}

#: Arguments that get no gradient: in PyTorch, or because they are numbers here.  By place, the
#: first being 0, or by name.
CONSTANT: dict[str, frozenset[int | str]] = {
    f"{_F}batch_norm": frozenset({1, 2}),
    f"{_F}instance_norm": frozenset({"running_mean", "running_var"}),
    f"{_F}nll_loss": frozenset({"weight"}),
    f"{_F}cross_entropy": frozenset({"weight"}),
    f"{_F}soft_margin_loss": frozenset({1}),
    f"{_F}hinge_embedding_loss": frozenset({1}),
    f"{_F}multi_margin_loss": frozenset({"weight"}),
    "quantile": frozenset({1}),
}

#: Entries of which only the values are compared.
GRADIENTS: dict[str, str] = {
    f"{_F}ctc_loss": "PyTorch's is that of the logits of a log_softmax, ours of what is given",
    "nextafter": "a gradient of 1 in PyTorch, of 0 here, as of other functions of the bits",
}

#: Entries that are written as in PyTorch, but for `SPELLING`.
SAME = frozenset(
    """
    abs acos acosh allclose asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not
    bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min copysign cos cosh
    deg2rad digamma dot erf erfinv exp exp2 expand expm1 floor floor_divide fmod hypot isclose
    isfinite isin isinf isnan kron lerp lgamma log log10 log1p log2 logaddexp matmul maximum
    minimum movedim mul nan_to_num neg nextafter nn.functional.bilinear nn.functional.celu
    nn.functional.elu nn.functional.gelu nn.functional.glu nn.functional.leaky_relu
    nn.functional.linear nn.functional.local_response_norm nn.functional.mish
    nn.functional.pairwise_distance nn.functional.relu nn.functional.relu6 nn.functional.selu
    nn.functional.silu nn.functional.softsign nn.functional.tanhshrink nn.functional.threshold
    addcdiv addcmul addmm addmv baddbmm bmm dist erfc fmax fmin frac heaviside logit mm mv
    unflatten
    outer permute positive pow rad2deg reciprocal remainder reshape rot90 round rsqrt sigmoid sign
    signbit sin sinc sinh sqrt square tan tanh trunc xlogy
    """.split()
)
