"""Calls that come together each time, as a backward pass or an optimiser's step, by one look-up.

They are recorded one by one the first time; what that led to is kept with the call before them.
From then on the same calls on the same operands are a jump in the tree, and only what leaves them
gets handles.

Invariant: nothing here names an op.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain, repeat
from typing import Any

from pyrite.backend.explanation import listeners
from pyrite.backend.fusion.history import Call
from pyrite.backend.fusion.lazy import External, Lazy
from pyrite.backend.fusion.pending import MOST_FORMS, PendingCalls
from pyrite.columns import Maker, chooser
from pyrite.op import Constant, Handle, Plan, user_location
from pyrite.types import TensorType, bool_

_lazies = Maker(Lazy, "type", "place", "value")


class Jump:
    """What known calls lead to: the last of them, and what is to be noted as if they were recorded.

    ``numbers`` are the places of numbers among the operands, in their order among the calls', and
    ``results`` the numbers of the results, and their types; some may be there more than once.
    """

    __slots__ = (
        "_changes", "_checked", "_early", "calls", "choose", "choose_numbers", "gone", "last",
        "leave_all", "types", "wanted",
    )  # fmt: skip

    def __init__(
        self, calls: Sequence[Call], numbers: Sequence[int],
        results: Sequence[tuple[int, TensorType]],
    ) -> None:  # fmt: skip
        self.calls = tuple(calls)
        self.last = calls[-1]
        before = calls[0].before
        assert before is not None
        self.gone = (None,) * (self.last.results - before.results)
        #: What takes the numbers out of the operands, and the results out of those that leave.
        self.choose_numbers = chooser(numbers)
        at = {result: n for n, result in enumerate(dict.fromkeys(results))}
        #: The numbers of the results that leave, and their types.
        self.wanted = tuple([number for number, _ in at])
        self.types = tuple([type for _, type in at])
        self.choose = chooser([at[result] for result in results])
        #: Whether all leave, in order.
        self.leave_all = self.wanted == (*range(before.results, self.last.results),)
        self._changes = -1
        self._checked: tuple[int, ...] = ()
        self._early: tuple[Call, ...] = ()

    def marked(self, changes: int) -> tuple[tuple[int, ...], tuple[Call, ...]]:
        """Return the places of calls whose lines are to be noted, and calls that start launches.

        ``changes`` counts how often either was found out anew, of any call.
        """
        if self._changes != changes:
            self._changes = changes
            self._checked = tuple([call.count - 1 for call in self.calls if call.is_checked])
            self._early = tuple([call for call in self.calls if call.early is not None])
        return self._checked, self._early


def key_of(
    calls: PendingCalls, head: Hashable, operands: Sequence[Any]
) -> tuple[Hashable, ...] | None:
    """Return by what calls are known that take these operands, which become inputs.

    None where one is to be computed first, or is an application's.
    """
    places, number_of = calls.places, calls.number_of_input
    parts: list[Hashable] = [head]
    for i in operands:
        kind = i.__class__
        if kind is Lazy:
            pending, n = i.place
            if pending is calls:
                parts.append(n)
                continue
            value = i.value
            if value is None:
                return None
            parts.append(places.get(id(value)) or number_of(value))
        elif kind is Constant:
            if i.type.dtype is bool_:
                parts.append(bool(i.value))
        elif kind is External:
            return None
        elif i is not None:
            parts.append(places.get(id(i)) or number_of(i))
    return tuple(parts)


def operands_of(inputs: Sequence[Any]) -> tuple[list[Any], range]:
    """Return what calls take whose inputs are columns, and the places of the numbers among it.

    A number is the same one in all calls.  Tensors come in the order of the calls: so they are
    numbered as inputs where each call is recorded by itself, and the program is the same.
    """
    columns = [x for x in inputs if x.__class__ is list]
    numbers = [x for x in inputs if x.__class__ is not list and x is not None]
    operands = [*chain.from_iterable(zip(*columns, strict=True)), *numbers]
    return operands, range(len(operands) - len(numbers), len(operands))


class PassageCalls:
    """Calls that are about to be recorded: the operands that are not made among them, and a key."""

    __slots__ = ("_at", "_calls", "_head", "_key", "_operands")

    def __init__(self, calls: PendingCalls, head: Hashable, operands: Sequence[Any]) -> None:
        self._calls = calls
        self._head = head
        self._operands = operands
        self._at = calls.at
        self._key: tuple[Hashable, ...] | None = None

    def recorded(self) -> list[Handle] | None:
        """Return the results of calls that came here before; None of others, recorded one by one.

        ``head`` says which calls they are, with what they take of each other.
        """
        # Written for speed: this is run for all parameters of a model, at each step.
        calls, operands = self._calls, self._operands
        lock = calls.lock
        lock.acquire()
        try:
            if calls.is_done or calls.is_captured:
                return None
            key = (calls.recorded.native_key or key_of)(calls, self._head, operands)
            if key is None:
                return None
            self._at = calls.at
            self._key = key
            jump = self._at.jumps.get(self._key)
            return None if jump is None or listeners else self._jumped(jump)
        finally:
            lock.release()

    def _jumped(self, jump: Jump) -> list[Handle]:
        calls, operands = self._calls, self._operands
        checked, early = jump.marked(calls.recorded.changes)
        if checked:
            line = user_location()
            for place in checked:
                calls.sites[place] = line
        calls.numbers += jump.choose_numbers(operands)
        results = calls.results
        calls.at = jump.last
        wanted = jump.wanted
        made = _lazies.many(len(wanted), jump.types, [*zip(repeat(calls), wanted)], None)
        if jump.leave_all:
            results += made
        else:
            results += jump.gone
            for n, lazy in zip(wanted, made, strict=True):
                results[n] = lazy
        for call in early:
            if call.early is not None:
                calls.start_early(call)
        return [*jump.choose(made)]

    def note(self, plans: Sequence[Plan], numbers: Sequence[int], results: Sequence[Any]) -> None:
        """Note what the calls of these plans led to, now that they were recorded one by one.

        ``numbers`` are the places of their numbers among the operands.
        """
        calls, at = self._calls, self._at
        if self._key is None:
            return
        with calls.lock:
            path: list[Call] = []
            call: Call | None = calls.at
            while call is not None and call is not at and len(path) < len(plans):
                path.append(call)
                call = call.before
            path.reverse()
            is_whole = call is at and len(path) == len(plans) > 0
            if calls.is_done or not is_whole:
                return
            if any([one.plan is not plan for one, plan in zip(path, plans, strict=True)]):
                return
            if calls.at.numbers - at.numbers != len(numbers):
                return
            if not all([x.__class__ is Lazy and x.place[0] is calls for x in results]):
                return
            if len(at.jumps) >= MOST_FORMS:
                at.jumps.clear()
            found = [(x.place[1], x.type) for x in results]
            if all([n >= at.results for n, _ in found]):
                at.jumps[self._key] = Jump(path, numbers, found)
