"""Where in the generated module things lie: paths of layers and weights, from names of the file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pyrite.nn.module import Module
from pyrite.onnx.graph import Graph, Node
from pyrite.onnx.naming import identifier, paths
from pyrite.onnx.python.step import Scope

#: Names that exporters make up for weights that lost theirs: ``onnx::MatMul_12``, ``val_67``.
_MADE_UP = re.compile(r"^(onnx[._]|val_?\d|_?\d|[A-Za-z]+_\d+$|constant)", re.ASCII)

#: The ends of weights' names that say what they are in their layer.
_ENDS = re.compile(
    r"[._]?(weights?|bias(es)?|kernel|gamma|beta|scale|shift|running_mean|running_var"
    r"|moving_mean|moving_variance|mean|var|variance|riv|rm|[wWbBsS])([._]?\d+)?$"
)

#: How a layer is called that no name tells of.
_PLAIN = {"Conv": "conv", "Batch": "norm", "Layer": "norm", "Group": "norm", "RMS": "norm",
          "Linear": "linear", "Embedding": "embedding", "Instance": "norm"}  # fmt: skip


class Scopes:
    """The paths of a graph's modules, layers and weights."""

    def __init__(self, graph: Graph) -> None:
        graphs = list(graph.graphs())
        weights = [(name, w.key) for each in graphs for name, w in each.weights.items()]
        found = _rooted(paths(dict.fromkeys(key for _, key in weights)))
        self._paths = {key: _without_root(path) for key, path in found.items()}
        uses = Counter(n for each in graphs for node in each.nodes for n in node.inputs)
        self._shared = {key for name, key in weights if uses[name] > 1}
        inner = (path for path in self._paths.values())
        self._modules = {path[:end] for path in inner for end in range(len(path))}
        self._plain: Counter[Scope] = Counter()
        self._layers: dict[tuple[str, ...], Scope] = {}

    def of_weight(self, key: str) -> Scope:
        """Return the path of a weight that no layer holds."""
        return legal(self._paths[key])

    def of_node(self, node: Node) -> Scope | None:
        """Return the path of the module that a node is in; None where nothing says it."""
        return None if node.scope is None else legal(self._resolved(node.scope))

    def _resolved(self, parts: Sequence[str]) -> Scope:
        """Return the path of a module whose parts may be paths themselves.

        A part ``layer1.0`` within ``layer1`` is its item 0, or that of a list of the same name in
        it: the paths of weights tell.
        """
        path: Scope = ()
        for part in parts:
            inner = tuple(filter(None, part.split(".")))
            whole = (*path, *inner)
            is_repeated = len(inner) > 1 and bool(path) and path[-len(inner[:-1]) :] == inner[:-1]
            path = (*path, inner[-1]) if is_repeated and whole not in self._modules else whole
        return path

    def of_layer(self, node: Node, keys: Sequence[str], name: str) -> Scope:
        """Return the path of a layer: from its weights' names, else from where its node is."""
        identity = (*keys, name)
        if identity not in self._layers or self._is_other(node, self._layers[identity]):
            self._layers[identity] = self._path(node, keys, name)
        return self._layers[identity]

    def another(self, path: Scope) -> Scope:
        """Return a path beside one that is taken."""
        self._plain[path] += 1
        return (*path[:-1], f"{path[-1]}_{self._plain[path] + 1}")

    def _is_other(self, node: Node, path: Scope) -> bool:
        """Whether a node is of another layer with equal weights, which its exporter joined."""
        scope = legal(self._resolved(node.scope or ()))
        return bool(scope) and scope != path and scope[-1] == path[-1]

    def _again(self, scope: Scope) -> Scope:
        """Return the path of a module that is called again, where its name has a number added."""
        return (*scope[:-1], re.sub(r"_\d+$", "", scope[-1]))

    def _path(self, node: Node, keys: Sequence[str], name: str) -> Scope:
        scope = legal(self._resolved(node.scope or ()))
        for key in keys:
            path = self._paths[key]
            end = _ENDS.sub("", ".".join(path))
            is_told = end and end != ".".join(path) and not _MADE_UP.match(".".join(path))
            found = legal(tuple(end.split("."))) if is_told else ()
            is_own = key not in self._shared or not scope or scope == found
            if found and (is_own or self._again(scope) == found):
                return found
        if scope and not any(scope == known for known in self._layers.values()):
            return scope
        plain = next((p for start, p in _PLAIN.items() if name.startswith(start)), name.lower())
        self._plain[(*scope, plain)] += 1
        return (*scope, f"{plain}{self._plain[*scope, plain]}")


def legal(path: Iterable[str]) -> Scope:
    """Return a path whose parts are numbers, or names that a module may have."""
    return tuple(part if part.isdecimal() and part.isascii() else _attribute(part) for part in path)


def _attribute(name: str) -> str:
    found = identifier(name)
    # A name that begins with a line is private: a module does not save it.
    found = f"layer{found.lstrip('_')}" if found.startswith("_") else found
    return f"{found}_" if hasattr(Module, found) else found


def _rooted(found: Mapping[str, str]) -> dict[str, Scope]:
    return {key: tuple(path.split(".")) for key, path in found.items()}


def _without_root(path: Scope) -> Scope:
    """Return a path without the device that a framework put before it: ``gpu_0.conv1_w_0``."""
    return path[1:] if len(path) > 1 and re.fullmatch(r"gpu_\d+", path[0]) else path
