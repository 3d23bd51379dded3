"""The parts of the tape: variables, and the nodes that made them.

There is no global tape.  A node is owned by the outputs of its op, so a forward pass without a
backward pass leaves nothing behind.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from pyrite.autodiff.gradients import Emission
from pyrite.op import Constant, Handle, Op, Plan, Want
from pyrite.tensor.tensor import Tensor
from pyrite.types import TensorType

#: Numbers the nodes in the order in which they are made.
order_of_nodes = itertools.count()
_new = object.__new__

#: Which input, the node that made it, and which output of that node it is.
Parents = tuple[tuple[int, "Node", int], ...]


class Variable:
    """Autodiff's handle: a tensor one level down, and the node that made it, if gradients flow."""

    __slots__ = ("index", "node", "value")

    def __init__(self, value: Tensor, node: Node | None = None, index: int = 0) -> None:
        self.value = value
        self.node = node
        self.index = index


class Node:
    """A node at which cotangents arrive: ``outs`` are the types of what it made.

    ``active`` says that a leaf lies beneath; a node that is not active only carries emissions.
    ``order`` is later for what was made later.
    """

    __slots__ = ("active", "order", "outs", "parents")

    parents: Parents
    outs: tuple[TensorType, ...]
    active: bool
    #: What states emitted on the way.
    emissions: tuple[Emission, ...] = ()

    def __init__(self, outs: tuple[TensorType, ...], parents: Parents, active: bool) -> None:
        self.order = next(order_of_nodes)
        self.outs = outs
        self.parents = parents
        self.active = active


class Leaf(Node):
    """A tensor to which gradients flow and end; ``key`` tells of which parameter it is."""

    __slots__ = ("key",)

    def __init__(self, type: TensorType, key: Any) -> None:
        self.order = next(order_of_nodes)
        self.outs = (type,)
        self.parents = ()
        self.active = True
        self.key = key


class Passing(Node):
    """Hands cotangents on unchanged and carries emissions."""

    __slots__ = ("emissions",)

    def __init__(self, handle: Variable, emissions: tuple[Emission, ...]) -> None:
        node = handle.node
        parents = () if node is None else ((0, node, handle.index),)
        super().__init__((handle.value._type,), parents, node is not None and node.active)
        self.emissions = emissions


class Checkpoint(Node):
    """A computation that kept nothing and runs again in the backward pass."""

    __slots__ = ("emissions", "replay")

    def __init__(
        self,
        replay: Callable[[], Sequence[Variable]],
        outputs: Sequence[Tensor],
        emissions: tuple[Emission, ...],
    ) -> None:
        super().__init__(tuple([o._type for o in outputs]), (), True)
        self.replay = replay
        self.emissions = emissions


class Recomputed:
    """Stands for a value that is not kept: output ``index`` of a node that can run again.

    Without a node it is the one that keeps this: a reference to itself would be a cycle, and its
    inputs would live on until the garbage collector ran.
    """

    __slots__ = ("index", "node")

    def __init__(self, node: Applied | None, index: int) -> None:
        self.node = node
        self.index = index


Saved = Any  # Tensor | TensorType | Number | Recomputed | None | tuple of these


class Applied(Node):
    """One op that was run, with as much of its inputs and output as its derivative wants."""

    __slots__ = ("has_numbers", "op", "plan", "run_inputs", "saved", "tracked")

    op: Op
    plan: Plan
    #: The output, then the inputs, as the derivative's rules get them.
    saved: tuple[Saved, ...]
    #: Positions of the inputs to which gradients flow.
    tracked: tuple[int, ...]
    #: Whether numbers are among what was saved.
    has_numbers: bool
    #: What to run it on again, where its output is not kept.
    run_inputs: tuple[Saved, ...] | None

    def __init__(
        self,
        op: Op,
        plan: Plan,
        inputs: Sequence[Handle],
        outputs: Sequence[Tensor],
        parents: Parents,
        outs: tuple[TensorType, ...] | None,
        *,
        recompute: bool = False,
    ) -> None:
        """Keep what is needed of inputs and outputs; those beyond ``outs`` are residuals."""
        # Not by super(): this is run for every op.
        self.order = next(order_of_nodes)
        self.outs = outs or tuple([o._type for o in outputs])
        self.parents = parents
        self.op = op
        self.plan = plan
        self.run_inputs = None
        self.saved = ()
        self.has_numbers = False
        active = tuple([position for position, node, _ in parents if node.active])
        if op.derivative is None:
            self.tracked = active
            self.active = active != ()
            return
        needs = op.derivative.needs(active, len(inputs))
        self.tracked = needs.tracked
        self.active = needs.tracked != ()
        if not self.active:
            return
        if recompute:
            self.run_inputs = tuple([_kept(i) for i in inputs])
        saved: list[Saved] = [None] * (len(inputs) + 1)
        if needs.output != "nothing":
            saved[0] = self._saved_output(needs.output, outputs)
        for position in needs.values:
            value = inputs[position]
            saved[position + 1] = _kept(value)
            if value.__class__ is Constant:
                self.has_numbers = True
        for position in needs.types:
            saved[position + 1] = type_of(inputs[position])
        self.saved = tuple(saved)

    def _saved_output(self, want: Want, outputs: Sequence[Tensor]) -> Saved:
        out: Saved = self.outs
        if want == "value":
            out = outputs
            if self.run_inputs is not None:
                out = tuple([Recomputed(None, i) for i in range(len(outputs))])
        return tuple(out) if len(outputs) > 1 else out[0]


class Noting:
    """What there is to note of each call of a plan, where leaves lie under the same inputs.

    ``result`` is the type of the one result, and ``floats`` says which of several are floats, which
    machine code notes; both are None where a call is noted by ``Applied`` itself.
    """

    __slots__ = (
        "blank", "floats", "has_numbers", "is_active", "is_float", "outs", "result", "takes_output",
        "tracked", "values",
    )  # fmt: skip

    def __init__(
        self, op: Op, plan: Plan, inputs: Sequence[Handle], active: tuple[int, ...]
    ) -> None:
        self.result: TensorType | None = None
        self.floats: tuple[bool, ...] | None = None
        derivative, outs = op.derivative, plan.out
        if derivative is None or op.residuals is not None or not outs:
            return
        needs = derivative.needs(active, len(inputs))
        self.outs = outs
        floats = tuple([type.dtype.kind == "float" for type in outs])
        if len(outs) == 1:
            self.result = outs[0]
        else:
            self.floats = floats
        self.is_float = any(floats)
        self.tracked = needs.tracked
        self.is_active = needs.tracked != ()
        #: What is saved but for values: the types of a plan's inputs are the same in each call.
        blank: list[Saved] = [None] * (len(inputs) + 1)
        if self.is_active:
            for position in needs.types:
                blank[position + 1] = type_of(inputs[position])
            if needs.output == "type":
                blank[0] = outs if len(outs) > 1 else outs[0]
        self.blank = tuple(blank) if self.is_active else ()
        self.takes_output = self.is_active and needs.output == "value"
        self.values = needs.values if self.is_active else ()
        self.has_numbers = any(inputs[p].__class__ is Constant for p in self.values)

    def noted(
        self, op: Op, plan: Plan, inputs: Sequence[Handle], value: Tensor,
        parents: list[tuple[int, Node, int]],
    ) -> Variable:  # fmt: skip
        """Return the variable of a call's result, with a node as ``Applied`` makes it."""
        # Written for speed: this is run for every op.
        made = _new(Variable)
        made.value = value
        made.index = 0
        made.node = None
        if not self.is_float:
            return made
        node = made.node = _new(Applied)
        node.order = next(order_of_nodes)
        node.outs = self.outs
        node.parents = tuple(parents)
        node.active = self.is_active
        node.op = op
        node.plan = plan
        node.tracked = self.tracked
        node.has_numbers = self.has_numbers
        node.run_inputs = None
        if self.values or self.takes_output:
            saved = [*self.blank]
            if self.takes_output:
                saved[0] = value
            for position in self.values:
                saved[position + 1] = _kept(inputs[position])
            node.saved = tuple(saved)
        else:
            node.saved = self.blank
        return made


def _kept(value: Any) -> Saved:
    if value.__class__ is Variable:
        node = value.node
        if node.__class__ is Applied and node.run_inputs is not None:
            return Recomputed(node, value.index)
        return value.value
    return value


def type_of(value: Any) -> TensorType | None:
    """Return the type of an input of an op, None for one that was not given."""
    if value.__class__ is Variable:
        found: TensorType = value.value._type
        return found
    return value.type if isinstance(value, Constant) else None
