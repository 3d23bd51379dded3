"""Translators of ops that make tensors of sizes, and of those that move elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrite.onnx.python.code import (
    Anchor,
    Code,
    call,
    code,
    listed,
    literal,
    method,
)
from pyrite.onnx.python.code import pyrite as named
from pyrite.onnx.python.sizes import Item, is_tensor
from pyrite.onnx.python.use import NodeUse, Several, translates
from pyrite.onnx.python.value import (
    Fixed,
    Size,
    Sizes,
    Value,
    as_sizes,
    integers,
    size_code,
    size_of,
)

_DEVICE = {"device": Code((Anchor(),))}


# ---- tensors made of sizes ----


@translates("Range")
def range_(use: NodeUse) -> Code | None:
    """Write steps between sizes."""
    bounds = [as_sizes(use.value(i)) for i in range(3)]
    found = [b.items[0] for b in bounds if b is not None and len(b.items) == 1]
    if len(found) != 3 or _element(use) != "int64":
        return None
    start, end, step = found
    given = [end] if (start, step) == (0, 1) else [start, end] if step == 1 else found
    return call(named("arange"), *map(size_code, given), dtype=named("int64"), **_DEVICE)


def _element(use: NodeUse) -> str:
    element = use.type(0).element
    return element.name if element is not None else ""


@translates("ConstantOfShape")
def constant_of_shape(use: NodeUse) -> Code | None:
    """Write a tensor full of one value."""
    sizes, value = as_sizes(use.value(0)), use.attribute("value")
    if sizes is None or not sizes.is_vector:
        return None
    fill = np.zeros(1, np.float32) if value is None else value.read()
    items = listed(map(size_code, sizes.items))
    dtype = named("bool" if fill.dtype == bool else fill.dtype.name)
    return call(named("full"), items, literal(fill.reshape(-1)[0]), dtype=dtype, **_DEVICE)


# ---- movement ----


@translates("Identity")
def identity(use: NodeUse) -> Value | None:
    """Give the operand."""
    return use.value(0)


@translates("Reshape")
def reshape(use: NodeUse) -> Code | None:
    """Write another shape: merged axes as flatten, sizes that stay by the tensor's own."""
    wanted = _wanted(use)
    if wanted is None:
        return None
    x = use.tensor(0)
    old = use.shape(0)
    items = _without_rest(_with_own_sizes(wanted, use.node.inputs[0], old, x), old)
    use.tell([_dimension(item) for item in items])
    merged = _merged(items, old)
    if merged is not None:
        return method(x, "flatten", literal(merged))
    kept = _kept(items, use.node.inputs[0])
    rest = [size_code(item) for item in items[kept:]]
    first = [code(f"*{{}}.shape[:{kept}]", x)] if kept > 1 else []
    rest = rest if kept > 1 else [size_code(item) for item in items]
    return method(x, "reshape", listed([*first, *rest]))


def _wanted(use: NodeUse) -> list[Item] | None:
    """Return the sizes that a node asks for; a 0 that stands for the same axis is resolved."""
    given = as_sizes(use.value(1)) if use.has(1) else None
    if given is None:
        fixed = use.attribute("shape")
        if fixed is None:
            return None
        given = Sizes(tuple(fixed), True)
    items = list(given.items)
    if not use.attribute("allowzero", 0):
        old = use.shape(0)
        for axis, item in enumerate(items):
            if item == 0:
                if old is None or axis >= len(old):
                    return None
                items[axis] = size_of(use.node.inputs[0], axis, old[axis])
    return None if 0 in items and -1 in items else items


def _with_own_sizes(
    items: Sequence[Item], name: str, old: Sequence[int | str | None] | None, x: Code
) -> list[Item]:
    """Return sizes asked of the tensor itself where it has an axis of the same name."""
    found: list[Item] = []
    for item in items:
        own = item.symbol if isinstance(item, Size) else None
        axes = [a for a, s in enumerate(old or ()) if s == own] if own is not None else []
        is_own = bool(axes) and x.locals == [name]
        found.append(size_of(name, axes[0], own) if is_own else item)
    return found


def _without_rest(items: Sequence[Item], old: Sequence[int | str | None] | None) -> Sequence[Item]:
    """Return sizes with a number for what is left, where the other axes say it."""
    if old is None or list(items).count(-1) != 1:
        return items
    left = [size for size in old if isinstance(size, str) or size is None]
    given = [item.symbol for item in items if isinstance(item, Size)]
    old_count, new_count = 1, 1
    for size in old:
        old_count *= size if isinstance(size, int) else 1
    for item in items:
        new_count *= item if isinstance(item, int) and item != -1 else 1
    is_whole = None not in left and sorted(map(str, left)) == sorted(map(str, given))
    if not is_whole or not new_count or not old_count or old_count % new_count:
        return items
    return [old_count // new_count if item == -1 else item for item in items]


def _dimension(item: Item) -> int | str | None:
    if isinstance(item, Size):
        return item.symbol
    return None if item == -1 else item


def _merged(items: Sequence[Item], old: Sequence[int | str | None] | None) -> int | None:
    """Return from which axis on axes are merged into one, if that is what is done."""
    if old is None or not 1 < len(items) < len(old):
        return None
    start = len(items) - 1
    product = _product(old[start:])
    last = items[-1] == -1 or (product is not None and items[-1] == product)
    leading = zip(items[:start], old[:start], strict=True)
    unknown = [item for item in items if item == -1]
    same_size = all(
        (isinstance(i, Size) and i.symbol is not None and i.symbol == s)
        or (isinstance(i, int) and i == s)
        or (i == -1 and items[-1] == product)
        for i, s in leading
    )
    return start if last and same_size and len(unknown) <= 1 else None


def _product(sizes: Sequence[int | str | None]) -> int | None:
    count = 1
    for size in sizes:
        if not isinstance(size, int):
            return None
        count *= size
    return count


def _kept(items: Sequence[Item], name: str) -> int:
    """Return how many first axes keep sizes that only the tensor knows."""
    count = 0
    for axis, item in enumerate(items):
        own = size_of(name, axis, None)
        if not isinstance(item, Size) or not isinstance(own, Size) or item.code != own.code:
            break
        count += 1
    return count


@translates("Flatten")
def flatten(use: NodeUse) -> Code | None:
    """Write axes merged after the first."""
    rank = use.rank(0)
    if use.attribute("axis", 1) != 1 or rank is None or rank < 2:
        return None
    return use.tensor(0) if rank == 2 else method(use.tensor(0), "flatten", literal(1))


@translates("Transpose")
def transpose(use: NodeUse) -> Code | None:
    """Write axes in another order: two that change places as such."""
    order = use.attribute("perm")
    rank = use.rank(0)
    if order is None:
        if rank is None:
            return None
        order = tuple(range(rank))[::-1]
    moved = [axis for axis, source in enumerate(order) if axis != source]
    old = use.shape(0)
    if old is not None:
        use.tell([old[axis] for axis in order])
    if not moved:
        return use.tensor(0)
    if len(moved) == 2:
        first, second = moved
        if second == len(order) - 1 and first == second - 1:
            return code("{}.mT", _atom(use.tensor(0)))
        return method(use.tensor(0), "swapaxes", literal(first), literal(second))
    return method(use.tensor(0), "permute_dims", literal(tuple(order)))


def _atom(x: Code) -> Code:
    return code("{}", x) if x.binds == 7 else code("({})", x)


@translates("Squeeze")
def squeeze(use: NodeUse) -> Code | None:
    """Write axes of size 1 left out."""
    axes = use.integers(1, "axes")
    if not axes:
        return None
    old = use.shape(0)
    if old is not None:
        gone = {axis % len(old) for axis in axes}
        use.tell([size for axis, size in enumerate(old) if axis not in gone])
    return method(use.tensor(0), "squeeze", literal(axes[0] if len(axes) == 1 else tuple(axes)))


@translates("Unsqueeze")
def unsqueeze(use: NodeUse) -> Code | None:
    """Write axes of size 1 put in, at places of the result."""
    axes, rank = use.integers(1, "axes"), use.rank(0)
    if not axes or rank is None:
        return None
    places = sorted(axis % (rank + len(axes)) for axis in axes)
    rest_of = iter(use.shape(0) or ())
    use.tell([1 if a in places else next(rest_of) for a in range(rank + len(axes))])
    x = use.tensor(0)
    if len(places) == 1:
        at = -1 if places[0] == rank else places[0]
        return method(x, "unsqueeze", literal(at))
    index = [code("None" if axis in places else ":") for axis in range(places[-1] + 1)]
    rest = [code("...")] if places[-1] + 1 < rank + len(axes) else []
    return Code((*_indexed(x, [*index, *rest]).parts,))


def _indexed(x: Code, items: Sequence[Code]) -> Code:
    template = "{}[" + ", ".join("{}" for _ in items) + "]"
    return code(template, _atom(x), *items)


@translates("Expand")
def expand(use: NodeUse) -> Code | None:
    """Write x broadcast to a shape, if it has no greater sizes of its own."""
    sizes, old = as_sizes(use.value(1)), use.shape(0)
    if sizes is None or old is None or len(old) > len(sizes.items):
        return None
    wanted = list(sizes.items)
    for place in range(1, len(old) + 1):
        mine, theirs = old[-place], wanted[-place]
        if isinstance(mine, int) and theirs == 1:
            wanted[-place] = mine
            continue
        is_same = mine == theirs if isinstance(theirs, int) else mine == theirs.symbol
        if mine != 1 and not (is_same and mine is not None):
            return None
    return method(use.tensor(0), "broadcast_to", listed(map(size_code, wanted)))


@translates("Concat")
def concat(use: NodeUse) -> Code | None:
    """Write tensors joined along an axis."""
    axis = use.attribute("axis", 1)
    return call(named("concat"), listed(use.tensors(), "[]"), literal(axis))


@translates("Split")
def split(use: NodeUse) -> Several | None:
    """Write pieces along an axis."""
    axis, shape = use.attribute("axis", 0), use.shape(0)
    sizes = use.integers(1, "split")
    count = len(use.node.outputs)
    if sizes is None and not use.has(1) and shape is not None:
        whole = shape[axis]
        if not isinstance(whole, int) or whole % count:
            return None
        sizes = [whole // count] * count
    if not sizes or len(sizes) != count or count < 2 or sum(sizes) == 0:
        return None
    # One size for all pieces is not enough where they do not cover the axis.
    return Several(method(use.tensor(0), "split", literal(sizes), literal(axis)))


@translates("Slice")
def slice_(use: NodeUse) -> Code | None:
    """Write pieces along axes as Python's slices."""
    rank = use.rank(0)
    if rank is None:
        return None
    if use.node.version < 10:
        starts = Sizes(tuple(use.attribute("starts")), True)
        ends = Sizes(tuple(use.attribute("ends")), True)
        axes = list(use.attribute("axes") or range(len(starts.items)))
        steps: list[int] | None = [1] * len(axes)
    else:
        found = [as_sizes(use.value(i)) for i in (1, 2)]
        if found[0] is None or found[1] is None:
            return None
        starts, ends = found[0], found[1]
        at = integers(use.value(3)) if use.has(3) else list(range(len(starts.items)))
        steps = integers(use.value(4)) if use.has(4) else [1] * len(starts.items)
        if at is None:
            return None
        axes = at
    if steps is None or any(step < 1 for step in steps):
        return None
    pieces = ["slice"] * rank
    index = [code(":")] * rank
    for start, end, axis, step in zip(starts.items, ends.items, axes, steps, strict=True):
        index[axis % rank] = _slice(start, end, step)
        pieces[axis % rank] = "given"
    while len(index) > 1 and pieces[len(index) - 1] == "slice":
        index.pop()
    return _indexed(use.tensor(0), index)


#: From here on an end means the end of the axis.
_FAR = 2**31 - 1


def _slice(start: Item, end: Item, step: int) -> Code:
    first = code("") if start == 0 else size_code(start)
    is_open = isinstance(end, int) and end >= _FAR
    last = code("") if is_open else size_code(end)
    is_plain = isinstance(start, int) and isinstance(end, int)
    before = "" if is_plain or not first.parts else " "
    after = "" if is_plain or not last.parts else " "
    tail = f"{after}:{after}{step}" if step != 1 else ""
    return code("{}" + before + ":" + after + "{}" + tail, first, last)


@translates("Gather")
def gather(use: NodeUse) -> Code | None:
    """Write an embedding, an index, or elements taken along an axis."""
    if not is_tensor(use):
        return None
    axis, rank, at = use.attribute("axis", 0), use.rank(0), use.fixed(1)
    if rank is None:
        is_first = at is not None and at.ndim == 0 and axis == 0
        return _indexed(use.tensor(0), [literal(int(at))]) if is_first else None  # type: ignore[arg-type]
    axis %= max(rank, 1)
    size = (use.shape(0) or ())[axis] if rank else None
    if at is not None and at.ndim == 0:
        index = [code(":")] * axis
        use.tell([s for a, s in enumerate(use.shape(0) or ()) if a != axis])
        return _indexed(use.tensor(0), [*index, literal(int(at))])
    weight = use.weight(0)
    held = isinstance(size, int) and weight is not None and rank == 2 and axis == 0
    if held and weight is not None and _is_trained(use) and _counts_from_start(use):
        layer = use.layer("Embedding", {"weight": (weight, None)}, *weight.shape)
        return call(layer, use.tensor(1))
    return None


def _is_trained(use: NodeUse) -> bool:
    weight = use.weight(0)
    return weight is not None and use.draft.members.held[weight.key].role == "parameter"


def _counts_from_start(use: NodeUse) -> bool:
    """Whether the indices are an input, or a part of one: ids, which are not negative."""
    return not isinstance(use.value(1), Fixed)
