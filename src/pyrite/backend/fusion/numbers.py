"""The numbers of pending calls: which of them are one number of the program.

Invariant: nothing here names an op.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from pyrite.columns import distinct
from pyrite.op import Constant, HostScalar, is_host_scalar, value_of


def same_numbers(numbers: Sequence[Constant]) -> dict[int, int]:
    """Return of numbers that are computed as an earlier one is at each call the place of that.

    What they are computed of is known of host scalars alone, so of captured calls.
    """
    first: dict[Hashable, int] = {}
    found: dict[int, int] = {}
    for n, x in enumerate(numbers):
        if is_host_scalar(x.value) and (at := first.setdefault((x.value.key, x.type), n)) != n:
            found[n] = at
    return found


def same_objects(numbers: Sequence[Constant]) -> tuple[list[Constant], tuple[int, ...]]:
    """Return the different objects among numbers, and which of them each is; () if all differ.

    Calls that are looked up together share them, as the updates of a model's parameters do.
    """
    found, places = distinct(numbers)
    return found, (() if len(found) == len(places) else places)


def earlier_of(places: Sequence[int]) -> dict[int, int]:
    """Return of numbers that are the same as an earlier one the place of that; see `same_objects`.

    >>> earlier_of((0, 1, 0))
    {2: 0}
    """
    first: dict[int, int] = {}
    found = [first.setdefault(number, n) for n, number in enumerate(places)]
    return {n: at for n, at in enumerate(found) if at != n}


def form_of(
    donated: Hashable, key: Hashable, same: Mapping[int, int] | tuple[int, ...]
) -> Hashable:
    """Return by what the programs of calls are found, given the last one.

    ``same`` is what `same_numbers` returns, or which objects numbers are.
    """
    if not same:
        return donated, key
    return donated, key, (same if isinstance(same, tuple) else tuple(same.items()))


def plain(number: Constant) -> Constant:
    """Return a number that is a host scalar as the one that it is at this call."""
    return Constant(value_of(number.value), number.type)


def all_plain(numbers: Sequence[Constant], different: Sequence[Constant]) -> Sequence[Constant]:
    """Return numbers, of which these differ, as they are now: mostly none is a host scalar."""
    kinds: set[type] = {type(x.value) for x in different}
    if HostScalar not in kinds:
        return numbers
    return [plain(x) if is_host_scalar(x.value) else x for x in numbers]
