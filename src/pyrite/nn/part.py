"""Parts of a built module by path: read, exchanged, changed, tied.

A path names fields, places in lists and keys of dicts, joined by dots, as files do.  Invariant: in
what is returned an id has one value.  What becomes of a parameter at one of its paths becomes of it
at all of them; a `Parameter` of its own unties it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

from pyrite.errors import DTypeError, ModuleError, ShapeError
from pyrite.op import instead, public
from pyrite.op.foreign import is_foreign
from pyrite.tensor.frozen import FrozenDict, FrozenList
from pyrite.tensor.parameter import Identified, Parameter
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import TreeNode, is_branch, tree_items, tree_leaves, tree_map, with_children

M = TypeVar("M")

#: The names that lead from a module to a part of it.
Names = tuple[str, ...]
#: An error names so many paths.
_SHOWN = 12


class At(Generic[M]):
    """``model.at``: takes a path or a pattern of paths."""

    __slots__ = ("_model",)

    def __init__(self, model: M) -> None:
        self._model = model

    @public
    def __getitem__(self, path: str) -> Parts[M]:
        """Return the parts at a path, or at all that match a pattern: ``"h.*.attn"``.

        A path names any field; a pattern, that of ``Module.freeze``, modules and tensors alone.
        Raises ModuleError when there is none.
        """
        return Parts(self._model, path, _found(self._model, path))


class Parts(Generic[M]):
    """``model.at[path]``: what stands there, and the models with something else there."""

    __slots__ = ("_found", "_model", "_path")

    def __init__(self, model: M, path: str, found: Mapping[Names, Any]) -> None:
        self._model = model
        self._path = path
        self._found = found

    @public
    def get(self) -> Any:
        """Return the part.  Raises ModuleError where the pattern matches several; see `items`."""
        if len(self._found) > 1:
            raise ModuleError(
                f"get requires the path of one part, got {self._path!r}, which matches "
                f"{_listed(self.items())}; use items()"
            )
        return next(iter(self._found.values()))

    def items(self) -> dict[str, Any]:
        """Return the parts by path."""
        return {".".join(names): part for names, part in self._found.items()}

    @public
    def set(self, value: Any, /) -> M:
        """Return the model with something else there.

        A plain tensor in the place of a parameter or state is its next value, at each path that it
        has; one of another shape makes it a new one, with an id of its own.

        >>> from pyrite import nn
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 10))
        >>> net.at["1"].set(nn.Linear(8, 3)).layers[1].out_features
        3
        """
        return self._changed(lambda part: value)

    @public
    def apply(self, change: Callable[[Any], Any], /) -> M:
        """Return the model with ``change(part)`` there, inner parts before those that hold them.

        A part with several paths is changed once, and stays one.

        >>> from pyrite import nn
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 10))
        >>> net.at["*.weight"].apply(lambda w: w * 0.5).num_params() == net.num_params()
        True
        """
        return self._changed(change)

    def _changed(self, change: Callable[[Any], Any]) -> M:
        changes = _Changes(change)
        made = changes.apply(self._model, _selection(self._found), self._path)
        return _with_one_value_each(self._model, made, changes.renewed)


def tied(model: M, path: str, source: str) -> M:
    """Return the model with one parameter at two paths; see ``Module.tie``."""
    old, kept = (_one(model, where) for where in (path, source))
    if type(old) is not type(kept) or not isinstance(kept, Identified):
        raise ModuleError(
            f"tie requires the paths of two parameters, or of two states, got "
            f"{type(old).__name__} {path!r} and {type(kept).__name__} {source!r}"
        )
    if old.shape != kept.shape:
        raise ShapeError(
            f"tie requires parameters of one shape, got {old.shape} {path!r} and {kept.shape} "
            f"{source!r}"
        )
    if old.dtype != kept.dtype:
        raise DTypeError(
            f"tie requires parameters of one dtype, got {old.dtype.name} {path!r} and "
            f"{kept.dtype.name} {source!r}; cast one: model.at[path].apply(lambda p: p.astype(...))"
        )
    return Parts(model, path, _found(model, path)).set(kept)


def frozen(value: Any) -> Any:
    """Return containers as immutable ones; a list without layers becomes a plain tuple."""
    if isinstance(value, list) and is_branch(tuple(value)):
        return FrozenList(map(frozen, value))
    if isinstance(value, list) or type(value) is tuple:
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return FrozenDict({k: frozen(v) for k, v in value.items()})
    return value


def with_frozen(model: M, patterns: Sequence[str], is_frozen: bool) -> M:
    """Return the model with parameters in or out of training; see ``Module.freeze``."""
    named = [(path, t) for path, t in tree_items(model) if isinstance(t, Parameter)]
    for pattern in patterns:
        if not any(fnmatchcase(path, pattern) for path, _ in named):
            paths = ", ".join(path for path, _ in named)
            raise ModuleError(
                f"freeze requires a path of a parameter, got {pattern!r}; it has {paths}"
            )
    chosen = {
        p.id
        for path, p in named
        if not patterns or any(fnmatchcase(path, pattern) for pattern in patterns)
    }
    return tree_map(
        lambda t: t.frozen(is_frozen) if isinstance(t, Parameter) and t.id in chosen else t, model
    )


# ---- finding parts ----


def _found(model: Any, path: str) -> dict[Names, Any]:
    is_pattern = any(letter in path for letter in "*?[")
    found = {
        names: part
        for names, part in _parts(model)
        if (where := ".".join(names)) == path
        or (is_pattern and isinstance(part, TreeNode | Tensor) and fnmatchcase(where, path))
    }
    if not found:
        raise _unmatched(model, path)
    return found


def _one(model: Any, path: str) -> Any:
    return Parts(model, path, _found(model, path)).get()


def _parts(value: Any, names: Names = ()) -> Iterator[tuple[Names, Any]]:
    for name, child in _children(value).items():
        yield (*names, str(name)), child
        yield from _parts(child, (*names, str(name)))


def _children(value: Any) -> Mapping[Any, Any]:
    """Return what a part holds by field, index or key; {} for what is no module or container."""
    if isinstance(value, TreeNode):
        return value.tree_children()
    if isinstance(value, tuple | list):
        return dict(enumerate(value))
    if isinstance(value, Mapping):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    return {}


def _unmatched(model: Any, path: str) -> ModuleError:
    parts = {".".join(names): part for names, part in _parts(model)}
    holder, _, name = path.rpartition(".")
    within = parts.get(holder, model if not holder else None)
    kind = type(model).__name__
    if isinstance(within, FrozenDict | FrozenList):
        fix = f"to add one, give the whole: {_longer(holder, name, within)}"
    elif close := get_close_matches(path, parts, n=1):
        fix = f"did you mean {close[0]!r}?"
    else:
        fix = f"it has {_listed(part for part, v in parts.items() if _is_module_or_tensor(v))}"
    return ModuleError(f"at requires the path of a part of {kind}, got {path!r}; {fix}")


def _longer(holder: str, name: str, within: FrozenDict | FrozenList) -> str:
    is_list = isinstance(within, FrozenList)
    items = f"[*model.{holder}, ...]" if is_list else f"{{**model.{holder}, {name!r}: ...}}"
    return f"model.at[{holder!r}].set({items})"


def _is_module_or_tensor(value: Any) -> bool:
    return isinstance(value, TreeNode | Tensor)


def _listed(paths: Iterable[str]) -> str:
    every = list(paths)
    rest = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return ", ".join(every[:_SHOWN]) + rest


# ---- changing them ----


@dataclass(frozen=True)
class _Selection:
    """Which parts below one are chosen; equal where the same are."""

    is_chosen: bool
    inner: tuple[tuple[str, _Selection], ...]


def _selection(paths: Iterable[Names]) -> _Selection:
    below: dict[str, list[Names]] = {}
    is_chosen = False
    for names in paths:
        if names:
            below.setdefault(names[0], []).append(names[1:])
        else:
            is_chosen = True
    return _Selection(is_chosen, tuple((name, _selection(below[name])) for name in sorted(below)))


class _Changes:
    """One pass over the chosen parts; what is shared is changed once, and stays shared."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self._change = change
        # Keeps the originals alive too, so that their ids stay theirs.
        self._done: dict[tuple[int, _Selection], tuple[Any, Any]] = {}
        #: What became of parameters and states that were given a plain tensor, by id.
        self.renewed: dict[int, Identified] = {}

    def apply(self, part: Any, chosen: _Selection, path: str) -> Any:
        key = (id(part), chosen)
        done = self._done.get(key)
        if done is None:
            inner = dict(chosen.inner)
            changed = {
                name: new
                for name, child in _children(part).items()
                if str(name) in inner
                and (new := self.apply(child, inner[str(name)], path)) is not child
            }
            made = _with_children(part, changed) if changed else part
            if chosen.is_chosen:
                made = self._changed(made, path)
            done = self._done[key] = (part, made)
        return done[1]

    def _changed(self, part: Any, path: str) -> Any:
        new = self._change(part)
        if not isinstance(part, Tensor) or isinstance(new, Identified):
            return frozen(new)
        if not isinstance(new, Tensor):
            if is_foreign(new):
                raise DTypeError(f"at[{path!r}] requires a tensor, {instead(new)}")
            return new
        return self._renewed(part, new) if isinstance(part, Identified) else new

    def _renewed(self, part: Identified, value: Tensor) -> Identified:
        """Return a parameter or state with another value: a new one, where the shape differs."""
        if value.shape == part.shape:
            new = part.with_value(value.detach())
        else:
            new = part.as_new(value.detach())
        self.renewed[part.id] = new
        return new


def _with_children(part: Any, changed: Mapping[Any, Any]) -> Any:
    if not isinstance(part, TreeNode):
        return with_children(part, changed)
    module: Any = part
    return module.replace(**changed)


def _with_one_value_each(before: Any, made: M, renewed: Mapping[int, Identified]) -> M:
    """Return the model with each new value of a parameter at every path that the parameter has.

    Raises ModuleError where a parameter has come to have two.
    """
    old = {id(t): t for t in tree_leaves(before)}
    ids = {t.id for t in old.values() if isinstance(t, Identified)}
    values = dict(renewed)
    for t in tree_leaves(made):
        if not isinstance(t, Identified) or id(t) in old or t.id not in ids:
            continue
        if values.setdefault(t.id, t) is not t:
            raise ModuleError(
                f"at requires one value for each parameter, got two for a tied one of "
                f"{t._type}; give one of its paths a pyrite.Parameter of its own, or change all"
            )
    return tree_map(lambda t: values.get(t.id, t) if isinstance(t, Identified) else t, made)
