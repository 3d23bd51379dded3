"""Outputs of layers, kept while a model runs: what hooks are for elsewhere.

A layer is known by its path from the model.  A model that runs inside ``value_and_grad`` is another
object with the same parameters: it is known by their ids.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import Any

from pyrite.errors import ModuleError
from pyrite.op import located
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_leaves, tree_map

#: What looks on in this context, outermost first.
observers: ContextVar[tuple[Activations, ...]] = ContextVar("pyrite_observers", default=())


class Activations(Mapping[str, Any]):
    """The outputs of some layers of a model by path: ``seen["h.0.mlp"]``, of its last call."""

    def __init__(self, model: Any, paths: Sequence[str]) -> None:
        self._model = model
        self._ids = _ids(model)
        self._level = max((t._backend.level for t in tree_leaves(model)), default=None)
        self._paths = frozenset(paths)
        self._calls: dict[str, list[Any]] = {}
        # Weakly, for each step of a training has a model of its own.
        self._known: dict[int, tuple[weakref.ref[Any], dict[int, str]]] = {}

    def calls(self, path: str) -> tuple[Any, ...]:
        """Return the outputs of all calls of a layer, in their order."""
        return tuple(self._calls.get(path, ()))

    def __getitem__(self, path: str) -> Any:
        if path not in self._calls:
            seen = ", ".join(self._calls) or "none"
            raise KeyError(f"{path!r}, which was not called; called were {seen}")
        return self._calls[path][-1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def __repr__(self) -> str:
        return f"Activations({', '.join(self._calls)})"

    def observe(self, trail: Sequence[Any], output: Any) -> None:
        """Keep the output of the innermost module of a trail, if it is a chosen one's."""
        for module in reversed(trail):
            paths = self._paths_of(module)
            if paths:
                path = paths.get(id(trail[0]))
                if path is not None:
                    self._calls.setdefault(path, []).append(tree_map(self._lowered, output))
                return

    def _paths_of(self, module: Any) -> dict[int, str]:
        """Return the chosen paths by the ids of the modules there; {} for what is another model."""
        known = self._known.get(id(module))
        if known is None or known[0]() is not module:
            paths: dict[int, str] = {}
            for path, inner in module.named_modules() if self._is_model(module) else ():
                if path in self._paths:
                    paths.setdefault(id(inner), path)
            known = self._known[id(module)] = (weakref.ref(module), paths)
        return known[1]

    def _is_model(self, module: Any) -> bool:
        if module is self._model:
            return True
        is_alike = type(module) is type(self._model) and bool(self._ids)
        return is_alike and _ids(module) == self._ids

    def _lowered(self, t: Tensor) -> Tensor:
        """Return a tensor on the level of the model: no graph outlives ``value_and_grad``."""
        while self._level is not None and t._backend.level > self._level:
            t = t.inner()
        return t


@contextmanager
def activations(model: Any, *patterns: str) -> Iterator[Activations]:
    """Keep the outputs of a model's layers in the block: ``activations(model, "h.*.mlp")``.

    A pattern is that of ``Module.freeze``, of modules; without one, all.  Where the block is inside
    a loss function, gradients flow through what was kept.  Raises ModuleError for a pattern that
    matches no module.

    >>> import pyrite
    >>> from pyrite import nn
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> with pyrite.activations(net, "0", "1") as seen:
    ...     out = net(pyrite.ones((3, 4)))
    >>> {path: output.shape for path, output in seen.items()}
    {'0': (3, 8), '1': (3, 8)}
    """
    seen = Activations(model, _chosen(model, patterns))
    token = observers.set((*observers.get(), seen))
    try:
        yield seen
    finally:
        observers.reset(token)


def _chosen(model: Any, patterns: Sequence[str]) -> list[str]:
    paths = [path for path, _ in model.named_modules() if path]
    for pattern in patterns:
        if not any(fnmatchcase(path, pattern) for path in paths):
            raise located(
                ModuleError(
                    f"activations requires the path of a module of {type(model).__name__}, got "
                    f"{pattern!r}; it has {', '.join(paths[:20])}"
                )
            )
    return [path for path in paths if not patterns or any(fnmatchcase(path, p) for p in patterns)]


def _ids(model: Any) -> tuple[int, ...]:
    return tuple(p.id for p in model.parameters())
