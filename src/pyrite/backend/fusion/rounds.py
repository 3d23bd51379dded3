"""Rounds of a loop that nobody reads in, as the batches of an evaluation: each may be a program.

Calls are looked at up to a read, and here that comes once in many rounds.  So of calls that were
noted it is found out whether they are rounds, and with which call each begins.  The layers of a
network are alike, too; but these take what the one before made, and weights of their own.  So the
first call of a round takes what none of the calls made, and all rounds have an input in common.

A round whose values stay in a processor's caches gains nothing: it may take 1.05 to 1.15 of the
time of its ops, as names of the loop hold what a program need not write.  What fills them takes
0.77 to 0.92, so there rounds of less are left as they are.  On an H200 a round takes 0.65 (128 x 64
elements) to 0.87 (4096 x 1024).

Invariant: nothing here names an op.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from pyrite.backend.fusion.history import Call
from pyrite.op import Plan

#: So many rounds there are at least, and they are so much of all calls.
LEAST_ROUNDS: Final = 4
MOST_OF: Final = 0.75
#: Of so many distances between two calls of one plan it is asked whether they are that of rounds.
MOST_TRIED: Final = 32


class Rounds(NamedTuple):
    """How a round goes on, by plans, of which ``head`` is the first; the bytes of its results."""

    head: Plan
    plans: tuple[Hashable, ...]
    nbytes: int


def rounds_of(calls: Sequence[Call]) -> Rounds | None:
    """Return the rounds that calls are, with some more before and after; None where they are not.

    The last round may be shorter.
    """
    plans = [call.plan for call in calls]
    middle = len(plans) // 2
    after = range(middle + 2, len(plans))
    tried = [n - middle for n in after if plans[n] is plans[middle]][:MOST_TRIED]
    for period in tried:
        begin = end = middle
        while begin > 0 and plans[begin - 1] is plans[begin - 1 + period]:
            begin -= 1
        while end + period < len(plans) and plans[end] is plans[end + period]:
            end += 1
        count = end + period - begin
        if count < LEAST_ROUNDS * period or count < MOST_OF * len(plans):
            continue
        for first in range(begin, begin + period):
            rounds = [calls[n : n + period] for n in range(first, end + 1, period)]
            whole = [one for one in rounds if len(one) == period]
            if _are_apart(whole):
                head = plans[first]
                assert head is not None
                nbytes = sum(type.nbytes for call in whole[0] for type in call.types)
                return Rounds(head, tuple(plans[first : first + period]), nbytes)
    return None


def _are_apart(rounds: Sequence[Sequence[Call]]) -> bool:
    """Whether each begins with inputs alone, and an input has the same place in all."""
    if len(rounds) < LEAST_ROUNDS - 1:
        return False
    for one in rounds:
        plan = one[0].plan
        inputs = [x for x in one[0].operands if isinstance(x, int)]
        if plan is None or not plan.is_kept or not inputs or max(inputs) >= 0:
            return False
    same = set(_inputs(rounds[0]))
    for one, next in pairwise(rounds):
        same &= set(_inputs(one)) & set(_inputs(next))
    return bool(same)


def _inputs(calls: Sequence[Call]) -> list[tuple[int, int, int]]:
    """Return the inputs of calls, each behind its place: which call, and which operand."""
    return [
        (n, at, x)
        for n, call in enumerate(calls)
        for at, x in enumerate(call.operands)
        if isinstance(x, int) and x < 0
    ]
