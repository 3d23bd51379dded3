"""Optimisers: what turns a model and its gradients into the next model.

A rule (`Adam`, `SGD`, ...) defines two functions of one tensor, ``init`` and ``update``; trees,
ties, groups, schedules, clipping, dtypes and files are here, once for all rules.

Invariant: ``step`` reads nothing back from the device, and one that raises has changed nothing.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, TypeVar

from pyrite.autodiff.gradients import Gradients
from pyrite.errors import ArgumentError, GradientError
from pyrite.op import public
from pyrite.optim import resume
from pyrite.optim.clip import Clipping, clip_groups
from pyrite.optim.columns import SteppedColumns
from pyrite.optim.effect import OptimizerEffect, effect_of
from pyrite.optim.group import GroupChoice, Predicate, assigned, choice, resolved
from pyrite.optim.parameter_gradient import ParameterGradient, parameter_gradients
from pyrite.optim.schedule.rate import Observer, Rate, observers, rate_at
from pyrite.optim.settings import Configured, non_negative, require_rate, settings_of
from pyrite.optim.state import (
    OptimizerState,
    ParameterState,
    ParameterUpdate,
    RuleState,
    in_one_thread,
)
from pyrite.optim.torch_names import TorchNames
from pyrite.optim.update import updated
from pyrite.optim.values import computed, renewed
from pyrite.record import Record
from pyrite.tensor.parameter import Identified, Parameter
from pyrite.tensor.template import tree_exchanged, tree_renewed
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_leaves

M = TypeVar("M")


@dataclass(frozen=True, eq=False, repr=False)
class Optimizer(Configured, TorchNames, ABC):
    """What every rule inherits.  Its settings are frozen; what it remembers is in its state.

        optimizer = Adam(learning_rate=1e-3)
        for batch in loader:
            loss, grads = value_and_grad(loss_of)(model, batch)
            model = optimizer.step(model, grads)

    An optimiser belongs to one training and to the thread that steps it; a call during another
    thread's raises TrainError.  A deep copy goes on from the same point with the same model, apart:
    for two continuations of one training.  A rule of one's own is a frozen dataclass with two
    methods:

    >>> from dataclasses import dataclass
    >>> from pyrite import nn
    >>> @dataclass(frozen=True, eq=False, repr=False)
    ... class SignDescent(Optimizer):
    ...     def init(self, parameter):
    ...         return {}
    ...
    ...     def update(self, gradient, parameter, state, *, learning_rate, step):
    ...         return parameter - learning_rate * gradient.sign(), state
    >>> SignDescent(0.1)
    SignDescent(learning_rate=0.1)
    """

    learning_rate: Rate
    _groups: tuple[Group, ...] = field(default=(), init=False)
    _clipping: Clipping | None = field(default=None, init=False)
    _state: OptimizerState = field(default_factory=OptimizerState, init=False)

    def __post_init__(self) -> None:
        # A module can be called, as a schedule can.
        if callable(self.learning_rate) and not tree_leaves(self.learning_rate):
            return
        require_rate(self, self.learning_rate, "a number or a schedule")
        non_negative(self, "learning_rate")

    # ---- what a rule defines ----

    @abstractmethod
    def init(self, parameter: Tensor) -> RuleState:
        """Return what the rule keeps for a parameter that it has never stepped, by name."""

    @abstractmethod
    def update(
        self,
        gradient: Tensor,
        parameter: Tensor,
        state: RuleState,
        *,
        learning_rate: float,
        step: int,
    ) -> tuple[Tensor, RuleState]:
        """Return the parameter after a step, and the state under the same names.

        All tensors have the dtype in which the parameter is computed: for a float16 or bfloat16
        parameter they are float32, and the result is rounded once.  ``step`` counts the steps of
        this parameter, from 1.  Numbers that change from step to step, as the rate does, go into
        the arithmetic as Python floats.
        """

    def update_many(
        self, updates: Sequence[ParameterUpdate], *, learning_rate: float
    ) -> list[tuple[Tensor, RuleState]]:
        """Return what `update` returns for each of several parameters.

        One after the other; of a rule whose update is one op, see `Joint`, all at once.
        """
        return [
            self.update(t.gradient, t.parameter, t.state, learning_rate=learning_rate, step=t.step)
            for t in updates
        ]

    # ---- steps ----

    @public
    def step(self, model: M, gradients: Gradients) -> M:
        """Return the model with its parameters stepped and its states renewed.

        It shares with the old one what did not change: frozen parameters, and those without a
        gradient, which weight decay does not touch either.  Parameters keep their ids and ties.

        A parameter that is new in the model starts with new state; that of one which a model of
        this training no longer holds is dropped.

        Raises GradientError when there is no gradient at all, and when the gradients are of another
        version of a parameter, or also of parameters that the model does not hold; ShapeError for a
        gradient of another shape.

        >>> import pyrite
        >>> from pyrite import nn, optim
        >>> model = nn.Linear(2, 1)
        >>> loss, grads = pyrite.value_and_grad(lambda m: m(pyrite.ones((4, 2))).sum())(model)
        >>> round((model.bias - optim.SGD(0.5).step(model, grads).bias).item(), 4)
        2.0
        """
        if not isinstance(gradients, Gradients):
            raise GradientError(
                f"step requires gradients, got {type(gradients).__name__}; take them by "
                "value_and_grad(fn)(model) or loss.backward()"
            )
        state = self._state
        with in_one_thread(state.lock):
            is_latest, leaves = state.note_model(model), tree_leaves(model)
            held: Any = leaves if is_latest else [t for t in leaves if isinstance(t, Identified)]
            effect = effect_of(self)
            # A schedule is asked once for each step.
            rates = self._rates()
            made = None if effect is not None else self._step_columns(held, gradients, rates)
            if made is not None:
                if not is_latest:
                    state.note_lost(held)
                return self._keep_columns(model, leaves, made)
            due = parameter_gradients(model, held, gradients)
            state.note_lost(held)
            group_of = self._assigned(model, held)
            changed, kept, norm = self._stepped(due, group_of, rates, effect)
            changed.update(renewed(held, gradients.updates))
            stepped = tree_renewed(
                lambda t: changed.get(t.id, t) if isinstance(t, Identified) else t, model
            )
            state.keep(kept, among=held)
            state.newest = next(((i, t.version) for i, t in changed.items() if i in kept), None)
            state.norm = norm
            state.steps += 1
        return stepped

    @property
    def steps(self) -> int:
        """How many steps it has made."""
        effect = effect_of(self)
        return self._state.steps if effect is None else effect.steps()

    @property
    def gradient_norm(self) -> Tensor | None:
        """The norm of all gradients at the last step, before clipping by it; else None.

        Reading its value waits; the tensor itself does not.
        """
        return self._state.norm

    def learning_rates(self) -> dict[str, float]:
        """Return the rates of the next step by group name; ``"*"`` is all other parameters.

        >>> from pyrite import optim
        >>> optim.SGD(0.1).with_group("head.*", learning_rate=1.0).learning_rates()
        {'*': 0.1, 'head.*': 1.0}
        """
        names = ["*", *(group.choice.name for group in self._groups)]
        rates, effect = self._rates(), effect_of(self)
        return dict(zip(names, rates if effect is None else effect.rates(rates), strict=True))

    @public
    def observe(self, metric: float) -> None:
        """Give a metric to every schedule that follows one, as `schedule.ReduceOnPlateau` does.

        Raises ArgumentError when no schedule does.
        """
        found = self._observers()
        if not found:
            raise ArgumentError(
                "observe requires a schedule that follows a metric, got none; use "
                "learning_rate=schedule.ReduceOnPlateau(...)"
            )
        for observer in found:
            observer.observe(metric)

    # ---- other optimisers made from it ----

    @public
    def with_group(
        self,
        where: str | Predicate,
        *,
        name: str | None = None,
        optimizer: Optimizer | None = None,
        **settings: Any,
    ) -> Self:
        """Return the optimiser with other settings, or another rule, for some parameters.

        where: a pattern of paths, that of ``Module.freeze`` (``encoder.*``), or a function of path
        and parameter that says whether it is in the group; later groups win.
        name: what records and `learning_rates` call it: the pattern itself, if none is given.
        optimizer: the rule; it brings its own clipping if it has one.

        What has been learned so far is kept.  A record holds the paths of each group, and is not
        loaded where they have become others.

        Raises ArgumentError for a setting that the rule lacks, for a function without a name, and,
        at the first step, for a group of nothing.

        >>> from pyrite import optim
        >>> optim.SGD(0.1).with_group("*.bias", learning_rate=0.2)
        SGD(learning_rate=0.1, ...).with_group('*.bias', SGD(learning_rate=0.2, ...))
        >>> adam = optim.AdamW(1e-3)
        >>> adam = adam.with_group(lambda path, p: p.ndim < 2, name="no_decay", weight_decay=0)
        """
        if optimizer is not None and optimizer._groups:
            raise ArgumentError("with_group requires an optimizer without groups, got one with")
        rule = (self if optimizer is None else optimizer)._with_settings(settings)
        clipping = None if optimizer is None else optimizer._clipping
        group = Group(choice(where, name), rule._like(_clipping=clipping))
        return self._like(_groups=(*self._groups, group))

    @public
    def with_clipping(
        self,
        *,
        value: float | None = None,
        norm: float | None = None,
        global_norm: float | None = None,
    ) -> Self:
        """Return the optimiser that clips gradients: one of three ways, see `pyrite.optim.clip`.

        value: each element to [-value, value]; norm: each tensor's 2-norm, as Burn does;
        global_norm: the 2-norm of all gradients together, as is usual for transformers.

        Raises ArgumentError unless just one is given.
        """
        given = {"value": value, "norm": norm, "global_norm": global_norm}
        chosen = [Clipping(by, limit) for by, limit in given.items() if limit is not None]  # type: ignore[arg-type]
        if len(chosen) != 1:
            raise ArgumentError(
                f"with_clipping requires one of value, norm and global_norm, got {len(chosen)}"
            )
        return self._like(_clipping=chosen[0])

    # ---- files ----

    def record(self, model: Any) -> Record:
        """Return all that it remembers, by the paths of the model's parameters.

        With the model's own record it is all that a training needs to go on bit for bit.
        """
        state = self._state
        with in_one_thread(state.lock):
            groups = self._resolved(model)
            return resume.record_of(self._configuration(), groups, state, self._observers(), model)

    @public
    def load_record(self, model: Any, record: Record, *, allow_changes: bool = False) -> Self:
        """Take up what another optimiser remembered, and return this one.

        Settings are not taken from the record: they are the program's.  Where they differ from the
        recorded ones that is an error unless ``allow_changes``, for then the training goes on
        differently.

        Raises RecordError when settings, paths, those of groups, shapes or dtypes differ.
        """
        state = self._state
        with in_one_thread(state.lock):
            rules = dict(self._assigned(model, tree_leaves(model)))
            loaded = resume.loaded(
                self._configuration(),
                record,
                model,
                lambda parameter: self._rules()[rules[parameter.id]].init(computed(parameter)),
                allow_changes=allow_changes,
            )
            if not allow_changes:
                resume.require_groups(self._resolved(model), record)
            resume.load_observers(self._observers(), record, allow_changes=allow_changes)
            state.steps, state.parameters = loaded.steps, loaded.parameters
            state.newest = None
        return self

    # ---- inside ----

    def _rules(self) -> list[Optimizer]:
        return [self, *(group.rule for group in self._groups)]

    def _rates(self) -> list[float]:
        return [rate_at(rule.learning_rate, self._state.steps) for rule in self._rules()]

    def _observers(self) -> list[Observer]:
        found = {id(o): o for rule in self._rules() for o in observers(rule.learning_rate)}
        return list(found.values())

    def _assigned(self, model: Any, held: Sequence[Tensor]) -> Mapping[int, int]:
        """Return the group of each parameter, matched anew when one is met for the first time."""
        known = self._state.rules
        if any([isinstance(t, Parameter) and t.id not in known for t in held]):
            known.update(assigned(self._groups, model))
        return known

    def _resolved(self, model: Any) -> list[list[Any]]:
        parameters = resume.parameters_of(model)
        return resolved(self._groups, parameters, self._assigned(model, [*parameters.values()]))

    def _stepped(
        self,
        due: list[ParameterGradient],
        group_of: Mapping[int, int],
        rates: Sequence[float],
        effect: OptimizerEffect | None,
    ) -> tuple[dict[int, Identified], dict[int, ParameterState], Tensor | None]:
        rules = self._rules()
        if effect is not None:
            rates = effect.rates(rates)
        numbers = [group_of[d.parameter.id] for d in due]
        due, norm = clip_groups(self, due, [rules[number] for number in numbers])
        changed: dict[int, Identified] = {}
        kept: dict[int, ParameterState] = {}
        for group, (rule, rate) in enumerate(zip(rules, rates, strict=True)):
            own = [d for d, number in zip(due, numbers, strict=True) if number == group]
            for stepped, new in updated(rule, rate, own, self._state.parameters, effect):
                changed[stepped.id], kept[stepped.id] = stepped, new
        return changed, kept, norm

    def _step_columns(
        self,
        held: Sequence[Identified],
        gradients: Gradients,
        rates: Sequence[float],
    ) -> SteppedColumns | None:
        """Return what a step makes by columns; None of a rule that cannot, and of other steps."""
        return None

    def _keep_columns(self, model: M, leaves: Sequence[Tensor], made: SteppedColumns) -> M:
        """Take up a step by columns; return the model."""
        stepped = tree_exchanged(model, leaves, made.of(leaves))
        made.keep_in(self._state, stepped, leaves)
        return stepped

    def _with_settings(self, settings: Mapping[str, Any]) -> Self:
        unknown = sorted(set(settings) - set(settings_of(self)))
        if unknown:
            raise ArgumentError(
                f"with_group requires settings of {type(self).__name__}, got {', '.join(unknown)}; "
                f"it has {', '.join(settings_of(self))}"
            )
        return replace(self, **settings)

    def _like(self, **fields: Any) -> Self:
        """Return a copy that goes on from the same point."""
        made = copy.copy(self)
        for name, value in {"_state": self._state.copy(), **fields}.items():
            object.__setattr__(made, name, value)
        return made

    def _configuration(self) -> dict[str, Any]:
        groups = [[group.choice.name, group.rule, group.rule._clipping] for group in self._groups]
        return {"optimizer": self, "clipping": self._clipping, "groups": groups}

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in settings_of(self).items())
        text = f"{type(self).__name__}({settings})"
        if self._clipping is not None:
            text += f".with_clipping({self._clipping.by}={self._clipping.limit!r})"
        for group in self._groups:
            text += f".with_group({group.choice.name!r}, {group.rule!r})"
        return text


class Group(NamedTuple):
    """Which parameters, and their rule."""

    choice: GroupChoice
    rule: Optimizer
