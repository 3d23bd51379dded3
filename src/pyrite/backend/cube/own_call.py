"""Calls of ops with a kernel of an application's own, made from their second on as recorded.

What a call does depends on its plan, but for numbers among the attributes: those a launch gives.  A
kernel may have asked something about them (`pyrite.symbol`), so there may be several
recordings of one key, of which each says whether it is for the numbers of a call.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyrite.backend.cube.fault import AnyDoubt, joined
from pyrite.backend.cube.launcher import Given, Launcher
from pyrite.backend.cube.recorder import record
from pyrite.backend.cube.recording import RECORDINGS, Recording
from pyrite.backend.cube.recording_key import key_of_plan
from pyrite.backend.cube.registry import Lowering
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Op, Plan
from pyrite.recent import Recent
from pyrite.types import Number, bool_

#: Recordings of one key: of a kernel that is another for each number the first are forgotten.
MOST_VARIANTS: Final = 16


@dataclass(slots=True)
class Variant:
    """A recording, and of each launch what gives it the numbers of a call."""

    recording: Recording
    given: Sequence[Given]
    #: The last plan, with its numbers: most calls are like the one before.
    _last: tuple[Plan | None, Sequence[Number] | None] = field(default=(None, None), init=False)

    def numbers(self, plan: Plan) -> Sequence[Number] | None:
        """Return the numbers that the launches of a call get; None where it is of other kernels."""
        last, numbers = self._last
        if last is plan:
            return numbers
        if len(self.given) == 1:  # as of most
            numbers = self.given[0](plan.attrs)
            if numbers is not None:
                self._last = plan, numbers
            return numbers
        found: Sequence[Number] = ()
        for given in self.given:
            its = given(plan.attrs)
            if its is None:
                return None
            found = [*found, *its] if found else its
        self._last = plan, found
        return found


class OwnCalls:
    """The calls of one device's applications, by op, plan, layouts, and what their kernels read."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._variants: Recent[Hashable, list[Variant]] = Recent(RECORDINGS)
        #: Calls that were made once: those that never come again are not worth a recording.
        self._called: Recent[Hashable, bool] = Recent(RECORDINGS)

    def key(self, op: Op, inputs: Sequence[Any], plan: Plan) -> Hashable | None:
        """Return what a call is found by; None for one that is made anew each time."""
        first = plan.first or (plan if plan.is_kept else None)
        if first is None or (state := self._state(op, inputs)) is None:
            return None
        return state, key_of_plan(first, inputs)

    def _state(self, op: Op, inputs: Sequence[Any]) -> Hashable | None:
        """Return what the launches of an op depend on beside a call; None for those made anew."""
        if len(op.kernels) != 1:
            return None
        kernel = op.kernels[0]
        return kernel.state(inputs) if kernel.runs_on(self._launcher.runtime) else None

    def replay(
        self, op: Op, inputs: Sequence[Any], plan: Plan
    ) -> tuple[Hashable | None, Sequence[CubeTensor] | None]:
        """Return the key of a call, and what it makes as it was recorded; None where it was not."""
        first = plan.first or (plan if plan.is_kept else None)
        if first is None or (state := self._state(op, inputs)) is None:
            return None, None
        # As `key_of_plan` and `operands_of` do, in one pass: this is run for every call.
        parts: list[Hashable] = [first]
        operands: list[Any] = []
        doubt: AnyDoubt | None = None
        for i in inputs:
            if i.__class__ is CubeTensor:
                parts.append(i.layout or i.layout_of())
                operands.append(i.buffer)
                its = i.doubt
                if its is not doubt and its is not None:
                    doubt = joined(doubt, its)
            elif i is not None and i.type.dtype is bool_:
                parts.append(bool(i.value))
        key = (state, tuple(parts))
        variants = self._variants
        for variant in variants.young.get(key) or variants.get(key) or ():
            numbers = variant.numbers(plan)
            if numbers is not None:
                made = variant.recording
                return key, made.run(self._launcher, inputs, operands, doubt, numbers)
        return key, None

    def replay_into(
        self,
        lowering: Lowering,
        op: Op,
        inputs: Sequence[Any],
        plan: Plan,
        targets: Sequence[CubeTensor],
    ) -> Sequence[CubeTensor] | None:
        """Return what a call makes in memory that is there, as recorded; None where it is not.

        Its second call records it, as one that makes new results.
        """
        key = self.key(op, inputs, plan)
        if key is None:
            return None
        for variant in self._variants.get(key) or ():
            numbers = variant.numbers(plan)
            if numbers is not None:
                return variant.recording.run_into(self._launcher, inputs, targets, numbers)
        if self.is_new(key):
            self.note(key)
            return None
        recording, numbers = self.recorded(lowering, op, inputs, plan)
        if numbers is None:
            return None
        return recording.run_into(self._launcher, inputs, targets, numbers)

    def is_new(self, key: Hashable) -> bool:
        """Whether no such call was made."""
        return self._called.get(key) is None

    def note(self, key: Hashable) -> None:
        """Say that such a call was made."""
        self._called.put(key, True)

    def recorded(
        self, lowering: Lowering, op: Op, inputs: Sequence[Any], plan: Plan
    ) -> tuple[Recording, Sequence[Number] | None]:
        """Record a call, which launches nothing; return it and the numbers of its launches.

        None, and no other call finds it, where the kernel says when it is written that it must run
        each time.
        """
        made, _, given = record(self._launcher, lowering, op, inputs, plan.attrs, plan.out)
        key = self.key(op, inputs, plan)
        if key is None:
            return made, None
        variant = Variant(made, given)
        others = self._variants.get(key) or []
        self._variants.put(key, [variant, *others[: MOST_VARIANTS - 1]])
        return made, variant.numbers(plan)
