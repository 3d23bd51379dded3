"""The Autodiff decorator: reverse mode over the op table.

It overrides one method.  ``run`` executes an op one level down and, where an input is tracked,
notes a `Node`; ``gradients`` walks the nodes backwards and applies each op's derivative to tensors
of the inner backend, so gradients are ops like any others: they fuse, and ``Autodiff(Autodiff(b))``
gives second order.

There is no global tape.  A node is owned by the outputs of its op, so a forward pass without a
backward pass leaves nothing behind.  Invariant: nothing here names an op.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, Literal

from pyrite.autodiff.gradients import Emission, Gradients
from pyrite.autodiff.mode import emission_sink, is_recording
from pyrite.backend.device import Device, DeviceLike, device
from pyrite.backend.protocol import Backend
from pyrite.errors import GradientError
from pyrite.op import (
    Attributes,
    Constant,
    Derivative,
    Handle,
    Op,
    TensorBase,
    Want,
    apply,
    different_devices,
    require_derivative,
)
from pyrite.tensor.creation import full
from pyrite.tensor.parameter import Renewal, State
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, TensorType

Strategy = Literal["none", "balanced"]

_order = itertools.count()


class Autodiff(Backend):
    """A backend that gives another one gradients.

    ``checkpointing="balanced"`` keeps only the results of expensive ops for the backward pass and
    recomputes elementwise ops and views from them (Chen et al. 2016, arXiv:1604.06174, with the cut
    points chosen by op class instead of by layer).
    """

    name = "autodiff"
    inner: Backend

    def __init__(self, inner: Backend, *, checkpointing: Strategy = "none") -> None:
        self.inner = inner
        self.checkpointing = checkpointing
        self._level = inner.level + 1

    @property
    def level(self) -> int:
        """One more than the inner backend's."""
        return self._level

    def keeps(self, op: Op, inputs: Sequence[Handle]) -> bool:
        """Keep a composite that has a derivative, or that nothing tracked enters."""
        return op.derivative is not None or not _is_reached(inputs)

    def run(
        self,
        op: Op,
        inputs: Sequence[Handle],
        attrs: Attributes,
        out: tuple[TensorType, ...] | None,
    ) -> Sequence[Variable]:
        """Execute one op on the inner backend and note it where an input is tracked."""
        values = [i.value if isinstance(i, Variable) else i for i in inputs]
        result = apply(op, values, attrs, out, Tensor, self.inner)
        outputs: tuple[Tensor, ...] = result if isinstance(result, tuple) else (result,)
        if not _is_reached(inputs) or not is_recording(self._level):
            return [Variable(o) for o in outputs]
        node = Node(op, attrs, inputs, outputs, recompute=self._recomputes(op))
        return [
            Variable(o, node if o._type.dtype.kind == "float" else None, index)
            for index, o in enumerate(outputs)
        ]

    def _recomputes(self, op: Op) -> bool:
        return self.checkpointing == "balanced" and op.is_cheap

    # ---- values ----

    def upload(self, array: Array) -> Variable:
        """Return an untracked variable with a copy of the array."""
        handle = self.inner.upload(array)
        return Variable(Tensor(handle, self.inner.type_of(handle), self.inner))

    def adopt(self, array: Array) -> Variable | None:
        """Return an untracked variable that shares the array's memory, where that is possible."""
        handle = self.inner.adopt(array)
        if handle is None:
            return None
        return Variable(Tensor(handle, self.inner.type_of(handle), self.inner))

    def download(self, handle: Variable) -> Array:
        """Return the values as a read-only array."""
        return self.inner.download(handle.value._handle)

    def download_all(self, handles: Sequence[Variable]) -> list[Array]:
        """Return the values of several, by one read of the inner backend."""
        return self.inner.download_all([handle.value._handle for handle in handles])

    async def download_all_async(self, handles: Sequence[Variable]) -> list[Array]:
        """Return what `download_all` returns, while the event loop runs on."""
        return await self.inner.download_all_async([handle.value._handle for handle in handles])

    def type_of(self, handle: Variable) -> TensorType:
        """Return the type of the value."""
        return handle.value._type

    def primitive(self, handle: Variable) -> Any:
        """Return what lies under all decorators."""
        return self.inner.primitive(handle.value._handle)

    def supports(self, type: TensorType) -> bool:
        """Whatever the inner backend supports."""
        return self.inner.supports(type)

    def synchronize(self) -> None:
        """Wait until all submitted work is done."""
        self.inner.synchronize()

    async def synchronize_async(self) -> None:
        """Wait until all submitted work is done, while the event loop runs on."""
        await self.inner.synchronize_async()

    def lift(self, tensor: TensorBase) -> Variable:
        """Return a handle of this level for a tensor of it, or of a lower one as a constant."""
        if tensor._backend is self.inner:
            return Variable(Tensor._wrap(tensor._handle, tensor._type, self.inner))
        if tensor._backend == self:
            own: Variable = tensor._handle
            return own
        if tensor._backend.level >= self._level:
            different_devices(self, tensor._backend)
        handle = self.inner.lift(tensor)
        return Variable(Tensor(handle, tensor._type, self.inner))

    # ---- gradients ----

    def track(self, handle: Variable, key: Any = None) -> Variable:
        """Return a new leaf with the same value."""
        if not handle.value.dtype.is_float:
            name = handle.value.dtype.name
            raise GradientError(
                f"require_grad requires a float dtype, got {name}; cast it with astype"
            )
        return Variable(handle.value, Node.leaf(handle.value._type, key))

    def is_tracked(self, handle: Variable) -> bool:
        """Whether gradients flow to this variable."""
        return handle.node is not None and handle.node.active

    def detach(self, handle: Variable) -> Variable:
        """Return a variable with the same value and no node."""
        return Variable(handle.value)

    def inner_tensor(self, handle: Variable) -> Tensor:
        """Return the value, a tensor of the inner backend."""
        return handle.value

    def emit(self, handle: Variable, states: tuple[State, ...], renewal: Renewal) -> Variable:
        """Return the handle with a renewal of states riding on its graph."""
        emission = Emission(states, lambda *old: tuple(self._lowered(v) for v in renewal(*old)))
        if (sink := emission_sink(self._level)) is not None:
            sink.append(emission)
            return handle
        if not is_recording(self._level):
            return handle
        return Variable(handle.value, Node.passing(handle, emissions=(emission,)))

    def _lowered(self, value: Tensor) -> Tensor:
        inner: Tensor = value._handle.value if value._backend == self else value
        return inner.detach()

    def gradients(self, handle: Variable) -> Gradients:
        """Walk back from a scalar and return what was found."""
        if handle.node is None:
            raise GradientError(
                "backward requires a loss that depends on a tracked tensor, got none; call "
                "require_grad() on a leaf, or use parameters of an autodiff device"
            )
        return _walk(handle)

    def gradients_of(self, handle: Variable, leaves: Container[Node]) -> Gradients:
        """Do the same, and raise GradientError if any other leaf of this level is reached.

        The gradients live one level down, so they would not depend on such a leaf: a derivative of
        them would be silently wrong.
        """
        return _walk(handle, leaves)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Autodiff) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash((Autodiff, self.inner))


def autodiff(where: DeviceLike = None, *, checkpointing: Strategy = "none") -> Device:
    """Return the same device one autodiff level up: ops on its tensors can be differentiated.

    >>> import pyrite
    >>> x = pyrite.tensor(3.0, device=pyrite.autodiff("numpy")).require_grad()
    >>> (x * x).backward()[x].item()
    6.0
    """
    return Device(Autodiff(device(where).backend, checkpointing=checkpointing))


class Variable:
    """Autodiff's handle: a tensor one level down, and the node that made it, if gradients flow."""

    __slots__ = ("index", "node", "value")

    def __init__(self, value: Tensor, node: Node | None = None, index: int = 0) -> None:
        self.value = value
        self.node = node
        self.index = index


class Recomputed:
    """Stands for a value that is not kept: output ``index`` of a node that can run again.

    Without a node it is the one that keeps this: a reference to itself would be a cycle, and its
    inputs would live on until the garbage collector ran.
    """

    __slots__ = ("index", "node")

    def __init__(self, node: Node | None, index: int) -> None:
        self.node = node
        self.index = index


Saved = Any  # Tensor | TensorType | Number | Recomputed | None | tuple of these


class Node:
    """One op that was run, with as much of its inputs and output as its derivative wants.

    ``active`` says that a leaf lies beneath; a node that is not active only carries emissions.
    """

    __slots__ = (
        "active", "attrs", "emissions", "key", "op", "order", "outs", "parents", "replay",
        "run_inputs", "saved", "tracked",
    )  # fmt: skip

    order: int
    op: Op | None
    attrs: Attributes
    parents: tuple[tuple[int, Node, int], ...]
    outs: tuple[TensorType, ...]
    saved: tuple[Saved, ...]
    tracked: tuple[int, ...]
    run_inputs: tuple[Saved, ...] | None
    active: bool
    key: Any
    emissions: tuple[Emission, ...]
    replay: Callable[[], Sequence[Variable]] | None

    def __init__(
        self,
        op: Op | None,
        attrs: Attributes,
        inputs: Sequence[Handle],
        outputs: Sequence[Tensor],
        *,
        recompute: bool = False,
    ) -> None:
        self.order = next(_order)
        self.op = op
        self.attrs = attrs
        self.outs = tuple([o._type for o in outputs])
        self.key = self.replay = self.run_inputs = None
        self.emissions = self.saved = ()
        derivative = None if op is None else op.derivative
        parents, tracked = [], []
        for position, i in enumerate(inputs):
            if i.__class__ is Variable and (node := i.node) is not None:
                parents.append((position, node, i.index))
                if node.active and (derivative is None or derivative.reaches(position)):
                    tracked.append(position)
        self.parents = tuple(parents)
        self.tracked = tuple(tracked)
        self.active = bool(tracked)
        if derivative is not None and tracked:
            if recompute:
                self.run_inputs = tuple([_kept(i) for i in inputs])
            self.saved = self._save(derivative, inputs, outputs)

    @classmethod
    def leaf(cls, type: TensorType, key: Any) -> Node:
        """Return the node of a tensor to which gradients flow and end."""
        node = cls(None, {}, (), ())
        node.outs = (type,)
        node.key = key
        node.active = True
        return node

    @classmethod
    def passing(cls, handle: Variable, emissions: tuple[Emission, ...]) -> Node:
        """Return a node that hands cotangents on unchanged and carries emissions."""
        node = cls(None, {}, (handle,), (handle.value,))
        node.emissions = emissions
        return node

    @classmethod
    def replayed(
        cls,
        replay: Callable[[], Sequence[Variable]],
        outputs: Sequence[Tensor],
        emissions: tuple[Emission, ...],
    ) -> Node:
        """Return the node of a checkpointed computation, which runs again in the backward pass."""
        node = cls(None, {}, (), outputs)
        node.replay = replay
        node.emissions = emissions
        node.active = True
        return node

    @property
    def is_leaf(self) -> bool:
        """Whether gradients end here."""
        return self.op is None and not self.parents and self.replay is None and self.active

    def _save(
        self, derivative: Derivative, inputs: Sequence[Handle], outputs: Sequence[Tensor]
    ) -> tuple[Saved, ...]:
        """Return what the derivative wants of the output, then of each input."""
        wants = derivative.wants(self.tracked, len(inputs))
        kept: list[Saved] = [self._saved_output(wants[0], outputs)]
        for value, want in zip(inputs, wants[1:], strict=True):
            if want == "nothing":
                kept.append(None)
            else:
                kept.append(_kept(value) if want == "value" else _type(value))
        return tuple(kept)

    def _saved_output(self, want: Want, outputs: Sequence[Tensor]) -> Saved:
        if want == "nothing":
            return None
        out: Saved = self.outs
        if want == "value":
            out = outputs
            if self.run_inputs is not None:
                out = tuple(Recomputed(None, i) for i in range(len(outputs)))
        return tuple(out) if len(outputs) > 1 else out[0]


def _is_reached(inputs: Sequence[Handle]) -> bool:
    """Whether there is a node among what was given to an op."""
    for i in inputs:
        if i.__class__ is Variable and i.node is not None:
            return True
    return False


def _kept(value: Any) -> Saved:
    if isinstance(value, Variable):
        node = value.node
        if node is not None and node.run_inputs is not None:
            return Recomputed(node, value.index)
        return value.value
    return value


def _type(value: Any) -> TensorType | None:
    if isinstance(value, Variable):
        return value.value._type
    return value.type if isinstance(value, Constant) else None


# ---- the backward pass ----


#: What a node saves as a rule gets it.
_READY = frozenset({Tensor, TensorType, type(None)})


class _Recomputations:
    """Values that are made again, each held only until its node has been passed."""

    def __init__(self) -> None:
        self._made: dict[Node, tuple[Tensor, ...]] = {}

    def value(self, saved: Saved, of: Node) -> Any:
        """Return what a rule gets for an entry that a node saved."""
        if saved.__class__ in _READY:
            return saved
        if isinstance(saved, Recomputed):
            return self._outputs(saved.node or of)[saved.index]
        if isinstance(saved, tuple):
            return tuple(self.value(s, of) for s in saved)
        return saved.value if isinstance(saved, Constant) else saved

    def passed(self, node: Node) -> None:
        """Forget the outputs of a node: no later step of the walk needs them."""
        self._made.pop(node, None)

    def _outputs(self, node: Node) -> tuple[Tensor, ...]:
        if node not in self._made:
            assert node.run_inputs is not None
            assert node.op is not None
            inputs = [
                i if isinstance(i, Constant) else self.value(i, node) for i in node.run_inputs
            ]
            backend = next(i for i in inputs if isinstance(i, Tensor))._backend
            result = apply(node.op, inputs, node.attrs, node.outs, Tensor, backend)
            self._made[node] = result if isinstance(result, tuple) else (result,)
        return self._made[node]


class _Walk:
    """One backward pass: cotangents of nodes not yet reached, latest node first."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, Node]] = []
        self.cotangents: dict[Node, list[Tensor | None]] = {}
        self.recomputed = _Recomputations()

    def add(self, node: Node, index: int, g: Tensor | None) -> None:
        """Visit a node later, with one more cotangent for one of its outputs."""
        if node not in self.cotangents:
            self.cotangents[node] = [None] * len(node.outs)
            heapq.heappush(self.heap, (-node.order, node))
        if g is not None:
            slots = self.cotangents[node]
            slots[index] = g if (have := slots[index]) is None else have + g

    def nodes(self) -> Iterable[tuple[Node, list[Tensor | None]]]:
        """Give each node once, when all that depends on it has been passed."""
        while self.heap:
            _, node = heapq.heappop(self.heap)
            yield node, self.cotangents.pop(node)
            self.recomputed.passed(node)


def _walk(handle: Variable, leaves: Container[Node] | None = None) -> Gradients:
    assert handle.node is not None
    walk, found = _Walk(), Gradients()
    type, backend = handle.value._type, handle.value._backend
    seed = full(type.shape, 1.0, dtype=type.dtype, device=backend) if handle.node.active else None
    walk.add(handle.node, handle.index, seed)
    for node, cotangents in walk.nodes():
        found.add_emissions(node.emissions)
        if node.is_leaf:
            if leaves is not None and node not in leaves:
                raise GradientError(
                    f"value_and_grad requires the tracked tensors of its own level among its "
                    f"arguments, got another leaf, {node.outs[0]}, from outside; detach it, or "
                    "move the arguments up: x.to(pyrite.autodiff(x.device))"
                )
            if (g := cotangents[0]) is not None:
                found.add(node, node.key, g)
        elif node.replay is not None:
            _replay(walk, node, cotangents)
        else:
            _pass_on(walk, node, cotangents)
    return found


def _pass_on(walk: _Walk, node: Node, cotangents: list[Tensor | None]) -> None:
    """Hand the cotangents of a node's inputs to its parents; others are only visited."""
    by_position: dict[int, Tensor] = {}
    if node.active and (len(cotangents) > 1 or cotangents[0] is not None):
        by_position = _input_cotangents(walk, node, cotangents)
    for position, parent, index in node.parents:
        g = by_position.get(position)
        if g is not None and g._type.shape != (wanted := parent.outs[index]).shape:
            g = _fitted(g, wanted)
        walk.add(parent, index, g)


def _input_cotangents(
    walk: _Walk, node: Node, cotangents: list[Tensor | None]
) -> dict[int, Tensor]:
    g: Any = cotangents[0] if len(cotangents) == 1 else _filled(node, cotangents)
    if g is None:
        return {}
    if node.op is None:
        return {0: g}
    derivative = require_derivative(node.op)
    saved = [walk.recomputed.value(s, node) for s in node.saved]
    return derivative(node.op, g, saved, node.attrs, node.tracked)


def _filled(node: Node, cotangents: list[Tensor | None]) -> tuple[Tensor | None, ...] | None:
    """Replace the missing cotangents of float outputs by zeros; None where all are missing."""
    backend = next((g._backend for g in cotangents if g is not None), None)
    if backend is None:
        return None
    return tuple(
        full(t.shape, 0.0, dtype=t.dtype, device=backend) if g is None and t.dtype.is_float else g
        for g, t in zip(cotangents, node.outs, strict=True)
    )


def _fitted(g: Tensor, wanted: TensorType) -> Tensor:
    """Undo broadcasting: sum over the axes that were added or stretched."""
    extra = g.ndim - wanted.ndim
    stretched = tuple(
        a for a in range(g.ndim) if a < extra or (wanted.shape[a - extra] == 1 != g.shape[a])
    )
    return g.sum(stretched).reshape(wanted.shape)


def _replay(walk: _Walk, node: Node, cotangents: list[Tensor | None]) -> None:
    """Run a checkpointed computation again; its new nodes are the latest, so they come next."""
    assert node.replay is not None
    for variable, g in zip(node.replay(), cotangents, strict=True):
        if variable.node is not None and variable.node.active:
            walk.add(variable.node, variable.index, g)
