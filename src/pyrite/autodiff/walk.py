"""The backward pass: from a scalar through the nodes, latest first, to the leaves."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator
from typing import Any

from pyrite.autodiff.gradients import Gradients
from pyrite.autodiff.node import Applied, Checkpoint, Leaf, Node, Recomputed, Saved, Variable
from pyrite.backend.protocol import Backend
from pyrite.errors import GradientError
from pyrite.op import Constant, apply, require_derivative
from pyrite.tensor.creation import full
from pyrite.tensor.tensor import Tensor
from pyrite.types import TensorType

#: What a node saves as a rule gets it.
_READY = frozenset({Tensor, TensorType, type(None)})

Cotangents = list[Tensor | None]


class Walk:
    """One backward pass: cotangents of nodes not yet reached, latest node first."""

    def __init__(self, backend: Backend) -> None:
        #: Where cotangents live.
        self.backend = backend
        self.found = Gradients()
        self._heap: list[tuple[int, Node]] = []
        self._cotangents: dict[Node, Cotangents] = {}
        #: Outputs that were made again, each held only until its node has been passed.
        self._recomputed: dict[Node, tuple[Tensor, ...]] = {}

    def run(self, start: Variable, leaves: Container[Node] | None = None) -> Gradients:
        """Walk back from a variable that has a node, and return what was found.

        Raises GradientError for a leaf that is none of ``leaves``.
        """
        assert start.node is not None
        type = start.value._type
        seed = None
        if start.node.active:
            seed = full(type.shape, 1.0, dtype=type.dtype, device=self.backend)
        self._add(start.node, start.index, seed)
        for node, cotangents in self._nodes():
            if node.emissions:
                self.found.add_emissions(node.emissions)
            if isinstance(node, Leaf):
                require_own(node, leaves)
                if (g := cotangents[0]) is not None:
                    self.file(node, g)
            elif isinstance(node, Checkpoint):
                self._replay(node, cotangents)
            else:
                self._pass_on(node, cotangents)
        return self.found

    def file(self, leaf: Leaf, g: Tensor) -> None:
        """Note the gradient of a leaf."""
        self.found.add(leaf, leaf.key, g)

    def saved(self, node: Applied) -> list[Any]:
        """Return what a rule gets of what a node saved."""
        return [self._value(saved, node) for saved in node.saved]

    def _value(self, saved: Saved, of: Applied) -> Any:
        if saved.__class__ in _READY:
            return saved
        if isinstance(saved, Recomputed):
            return self._made_again(saved.node or of)[saved.index]
        if isinstance(saved, tuple):
            return tuple(self._value(s, of) for s in saved)
        return saved.value if isinstance(saved, Constant) else saved

    # ---- nodes ----

    def _add(self, node: Node, index: int, g: Tensor | None) -> None:
        """Visit a node later, with one more cotangent for one of its outputs."""
        slots = self._cotangents.get(node)
        if slots is None:
            slots = self._cotangents[node] = [None] * len(node.outs)
            heapq.heappush(self._heap, (-node.order, node))
        if g is not None:
            slots[index] = g if (have := slots[index]) is None else have + g

    def _nodes(self) -> Iterator[tuple[Node, Cotangents]]:
        """Give each node once, when all that depends on it has been passed."""
        while self._heap:
            _, node = heapq.heappop(self._heap)
            yield node, self._cotangents.pop(node)
            self._recomputed.pop(node, None)

    def _pass_on(self, node: Node, cotangents: Cotangents) -> None:
        """Hand the cotangents of a node's inputs to its parents; others are only visited."""
        by_position: dict[int, Tensor] = {}
        if node.active and (len(cotangents) > 1 or cotangents[0] is not None):
            by_position = self._input_cotangents(node, cotangents)
        for position, parent, index in node.parents:
            g = by_position.get(position)
            if g is not None and g._type.shape != (wanted := parent.outs[index]).shape:
                g = _fitted(g, wanted, node)
            self._add(parent, index, g)

    def _input_cotangents(self, node: Node, cotangents: Cotangents) -> dict[int, Tensor]:
        g: Any = cotangents[0] if len(cotangents) == 1 else self._filled(node, cotangents)
        if g is None:
            return {}
        if not isinstance(node, Applied):
            return {0: g}
        derivative = require_derivative(node.op)
        return derivative(node.op, g, self.saved(node), node.plan.attrs, node.tracked)

    def _filled(self, node: Node, cotangents: Cotangents) -> tuple[Tensor | None, ...] | None:
        """Replace the missing cotangents of float outputs by zeros; None where all are missing."""
        if all(g is None for g in cotangents):
            return None
        return tuple(
            full(t.shape, 0.0, dtype=t.dtype, device=self.backend)
            if g is None and t.dtype.is_float
            else g
            for g, t in zip(cotangents, node.outs, strict=True)
        )

    # ---- what was not kept ----

    def _made_again(self, node: Applied) -> tuple[Tensor, ...]:
        found = self._recomputed.get(node)
        if found is None:
            assert node.run_inputs is not None
            inputs = [
                i if isinstance(i, Constant) else self._value(i, node) for i in node.run_inputs
            ]
            result = apply(node.op, inputs, node.plan, Tensor, self.backend)
            found = result if isinstance(result, tuple) else (result,)
            self._recomputed[node] = found
        return found

    def _replay(self, node: Checkpoint, cotangents: Cotangents) -> None:
        """Run a computation again; its new nodes are the latest, so they come next."""
        for variable, g in zip(node.replay(), cotangents, strict=True):
            if variable.node is not None and variable.node.active:
                self._add(variable.node, variable.index, g)


def require_own(leaf: Leaf, leaves: Container[Node] | None) -> None:
    """Raise GradientError for a leaf that is not among those whose gradients were asked for."""
    if leaves is not None and leaf not in leaves:
        raise GradientError(
            f"value_and_grad requires the tracked tensors of its own level among its "
            f"arguments, got another leaf, {leaf.outs[0]}, from outside; detach it, or "
            "move the arguments up: x.to(pyrite.autodiff(x.device))"
        )


def _fitted(g: Tensor, wanted: TensorType, node: Node) -> Tensor:
    """Undo broadcasting: sum over the axes that were added or stretched.

    Raises GradientError for a cotangent of a shape that does not come of it.
    """
    extra = g.ndim - wanted.ndim
    sizes = zip(g.shape[max(extra, 0) :], wanted.shape, strict=False)
    if extra < 0 or any(size != of and of != 1 for size, of in sizes):
        name = node.op.name if isinstance(node, Applied) else "a computation"
        raise GradientError(
            f"{name} requires its vjp to return a cotangent of its input's shape {wanted.shape}, "
            f"or one that broadcasting made of it, got {g.shape}"
        )
    stretched = tuple(
        a for a in range(g.ndim) if a < extra or (wanted.shape[a - extra] == 1 != g.shape[a])
    )
    return g.sum(stretched).reshape(wanted.shape)
