"""Which layer runs: the modules whose forward passes are under way, and how errors name them."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

from pyrite.errors import PyriteError
from pyrite.nn.hierarchy import modules_of
from pyrite.op import located

#: The modules whose forward passes run in this context, innermost first.
trail: ContextVar[tuple[Any, ...]] = ContextVar("pyrite_modules", default=())


def module_path() -> str | None:
    """Return which layer's forward pass runs: ``Net 'hidden': Linear(4, 8)``; None outside any."""
    running = trail.get()
    return _path_of(running) if running else None


def running_layer() -> Any:
    """Return the layer whose forward pass runs; None outside any."""
    running = trail.get()
    return running[0] if running else None


def noted(error: PyriteError) -> PyriteError:
    """Return the error with the layer in which it arose: the innermost one that it came through."""
    if error.module_path is None:
        error.module_path = module_path()
        error.add_note(f"in {error.module_path}")
    return located(error)


def _path_of(running: Sequence[Any]) -> str:
    """Return ``Net 'encoder.linear1': Linear(4, 8)`` for a trail of modules."""
    names = []
    for inner, outer in pairwise(running):
        names.append(next((path for path, m in modules_of(outer, "") if m is inner), "?"))
    innermost, root = running[0], running[-1]
    where = ".".join(name for name in reversed(names) if name)
    own = f"{type(innermost).__name__}({innermost.extra_repr()})"
    return f"{type(root).__name__} {where!r}: {own}" if where else own
