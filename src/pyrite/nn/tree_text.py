"""The text of a module: a tree with shapes and counts.

Net (58 parameters)
├── hidden: Linear(in_features=4, out_features=8, weight=[8, 4], bias=[8])  40
└── out: Linear(in_features=8, out_features=2, weight=[2, 8], bias=[2])  18
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any, Protocol, runtime_checkable

from pyrite.nn.hierarchy import holds_module
from pyrite.tensor.parameter import Parameter
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_leaves


@runtime_checkable
class Shown(Protocol):
    """What the tree shows of a module."""

    def tree_children(self) -> dict[str, Any]: ...
    def extra_repr(self) -> str: ...
    def num_params(self) -> int: ...


def tree_text(module: Shown) -> str:
    """Return the module's name and configuration, and below it whatever it holds."""
    return "\n".join((head(module), *_lines(module, "")))


def settings(module: Shown) -> str:
    """Return a module's plain fields that are not the defaults: ``in_features=4, bias=False``."""
    of_init: Any = type(module).__init__
    defaults = {name: p.default for name, p in signature(of_init).parameters.items()}
    plain = (
        (name, value)
        for name, value in module.tree_children().items()
        if value is not None and not tree_leaves(value) and not holds_module(value)
    )
    return ", ".join(
        f"{name}={value!r}" for name, value in plain if not _is(value, defaults.get(name))
    )


def _is(value: Any, default: Any) -> bool:
    """Whether a field holds its default: for a size per axis, also the one that stands for all."""
    if isinstance(value, tuple) and isinstance(default, int):
        return set(value) == {default}
    return type(value) is type(default) and bool(value == default)


def head(module: Shown) -> str:
    """Return the first line: all of a module without modules, else its name and size."""
    if not holds_modules(module):
        return _leaf(module)
    config = module.extra_repr()
    name = type(module).__name__ + (f"({config})" if config else "")
    size = module.num_params()
    return f"{name} ({size:,} parameter{'' if size == 1 else 's'})"


def summary(child: Any) -> str:
    """Return the line of what a module holds, after its name."""
    if isinstance(child, Tensor):
        return _shape(child)
    size = child.num_params()
    frozen = " frozen" if size and not any(p.trainable for p in child.parameters()) else ""
    text = f"{type(child).__name__}({child.extra_repr()})" if holds_modules(child) else _leaf(child)
    return text + (f"  {size:,}{frozen}" if size else "")


def branches(module: Any) -> list[tuple[str, Any]]:
    """Return what a module holds: modules anywhere in its fields, and the tensors of the others."""
    if isinstance(module, Tensor):
        return []
    children = module.tree_children().items()
    return [pair for name, value in children for pair in _inside(name, value)]


def holds_modules(module: Any) -> bool:
    """Whether it has a tree below it, and not tensors alone."""
    return any(isinstance(child, Shown) for _, child in branches(module))


def _lines(module: Any, indent: str) -> Iterator[str]:
    if not holds_modules(module):
        return
    below = branches(module)
    for position, (name, child) in enumerate(below):
        is_last = position == len(below) - 1
        yield f"{indent}{'└── ' if is_last else '├── '}{name}: {summary(child)}"
        yield from _lines(child, indent + ("    " if is_last else "│   "))


def _leaf(module: Any) -> str:
    """Return a module without modules on one line, with the shapes of its tensors."""
    shapes = (f"{name}={list(t.shape)}" for name, t in branches(module))
    return f"{type(module).__name__}({', '.join(filter(None, (module.extra_repr(), *shapes)))})"


def _inside(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Tensor | Shown):
        yield name, value
    elif isinstance(value, tuple | list):
        for index, item in enumerate(value):
            yield from _inside(f"{name}.{index}", item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _inside(f"{name}.{key}", item)


def _shape(t: Tensor) -> str:
    kind = type(t).__name__
    frozen = " frozen" if isinstance(t, Parameter) and not t.trainable else ""
    return f"{kind}{list(t.shape)}{frozen}"
