"""A graph as patterns see it: what makes each value, how often it is read, and what is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pyrite.onnx.graph import Graph, Node, Weight
from pyrite.types import Array

#: The domain of nodes that patterns make and ONNX has no op for.  No file may name it (`support`).
PATTERN = "pyrite.pattern"

#: The version from which on an op broadcasts as NumPy does, works along one axis, or has
#: no other inputs than it has now.
_PLAIN_SINCE = {"Add": 7, "Sub": 7, "Mul": 7, "Div": 7, "Pow": 7, "Gemm": 7, "Softmax": 13,
                "RNN": 7, "LSTM": 7, "GRU": 7}  # fmt: skip


@dataclass(slots=True)
class GraphView:
    """A graph in which patterns are looked for, with the nodes that were put into it."""

    graph: Graph
    #: Values that the file decides, as arrays of the host.
    constants: Mapping[str, Array]
    #: The weights that nodes may read: of the graph, and for a body of those around it.
    weights: Mapping[str, Weight]
    #: Weights that patterns made.
    made: dict[str, Weight] = field(default_factory=dict)
    _makers: dict[str, Node] = field(default_factory=dict)
    _reads: Counter[str] = field(default_factory=Counter)
    _instead: dict[Node, Node | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.graph.nodes:
            self._makers.update(dict.fromkeys(filter(None, node.outputs), node))
            self._reads.update(filter(None, node.inputs))
            self._reads.update(name for body in node.bodies for name in body.captured)
        self._reads.update(self.graph.outputs)

    def maker(self, name: str, *ops: str) -> Node | None:
        """Return the node of one of some ops that makes a value; of any op if none is named."""
        node = self._makers.get(name)
        return node if node is not None and (not ops or is_one_of(node, ops)) else None

    def reads(self, name: str) -> int:
        """Return how often nodes, bodies and results read a value."""
        return self._reads[name]

    def readers(self, names: set[str]) -> list[Node]:
        """Return the nodes of the graph that read any of some values."""
        return [node for node in self.graph.nodes if not names.isdisjoint(node.uses)]

    def number(self, name: str) -> float | None:
        """Return a value that is one known number: the file decides it, and it is not trained."""
        array, weight = self.constants.get(name), self.weights.get(name)
        if array is None and weight is not None and weight.size == 1:
            is_trained = weight.is_initializer and bool(weight.shape)
            array = None if is_trained else weight.read()
        if array is None or array.size != 1 or array.dtype.kind not in "fiu":
            return None
        return float(array.reshape(-1)[0])

    def weight(self, name: str) -> Weight | None:
        """Return a weight of the file that lies on the device."""
        return None if name in self.constants else self.weights.get(name)

    def hold(self, name: str, weight: Weight) -> None:
        """Add a weight that a pattern made of others."""
        self.made[name] = weight

    def put(self, made: Mapping[Node, Node | None]) -> None:
        """Put nodes in the place of others; None takes one out."""
        self._instead.update(made)
        self._makers.update({n: new for new in made.values() if new for n in new.outputs if n})

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes of the graph with what was put in their place."""
        found = (self._instead.get(node, node) for node in self.graph.nodes)
        return tuple(node for node in found if node is not None)


def is_one_of(node: Node, ops: Collection[str]) -> bool:
    """Whether a node is of one of some ops, in a version that means what newer ones do."""
    is_known = node.domain in ("", PATTERN) and node.op in ops
    return is_known and node.version >= _PLAIN_SINCE.get(node.op, 1)
