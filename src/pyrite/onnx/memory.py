"""What a model computes on the host, kept by the shapes that it was called with.

Arrays of the host come of weights and of shapes, so a second call with the same shapes needs none
of that again, and the tensors made of them stay as they are.  Where data or chance has a say, as in
`NonZero` or a condition that was read, nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyrite.onnx.graph import Graph, Node
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array

#: Shapes that are remembered.  Past that, all is forgotten: such a caller has new ones each time.
SIGNATURES = 64

#: Ops whose results are of other shapes, or come another number of times, for other data; and
#: those whose results are random, wherever they run.
_BY_DATA = {
    "Compress", "Loop", "NonMaxSuppression", "NonZero", "Scan", "SequenceMap", "Unique",
    "Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike",
}  # fmt: skip


def _varies(node: Node) -> bool:
    may_train = node.op == "Dropout" and len(node.inputs) > 2
    return may_train or node.op in _BY_DATA


class HostMemory:
    """A memory that a frozen module may have, because what it holds never changes."""

    def __init__(self, graph: Graph, arrays: Iterable[Array]) -> None:
        #: By the shapes of inputs: what is left to run, and the arrays that it holds.
        self._programs: dict[Any, tuple[Any, tuple[Any, ...]]] = {}
        self._tensors: dict[Any, dict[int, Tensor]] = {}
        #: Arrays that live as long as this, by id.
        self._arrays = {id(array): array for array in arrays}
        self._keeps = not any(_varies(node) for _, node in graph.walk())

    def signature(self, inputs: Sequence[Any]) -> Any:
        """Return the shapes of inputs; None where more than shapes decides."""
        if not self._keeps or not all(isinstance(value, Tensor) for value in inputs):
            return None
        return tuple(value.shape for value in inputs)

    def program(self, signature: Any) -> Any:
        """Return what is left to run for a signature, if that is known."""
        found = self._programs.get(signature)
        return found and found[0]

    def keep(self, signature: Any, program: Any, arrays: Iterable[Any]) -> None:
        """Remember what is left to run for a signature, and the arrays that it holds."""
        if len(self._programs) >= SIGNATURES:
            for _, held in self._programs.values():
                self._forget(held)
            self._programs.clear()
        held = tuple(arrays)
        self._arrays.update({id(array): array for array in held})
        self._programs[signature] = program, held

    def holds(self, array: Any) -> bool:
        """Whether an array lives as long as this."""
        return id(array) in self._arrays

    def tensors(self, root: Any) -> dict[int, Tensor]:
        """Return tensors of a backend by the ids of the arrays that they were made of.

        A tracer's are kept for one run: they are of no use after it, and would keep it alive.
        """
        return {} if root.level else self._tensors.setdefault(root, {})

    def _forget(self, held: Sequence[Any]) -> None:
        for array in held:
            self._arrays.pop(id(array), None)
            for tensors in self._tensors.values():
                tensors.pop(id(array), None)
