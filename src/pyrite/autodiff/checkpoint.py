"""Gradient checkpointing: keep less for the backward pass and run parts of the forward pass again.

`checkpoint` does it for a function of the user's choice; ``checkpointing="balanced"`` of the
Autodiff backend does it for cheap ops everywhere.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from pyrite.autodiff.gradients import Emission
from pyrite.autodiff.mode import collecting_emissions, is_recording, no_grad, recording
from pyrite.autodiff.node import Applied, Checkpoint, Node, Recomputed, Variable
from pyrite.autodiff.tape import Autodiff
from pyrite.tensor.stream import replaying_draws
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_leaves, tree_map

P = ParamSpec("P")
R = TypeVar("R")


def checkpoint(fn: Callable[P, R]) -> Callable[P, R]:
    """Return ``fn``, of which only the inputs are kept: it runs again during the backward pass.

    ``fn`` takes and returns tensors or trees of them, and may use parameters of modules.  Random
    draws repeat exactly, and states (batch norm's running statistics) are emitted once.
    Source: Chen et al. 2016, arXiv:1604.06174.
    """

    @functools.wraps(fn)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        levels = [
            t._backend for t in tree_leaves((args, kwargs, _reached_by(fn))) if t._backend.level
        ]
        backend = max(levels, key=lambda b: b.level, default=None)
        if not isinstance(backend, Autodiff) or not is_recording(backend.level):
            return fn(*args, **kwargs)
        return _run(backend, functools.partial(fn, *args, **kwargs))

    return wrapped


def _reached_by(fn: Callable[..., Any]) -> list[Any]:
    """Return what a function computes with besides its arguments, as far as it shows.

    That is itself where it is a module, the module whose method it is, and what it closes over.
    """
    found = [fn, getattr(fn, "__self__", None)]
    for cell in getattr(fn, "__closure__", None) or ():
        with suppress(ValueError):  # not assigned yet
            found.append(cell.cell_contents)
    return found


def _run(backend: Autodiff, call: Callable[[], R]) -> R:
    level = backend.level
    emissions: list[Emission] = []
    with replaying_draws() as replayed:
        context = contextvars.copy_context()
        with no_grad(level), collecting_emissions(level, emissions):
            result = call()
    outputs = [t for t in tree_leaves(result) if t._backend == backend]

    def replay() -> Sequence[Variable]:
        with replayed(), recording(), collecting_emissions(level, []):
            again = call()
        return [t._handle for t in tree_leaves(again) if t._backend == backend]

    node = Checkpoint(
        lambda: context.copy().run(replay), [o._handle.value for o in outputs], tuple(emissions)
    )
    position = {id(o): i for i, o in enumerate(outputs)}

    def noted(t: Tensor) -> Tensor:
        if id(t) not in position:
            return t
        return Tensor(Variable(t._handle.value, node, position[id(t)]), t._type, backend)

    return tree_map(noted, result)


def saved_bytes(loss: Tensor) -> int:
    """Return how many bytes of values the graph of a loss keeps for the backward pass.

    Each buffer counts once; parameters and constants that ops use are counted with the rest.
    """
    node = getattr(loss._handle, "node", None)
    stack: list[Node] = [node] if node else []
    seen, buffers = set[int](), dict[int, int]()
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        stack.extend(parent for _, parent, _ in current.parents)
        if isinstance(current, Applied):
            _count(current.saved, buffers, stack)
            _count(current.run_inputs or (), buffers, stack)
    return sum(buffers.values())


def _count(saved: Any, buffers: dict[int, int], stack: list[Node]) -> None:
    if isinstance(saved, tuple):
        for item in saved:
            _count(item, buffers, stack)
    elif isinstance(saved, Recomputed):
        if saved.node is not None:
            stack.append(saved.node)
    elif isinstance(saved, Tensor):
        buffers[id(saved._handle)] = saved._type.nbytes
