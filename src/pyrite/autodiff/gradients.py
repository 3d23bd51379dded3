"""What a backward pass found: a gradient per leaf, and the states that the forward pass renewed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pyrite.errors import GradientError
from pyrite.op import public
from pyrite.tensor.parameter import Identified, Renewal, State, constant
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.transaction import read
from pyrite.tensor.tree import tree_items, tree_leaves


class Emission(NamedTuple):
    """States that a forward pass renewed, and how: from their values before to those after."""

    states: tuple[State, ...]
    renewal: Renewal


class Gradients:
    """Gradients by parameter id or by leaf; ``grads[w]`` reads one.

    It also holds what states emitted, in the order of the forward pass; `updates` is what becomes
    of them, and an optimiser commits it together with its step.
    """

    __slots__ = ("_by_id", "_by_leaf", "_emissions", "_updates", "_versions")

    def __init__(self) -> None:
        self._by_id: dict[int, Tensor] = {}
        self._versions: dict[int, int] = {}
        self._by_leaf: dict[Any, Tensor] = {}
        self._emissions: tuple[Emission, ...] = ()
        self._updates: dict[int, Tensor] | None = None

    @public
    def __getitem__(self, of: Tensor) -> Tensor:
        """Return the gradient of a parameter or leaf.

        Raises GradientError when it is not there: untracked, not reached by the loss, or stale.
        """
        found = self.get(of)
        if found is None:
            raise GradientError(
                f"gradients require a tracked tensor that the loss depends on, got {of._type}; "
                "make it a leaf with require_grad() before the forward pass"
            )
        return found

    def __contains__(self, of: Tensor) -> bool:
        return self.get(of) is not None

    @public
    def get(self, of: Tensor) -> Tensor | None:
        """Return the gradient of a parameter or leaf, or None; raise GradientError if stale."""
        if not isinstance(of, Identified):
            return self._by_leaf.get(getattr(of._handle, "node", None))
        if of.id in self._by_id and self._versions[of.id] != of.version:
            raise GradientError(
                f"gradients require the parameter that they were taken of, got version "
                f"{of.version} for gradients of version {self._versions[of.id]}; take them again "
                "after the step"
            )
        return self._by_id.get(of.id)

    def add(self, leaf: Any, key: tuple[int, int] | None, g: Tensor) -> None:
        """File the gradient of a leaf: by itself, or by the id and version of a parameter.

        Where one parameter has several leaves, their gradients are summed.
        """
        if key is None:
            self._by_leaf[leaf] = g
            return
        id, version = key
        have = self._by_id.get(id)
        self._by_id[id] = g if have is None else have + g
        self._versions[id] = version

    def add_all(self, leaves: Sequence[Any], found: Sequence[Tensor]) -> None:
        """File the gradients of leaves, as `add` does one by one."""
        keys = [leaf.key for leaf in leaves]
        if self._by_id or None in keys or len({key[0] for key in keys}) < len(keys):
            for leaf, key, g in zip(leaves, keys, found, strict=True):
                self.add(leaf, key, g)
            return
        ids = [id for id, _ in keys]
        self._by_id = dict(zip(ids, found, strict=True))
        self._versions.update(keys)

    def add_emissions(self, earlier: Sequence[Emission]) -> None:
        """File what states emitted before all that is filed already."""
        self._emissions = (*earlier, *self._emissions)
        self._updates = None

    @property
    def updates(self) -> dict[int, Tensor]:
        """New values of states by state id.

        Each emission renews what the one before it left, so that a layer that is called twice, or
        in each of several accumulated batches, has taken both into account.
        """
        if self._updates is None:
            latest: dict[int, Tensor] = {}
            for emission in self._emissions:
                before = [latest.get(state.id, state) for state in emission.states]
                after = emission.renewal(*before)
                latest.update(zip((s.id for s in emission.states), after, strict=True))
            self._updates = latest
        return dict(self._updates)

    def map(self, change: Callable[[Tensor], Tensor]) -> Gradients:
        """Return the gradients with each one changed, states' updates as they are."""
        made = self._empty_like()
        made._by_id = {k: change(g) for k, g in self._by_id.items()}
        made._by_leaf = {k: change(g) for k, g in self._by_leaf.items()}
        made._emissions = self._emissions
        return made

    def without(self, of: Tensor) -> Gradients:
        """Return the gradients less one."""
        made = self.map(lambda g: g)
        if isinstance(of, Identified):
            made._by_id.pop(of.id, None)
        else:
            made._by_leaf.pop(getattr(of._handle, "node", None), None)
        return made

    def only(self, tree: Any) -> Gradients:
        """Return the gradients and updates of a module's parameters and states, less all others.

        A generator and a discriminator in one loss, say, are stepped each with its own.
        """
        ids = {leaf.id for leaf in tree_leaves(tree) if isinstance(leaf, Identified)}
        made = self._empty_like()
        made._by_id = {k: g for k, g in self._by_id.items() if k in ids}
        made._emissions = tuple(
            e for e in self._emissions if all(state.id in ids for state in e.states)
        )
        return made

    @public
    def named(self, tree: Any) -> dict[str, Tensor]:
        """Return the gradients of a module's parameters by path; tied ones once.

        Parameters without one, which are frozen or not reached by the loss, are left out.  Raises
        GradientError when the gradients are of another version of the module.

        >>> import pyrite
        >>> from pyrite import nn
        >>> model = nn.Linear(2, 1)
        >>> _, grads = pyrite.value_and_grad(lambda m: m(pyrite.ones((4, 2))).sum())(model)
        >>> {path: g.tolist() for path, g in grads.named(model).items()}
        {'weight': [[4.0, 4.0]], 'bias': [4.0]}
        """
        named = ((path, t) for path, t in tree_items(tree) if isinstance(t, Identified))
        return {path: g for path, t in named if (g := self.get(t)) is not None}

    @public
    def norms(self, tree: Any) -> dict[str, float]:
        """Return the 2-norm of each of `named`, read by one wait.

        >>> import pyrite
        >>> from pyrite import nn
        >>> model = nn.Linear(2, 1)
        >>> _, grads = pyrite.value_and_grad(lambda m: m(pyrite.ones((4, 2))).sum())(model)
        >>> grads.norms(model)["bias"]
        4.0
        """
        named = self.named(tree)
        # A norm in float16 may be infinite.
        norms = [g.astype(g.dtype.compute).vector_norm() for g in named.values()]
        return dict(zip(named, (norm.item() for norm in read(*norms)), strict=True))

    @public
    def replace(self, of: Tensor, g: Tensor) -> Gradients:
        """Return the gradients with another one for a parameter or leaf that is there."""
        self[of]
        made = self.map(lambda g: g)
        if isinstance(of, Identified):
            made._by_id[of.id] = g
        else:
            made._by_leaf[of._handle.node] = g
        return made

    @public
    def __add__(self, other: Gradients) -> Gradients:
        """Return the sum; states are renewed by this one, then by the other.

        Raises GradientError when they were taken of different versions of a parameter.
        """
        if any(other._versions.get(k, v) != v for k, v in self._versions.items()):
            raise GradientError(
                "a sum of gradients requires one version of each parameter, got gradients from "
                "before and after a step"
            )
        made = self._empty_like()
        made._versions.update(other._versions)
        made._by_id = _summed(self._by_id, other._by_id)
        made._by_leaf = _summed(self._by_leaf, other._by_leaf)
        made._emissions = self._emissions + other._emissions
        return made

    def __mul__(self, scale: float) -> Gradients:
        return self.map(lambda g: g * scale)

    __rmul__ = __mul__

    def __truediv__(self, scale: float) -> Gradients:
        return self.map(lambda g: g / scale)

    def __len__(self) -> int:
        return len(self._by_id) + len(self._by_leaf)

    def __iter__(self) -> Iterator[Tensor]:
        yield from self._by_id.values()
        yield from self._by_leaf.values()

    def by_id(self) -> dict[int, Tensor]:
        """Return the gradients of parameters by parameter id."""
        return dict(self._by_id)

    def in_order(self, ids: Sequence[int], versions: Sequence[int]) -> list[Tensor] | None:
        """Return the gradients of parameters of these versions.

        None where one is missing or stale, and where there are others.
        """
        if len(self._by_id) != len(ids):
            return None
        try:
            if [*map(self._versions.__getitem__, ids)] != versions:
                return None
            return [*map(self._by_id.__getitem__, ids)]
        except KeyError:
            return None

    @staticmethod
    def mean(parts: Sequence[Gradients]) -> Gradients:
        """Return the mean of gradients taken in parallel; states' updates are averaged too."""
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        mean = total / len(parts)
        updates = [part.updates for part in parts]
        states = {s.id: s for emission in total._emissions for s in emission.states}
        mean._emissions = tuple(
            Emission((state,), constant(_mean([u[key] for u in updates if key in u])))
            for key, state in states.items()
        )
        return mean

    def _empty_like(self) -> Gradients:
        made = Gradients()
        made._versions = dict(self._versions)
        return made

    def __repr__(self) -> str:
        return f"Gradients({len(self)} gradients, {len(self.updates)} state updates)"


def _mean(values: Sequence[Tensor]) -> Tensor:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return (total / len(values)).astype(values[0].dtype)


def _summed(x: dict[Any, Tensor], y: dict[Any, Tensor]) -> dict[Any, Tensor]:
    both = {k: g + y[k] for k, g in x.items() if k in y}
    return {**x, **y, **both}
