"""Statements as a tree of modules, by the paths of the layers that they use.

A module is made where all that has its path can run as one: no value leaves it and comes back by
way of something outside.  What cannot is part of the module around it, under a longer name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyrite.onnx.python.code import Local, Member, Operator
from pyrite.onnx.python.member import HeldTensor, LayerMember, Members
from pyrite.onnx.python.step import Scope, Step


@dataclass(slots=True, eq=False)
class ModuleDraft:
    """A module: what it does in order, and what it holds, by name."""

    path: Scope
    items: list[Step | ModuleDraft] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    layers: dict[str, LayerMember] = field(default_factory=dict)
    held: dict[str, HeldTensor] = field(default_factory=dict)

    @property
    def targets(self) -> tuple[str, ...]:
        """The values that it makes for others."""
        return tuple(self.outputs)

    @property
    def uses(self) -> list[str]:
        """The values that it reads."""
        return self.inputs

    @property
    def groups(self) -> list[ModuleDraft]:
        """The modules in it."""
        return [item for item in self.items if isinstance(item, ModuleDraft)]


@dataclass(slots=True)
class Tree:
    """The whole model as a group, and the path of each member by its key."""

    root: ModuleDraft
    paths: dict[str, Scope]


def grown(steps: Sequence[Step], members: Members, inputs: Sequence[str],
          outputs: Sequence[str]) -> Tree:  # fmt: skip
    """Return statements as a tree of modules."""
    used = {p.key for step in steps for p in step.walk() if isinstance(p, Member)}
    paths = _member_paths(members, used)
    while True:
        scopes = _scopes(steps, paths)
        paths = _reachable(paths, steps, scopes, members)
        root = ModuleDraft((), inputs=list(inputs), outputs=list(outputs))
        apart = _fill(root, list(zip(steps, scopes, strict=True)))
        if apart is None:
            break
        paths = {key: _hoisted(path, apart) for key, path in paths.items()}
    _place(root, members, paths)
    return Tree(root, paths)


def _member_paths(members: Members, used: Iterable[str]) -> dict[str, Scope]:
    """Return the path of each member that is used, none of them within a layer's."""
    wanted: dict[str, Scope] = {}
    for key in sorted(used):
        within = members.within.get(key)
        if within is not None and within[0] in members.layers:
            continue
        layer, held = members.layers.get(key), members.held.get(key)
        wanted[key] = layer.path if layer is not None else held.path  # type: ignore[union-attr]
    taken: set[Scope] = set()
    inner = {path[:end] for path in wanted.values() for end in range(1, len(path))}
    for key, path in wanted.items():
        unique = path if not path[-1].isdecimal() or len(path) > 1 else (f"layer{path[-1]}",)
        while unique in taken or unique in inner:
            unique = (*unique[:-1], f"{unique[-1]}_")
        taken.add(unique)
        wanted[key] = unique
    for key in used:
        within = members.within.get(key)
        if within is not None and within[0] in members.layers:
            owner = wanted.get(within[0])
            wanted[key] = (*owner, within[1]) if owner is not None else members.held[key].path
    return wanted


def _reachable(
    paths: Mapping[str, Scope], steps: Sequence[Step], scopes: Sequence[Scope], members: Members
) -> dict[str, Scope]:
    """Return paths whose modules use what they hold: others are parts of a member's name."""
    modules: dict[str, set[Scope]] = {}
    for step, scope in zip(steps, scopes, strict=True):
        inner = {scope[:end] for end in range(len(scope) + 1)}
        for part in step.walk():
            if isinstance(part, Member):
                modules.setdefault(_owner(part.key, members) or part.key, set()).update(inner)
    found: dict[str, Scope] = {}
    for key, path in paths.items():
        if _owner(key, members) in paths:
            continue
        while path[:-1] not in modules.get(key, {()}):
            path = _hoisted(path, path[:-1])
        while path in found.values():
            path = (*path[:-1], f"{path[-1]}_")
        found[key] = path
    for key in paths:
        owner = _owner(key, members)
        if owner in found:
            found[key] = (*found[owner], members.within[key][1])
    return found


def _owner(key: str, members: Members) -> str:
    """Return the key of the layer that holds a weight; none holds ``""``."""
    return members.within[key][0] if key in members.within else ""


def _scopes(steps: Sequence[Step], paths: Mapping[str, Scope]) -> list[Scope]:
    """Return the module of each statement: the innermost that all its members are in."""
    modules = {(), *(path[:end] for path in paths.values() for end in range(len(path)))}
    layers = {path for path in paths.values()}
    found: list[Scope | None] = []
    for step in steps:
        owners = [paths[p.key] for p in step.walk() if isinstance(p, Member)]
        scope: Scope | None = step.scope
        for path in owners:
            inside = path[:-1] if path[:-1] not in layers else path[:-2]
            scope = inside if scope is None else _common(scope, inside)
        while scope is not None and scope not in modules:
            scope = scope[:-1]
        found.append(scope)
    return _settled(steps, found)


def _settled(steps: Sequence[Step], scopes: list[Scope | None]) -> list[Scope]:
    """Return scopes, with those that nothing tells of between their neighbours'."""
    by_value = {t: i for i, step in enumerate(steps) for t in step.targets}
    users: dict[int, list[int]] = {}
    for i, step in enumerate(steps):
        for name in step.uses:
            if name in by_value:
                users.setdefault(by_value[name], []).append(i)
    for i, step in enumerate(steps):
        if scopes[i] is None:
            scopes[i] = _continued(step, scopes, by_value, users)
    for i in reversed(range(len(steps))):
        if scopes[i] is None:
            near = [by_value[n] for n in steps[i].uses if n in by_value] + users.get(i, [])
            known = [scope for j in near if (scope := scopes[j]) is not None]
            found: Scope | None = known[0] if known else ()
            for scope in known[1:]:
                found = _common(found or (), scope)
            scopes[i] = found
    lists = _lists(steps, scopes)
    return [_outside(scope or (), lists) for scope in scopes]


def _continued(
    step: Step,
    scopes: Sequence[Scope | None],
    makers: Mapping[str, int],
    users: Mapping[int, Sequence[int]],
) -> Scope | None:
    """Return the module of the last value that only this statement reads: it goes on with it."""
    own = [makers[n] for n in step.uses if n in makers and len(users[makers[n]]) == 1]
    return scopes[max(own)] if own else None


def _lists(steps: Sequence[Step], scopes: Sequence[Scope | None]) -> set[Scope]:
    """Return the paths that hold numbered modules and nothing else."""
    numbered = {s[:end] for s in scopes if s for end in range(len(s)) if s[end].isdecimal()}
    named = {s[:end] for s in scopes if s for end in range(len(s)) if not s[end].isdecimal()}
    own = {s for step, s in zip(steps, scopes, strict=True)
           if s and any(isinstance(p, Member) for p in step.walk())}  # fmt: skip
    return numbered - named - own


def _outside(scope: Scope, lists: set[Scope]) -> Scope:
    while scope in lists:
        scope = scope[:-1]
    return scope


def _common(one: Scope, other: Scope) -> Scope:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return one[:count]


def _hoisted(path: Scope, apart: Scope) -> Scope:
    """Return a path without a module on its way that cannot be one."""
    depth = len(apart)
    if path[:depth] != apart or len(path) == depth:
        return path
    joined = f"{apart[-1]}_{path[depth]}"
    first = f"layer{joined}" if joined[0].isdigit() else joined
    return (*apart[:-1], first, *path[depth + 1 :])


def _fill(group: ModuleDraft, steps: Sequence[tuple[Step, Scope]]) -> Scope | None:
    """Put statements and modules into a group; return the path of one that cannot be a module."""
    depth = len(group.path)
    items: list[Step | ModuleDraft] = []
    children: dict[Scope, list[tuple[Step, Scope]]] = {}
    made: dict[Scope, ModuleDraft] = {}
    for step, scope in steps:
        path = scope[: depth + 1]
        if len(path) <= depth:
            items.append(step)
            continue
        if path not in made:
            made[path] = ModuleDraft(path)
            items.append(made[path])
        children.setdefault(path, []).append((step, scope))
    for path, inner in children.items():
        _border(made[path], [s for s, _ in inner], [s for s, _ in steps], group.outputs)
        if not _is_list(made[path], inner) and _leaves_and_returns(inner, [s for s, _ in steps]):
            return path
    for path, inner in children.items():
        apart = _fill(made[path], inner)
        if apart is not None:
            return apart
    flat: list[Step | ModuleDraft] = []
    for item in items:
        is_list = isinstance(item, ModuleDraft) and _is_list(item, children[item.path])
        flat += item.items if is_list and isinstance(item, ModuleDraft) else [item]
    ordered = _ordered(flat)
    if ordered is None:
        return next(item.path for item in flat if isinstance(item, ModuleDraft))
    group.items = ordered
    return None


def _is_list(group: ModuleDraft, inner: Sequence[tuple[Step, Scope]]) -> bool:
    """Whether a path is of a list of modules: all that is in it has a number."""
    depth = len(group.path)
    return all(len(scope) > depth and scope[depth].isdecimal() for _, scope in inner)


def _border(
    group: ModuleDraft, own: Sequence[Step], around: Sequence[Step], outputs: Sequence[str]
) -> None:
    """Find what goes into a group and what comes out."""
    made = [t for step in own for t in step.targets if t]
    inside = set(map(id, own))
    read = {name for step in around if id(step) not in inside for name in step.uses}
    group.inputs = list(dict.fromkeys(n for s in own for n in s.uses if n not in set(made)))
    group.outputs = [name for name in made if name in read or name in outputs]


def _leaves_and_returns(inner: Sequence[tuple[Step, Scope]], around: Sequence[Step]) -> bool:
    """Whether a value of some statements comes back to them by way of others."""
    own = {id(step) for step, _ in inner}
    tainted: set[str] = set()
    mine: set[str] = set()
    for step in around:
        if id(step) in own:
            if any(name in tainted for name in step.uses):
                return True
            mine.update(step.targets)
        elif any(name in mine or name in tainted for name in step.uses):
            tainted.update(step.targets)
    return False


def _ordered(items: Sequence[Step | ModuleDraft]) -> list[Step | ModuleDraft] | None:
    """Return items so that each comes after what it reads; None if they go round in a circle."""
    maker = {t: i for i, item in enumerate(items) for t in item.targets if t}
    needs = [{maker[n] for n in item.uses if n in maker and maker[n] != i}
             for i, item in enumerate(items)]  # fmt: skip
    done: set[int] = set()
    order: list[int] = []
    while len(order) < len(items):
        ready = next((i for i in range(len(items)) if i not in done and needs[i] <= done), None)
        if ready is None:
            return None
        done.add(ready)
        order.append(ready)
    return [items[i] for i in order]


def _place(group: ModuleDraft, members: Members, paths: Mapping[str, Scope]) -> None:
    """Put the members that lie in a group into it."""
    inner = {item.path for item in group.groups}
    depth = len(group.path)
    for key, path in paths.items():
        is_here = path[:depth] == group.path and not any(path[: len(p)] == p for p in inner)
        name = ".".join(path[depth:])
        if is_here and key in members.layers:
            group.layers[name] = replace(members.layers[key], path=path)
        elif is_here and key in members.held and key not in members.within:
            group.held[name] = replace(members.held[key], path=path)
    for item in group.groups:
        _place(item, members, paths)


__all__ = ["Local", "ModuleDraft", "Operator", "Tree", "grown"]
