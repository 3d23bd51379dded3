"""Branches and loops: If, Loop and Scan as Python's ``if``, ``for`` and ``while``.

A condition and a count are read where they are tensors, as the graph's are.  The variables of a
loop are tensors; the number of a round is an integer of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from pyrite.onnx.graph import Graph, Node, ValueType
from pyrite.onnx.python.code import Anchor, Code, call, code, listed, literal, local
from pyrite.onnx.python.code import pyrite as named
from pyrite.onnx.python.draft import Draft
from pyrite.onnx.python.step import Mark, Step, block, together
from pyrite.onnx.python.translation import translate
from pyrite.onnx.python.use import CONTROLS, NodeUse
from pyrite.onnx.python.value import (
    INTEGER,
    TENSOR,
    TENSORS,
    UNKNOWN,
    Fixed,
    Kind,
    Size,
    Sizes,
    Value,
    Variable,
)

#: A count from which on a loop is one without a count: exporters write the largest integer.
_ENDLESS = 2**31 - 1


def controls(op: str) -> Callable[[Callable[[NodeUse], None]], Callable[[NodeUse], None]]:
    """Return a decorator that files a function as the writer of an op with bodies."""

    def file(function: Callable[[NodeUse], None]) -> Callable[[NodeUse], None]:
        CONTROLS[op] = function
        return function

    return file


def _plain(x: str) -> Code:
    return Code((x,))


# ---- values that statements give ----


def _kind(value: Value | None, of: ValueType) -> Kind:
    """Return what a variable holds that is given a value, by what the file says of it."""
    is_unsaid = of.element is None and of.kind == "tensor"
    is_other = value is None or (isinstance(value, Variable) and value.kind != TENSOR)
    return UNKNOWN if of.kind != "tensor" or (is_unsaid and is_other) else TENSOR


def _given(draft: Draft, value: Value | None, kind: Kind) -> Code:
    """Return a value for a variable of a kind; what makes it a tensor is written before."""
    return draft.tensor(value) if kind == TENSOR else draft.plain(value)


def _set(targets: Sequence[str], codes: Sequence[Code], kinds: Sequence[Kind]) -> Step:
    return Step(tuple(targets), together(codes), kinds=tuple(kinds), mark="set")


def _finish(
    use: NodeUse, steps: Sequence[Step], targets: dict[str, str], kinds: Sequence[Kind]
) -> None:
    """File a block; ``targets`` are its variables by the outputs of its node."""
    draft = use.draft
    scope = draft.scopes.of_node(use.node)
    draft.steps.append(block(steps, list(targets.values()), kinds, scope))
    for (output, target), kind in zip(targets.items(), kinds, strict=True):
        draft.values[output] = Variable(local(target), kind)


# ---- branches ----


@controls("If")
def branch(use: NodeUse) -> None:
    """Write an if; of a condition that the file decides, the body that it decides for."""
    bodies = [use.attribute("then_branch"), use.attribute("else_branch")]
    if any(len(body.outputs) != len(use.node.outputs) for body in bodies):
        use.draft.refuse(use.node, "its bodies do not give what it does")
        return
    condition, draft = use.value(0), use.draft
    if isinstance(condition, Fixed):
        chosen = bodies[0] if bool(condition.array.reshape(-1)[0]) else bodies[1]
        translate(chosen, draft)
        values = (draft.values[name] for name in chosen.outputs)
        draft.values.update(zip(use.node.outputs, values, strict=True))
        return
    wanted = [i for i in range(len(use.node.outputs)) if use.has_output(i)]
    sides: list[list[Step]] = [[], []]
    for steps, body in zip(sides, bodies, strict=True):
        with draft.block(steps):
            translate(body, draft)
    targets = {use.node.outputs[i]: use.node.outputs[i] for i in wanted}
    kinds = [_kind_of_both(draft, bodies, use.node, i) for i in wanted]
    for steps, body in zip(sides, bodies, strict=True):
        with draft.block(steps):
            for i, kind in zip(wanted, kinds, strict=True):
                made = _given(draft, draft.values[body.outputs[i]], kind)
                steps.append(_set([use.node.outputs[i]], [made], [kind]))
    head = Step(tuple(targets), draft.plain(condition), None, tuple(kinds), mark="if")
    turn, end = Step((), Code(()), kinds=(), mark="else"), Step((), Code(()), kinds=(), mark="end")
    _finish(use, [head, *sides[0], turn, *sides[1], end], targets, kinds)


def _kind_of_both(draft: Draft, bodies: Sequence[Graph], node: Node, i: int) -> Kind:
    """Return what the variable of a branch's output holds, which both bodies give."""
    of = node.output_types[i] if i < len(node.output_types) else ValueType()
    kinds = {_kind(draft.values[body.outputs[i]], of) for body in bodies}
    return kinds.pop() if len(kinds) == 1 else UNKNOWN


# ---- loops ----


@dataclass(frozen=True, slots=True)
class Rounds:
    """How a loop goes round: what a round is given, and over what it goes."""

    variables: tuple[str, ...]
    kinds: tuple[Kind, ...]
    #: None for a loop without an end of its own.
    over: Code | None
    #: Whether there is at least one.
    is_some: bool = False


@dataclass(frozen=True, slots=True)
class Stack:
    """An output of all rounds, along an axis of the result."""

    output: str
    value: str
    axis: int = 0
    is_reversed: bool = False


@controls("Loop")
def loop(use: NodeUse) -> None:
    """Write a for over a range, or a while."""
    body: Graph = use.attribute("body")
    draft = use.draft
    held = len(use) - 2
    if not _fits(use.node, body, len(body.inputs) - 2, held, len(body.outputs) - 1):
        draft.refuse(use.node, "its body is not one of its operands and outputs")
        return
    number, going = body.inputs[:2]
    # A body runs only where its condition is true.
    draft.values[number] = Sizes((Size(local(number)),), is_vector=False)
    draft.values[going] = Fixed(np.array(True))
    rounds = _rounds(use, number)
    stacks = [
        Stack(output, value)
        for output, value in zip(use.node.outputs[held:], body.outputs[1 + held :], strict=False)
    ]
    _written(use, body, rounds, use.values[2:], body.inputs[2:], body.outputs[1:], stacks,
             body.outputs[0])  # fmt: skip


def _fits(node: Node, body: Graph, inputs: int, held: int, outputs: int) -> bool:
    """Whether a body has as many inputs and outputs as the operands of its loop ask for."""
    return 0 <= held == inputs and held <= outputs >= len(node.outputs) and bool(body.outputs)


def _rounds(use: NodeUse, number: str) -> Rounds:
    """Return the rounds of a Loop: none where its condition is false from the first."""
    count, first = use.value(0), use.value(1)
    known = int(count.array.reshape(-1)[0]) if isinstance(count, Fixed) else None
    is_endless = count is None or (known is not None and known >= _ENDLESS)
    is_off = isinstance(first, Fixed) and not bool(first.array.reshape(-1)[0])
    is_open = isinstance(first, Variable)
    is_read = number in {name for node in use.attribute("body").nodes for name in node.uses}
    if is_endless and not is_off and not is_open and not is_read:
        return Rounds((), (), None, is_some=True)
    if is_off or is_endless or known is not None:
        times = _plain("0" if is_off else "2**63 - 1" if is_endless else str(max(known or 0, 0)))
    else:
        times = _integer(use.draft.plain(count), count)
    if is_open:
        times = code("{} if {} else 0", times, use.draft.plain(first))
    is_some = not is_off and not is_open and (is_endless or (known or 0) > 0)
    return Rounds((number,), (INTEGER,), call(_plain("range"), times), is_some)


def _integer(x: Code, value: Value | None) -> Code:
    return x if isinstance(value, Sizes) else call(_plain("int"), x)


def _written(
    use: NodeUse,
    body: Graph,
    rounds: Rounds,
    initial: Sequence[Value | None],
    inner: Sequence[str],
    outputs: Sequence[str],
    stacks: Sequence[Stack],
    going: str = "",
) -> None:
    """Write a loop: its variables before, its rounds, its stacked outputs after."""
    draft, node = use.draft, use.node
    kinds = [_kind(v, body.types.get(n, ValueType())) for v, n in zip(initial, inner, strict=True)]
    targets = [n or i for n, i in zip(node.outputs, inner, strict=False)]
    steps: list[Step] = []
    with draft.block(steps):
        for target, value, name, kind in zip(targets, initial, inner, kinds, strict=True):
            steps.append(_set([target], [_given(draft, value, kind)], [kind]))
            draft.values[name] = Variable(local(target), kind)
    stacks = [each for each in stacks if each.output in draft.read]
    steps += [_set([_list(each)], [listed([], "[]")], [TENSORS]) for each in stacks]
    mark: Mark = "while" if rounds.over is None else "for"
    steps.append(Step(rounds.variables, rounds.over or Code(()), kinds=rounds.kinds, mark=mark))
    with draft.block(steps):
        translate(body, draft)
        goes_on = _condition(draft, going) if going else None
        for each in stacks:
            item = draft.tensor(draft.values[each.value])
            made = code("{}.append({})", local(_list(each)), item)
            steps.append(Step((), made, kinds=(), mark="do"))
        _carry(draft, targets, outputs, kinds)
    if goes_on is not None:
        steps.append(Step((), goes_on, kinds=(), mark="unless"))
    elif rounds.over is None:
        draft.refuse(node, "it has no end")
        return
    steps.append(Step((), Code(()), kinds=(), mark="end"))
    for each in stacks:
        made = _stacked(each, body.types.get(each.value, ValueType()), rounds.is_some)
        steps.append(Step((each.output,), made))
    whole = dict(zip(node.outputs, targets, strict=False))
    whole = {o: t for o, t in whole.items() if o} | {each.output: each.output for each in stacks}
    by_target = dict(zip(targets, kinds, strict=True))
    _finish(use, steps, whole, [by_target.get(t, TENSOR) for t in whole.values()])


def _condition(draft: Draft, name: str) -> Code | None:
    """Return whether a loop goes on, as a variable of its own; None if it always does."""
    value = draft.values[name]
    if isinstance(value, Fixed):
        return None if bool(value.array.reshape(-1)[0]) else _plain("False")
    # Variables that it is made of may get their next values before it is asked for.
    target = f"{name}:going"
    draft.steps.append(Step((target,), draft.plain(value), None, (UNKNOWN,), "going"))
    return local(target)


def _carry(
    draft: Draft, targets: Sequence[str], outputs: Sequence[str], kinds: Sequence[Kind]
) -> None:
    """Give the variables of a loop their values for the next round, all at once."""
    changed = [
        (target, _given(draft, draft.values[name], kind), kind)
        for target, name, kind in zip(targets, outputs, kinds, strict=False)
        if draft.values[name] != Variable(local(target), kind)
    ]
    if changed:
        draft.steps.append(_set(*zip(*changed, strict=True)))


def _list(stack: Stack) -> str:
    return f"{stack.output}:list"


def _stacked(stack: Stack, of: ValueType, is_some: bool) -> Code:
    """Return the values of all rounds as one tensor; of none, one without elements."""
    items = local(_list(stack))
    turned = code("{}[::-1]", items) if stack.is_reversed else items
    axis = [literal(stack.axis)] if stack.axis else []
    made = call(named("stack"), turned, *axis)
    if is_some:
        return made
    sizes = [size if isinstance(size, int) else 0 for size in of.shape or ()]
    sizes.insert(stack.axis % (len(sizes) + 1), 0)
    carrier = of.element.carrier if of.element else None
    options = {"dtype": named(carrier.name)} if carrier and carrier.name != "float32" else {}
    none = call(named("zeros"), literal(tuple(sizes)), **options, device=Code((Anchor(),)))
    return code("{} if {} else {}", made, items, none, binds=-1)


@controls("Scan")
def scan(use: NodeUse) -> None:
    """Write a for over the slices of tensors."""
    if use.node.version < 9:
        _scan_8(use)
        return
    body: Graph = use.attribute("body")
    count = use.attribute("num_scan_inputs")
    held = len(use) - count
    is_whole = 0 < count <= len(use) and len(body.inputs) == len(use)
    if not is_whole or not _fits(use.node, body, held, held, len(body.outputs)):
        use.draft.refuse(use.node, "its body is not one of its operands and outputs")
        return
    axes = use.attribute("scan_input_axes") or (0,) * count
    backwards = use.attribute("scan_input_directions") or (0,) * count
    slices = [
        _slices(use.tensor(held + i), axis, bool(back))
        for i, (axis, back) in enumerate(zip(axes, backwards, strict=True))
    ]
    strict = {"strict": _plain("True")}
    over = slices[0] if count == 1 else call(_plain("zip"), *slices, **strict)
    sizes = [use.shape(held + i) for i in range(count)]
    is_some = any(s is not None and _is_some(s[a]) for s, a in zip(sizes, axes, strict=True))
    names = body.inputs[held:]
    for name in names:
        use.draft.values[name] = Variable(local(name))
    rounds = Rounds(names, (TENSOR,) * count, over, is_some)
    outs = use.node.outputs[held:]
    stacks = [
        Stack(output, value, axis, bool(back))
        for output, value, axis, back in zip(
            outs, body.outputs[held:], use.attribute("scan_output_axes") or (0,) * len(outs),
            use.attribute("scan_output_directions") or (0,) * len(outs), strict=True,
        )
    ]  # fmt: skip
    _written(use, body, rounds, use.values[:held], body.inputs[:held], body.outputs[:held], stacks)


def _is_some(size: int | str | None) -> bool:
    return isinstance(size, int) and size > 0


def _slices(x: Code, axis: int, backwards: bool) -> Code:
    pieces = call(code("{}.unstack", x), literal(axis)) if axis else x
    if not backwards:
        return pieces
    pieces = pieces if axis else call(code("{}.unstack", x))
    return call(_plain("reversed"), pieces)


def _scan_8(use: NodeUse) -> None:
    """Write a Scan of opset 8, whose operands have an axis for the batch before all others.

    It is one of opset 9 within another that goes over the batch.
    """
    node = use.node
    if use.has(0):
        use.draft.refuse(node, "lengths of sequences cannot be written as Python")
        return
    inputs = tuple(f"{name}:row{i}" for i, name in enumerate(node.inputs[1:]))
    outputs = tuple(f"{name}:row" for name in node.outputs)
    attributes = {**node.attributes, "scan_input_directions": node.attributes.get("directions", ())}
    attributes.pop("directions", None)
    inner = replace(
        node, version=9, inputs=inputs, outputs=outputs, attributes=MappingProxyType(attributes),
        input_types=tuple(map(_row, node.input_types[1:])),
        output_types=tuple(map(_row, node.output_types)),
    )  # fmt: skip
    types = dict(zip((*inputs, *outputs), (*inner.input_types, *inner.output_types), strict=False))
    body = Graph("", inputs, outputs, (inner,), {}, types)
    outer = MappingProxyType({"body": body, "num_scan_inputs": len(inputs)})
    draft = use.draft
    draft.read.update(n for n, o in zip(outputs, node.outputs, strict=True)
                            if o in draft.read)  # fmt: skip
    scan(NodeUse(replace(node, version=9, inputs=node.inputs[1:], input_types=node.input_types[1:],
                     attributes=outer), use.values[1:], use.kinds[1:], draft))  # fmt: skip


def _row(of: ValueType) -> ValueType:
    return of if of.shape is None else replace(of, shape=of.shape[1:])
