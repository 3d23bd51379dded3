"""How two sequences are alike: edit distance and longest common subsequence, bit by bit.

A row of the table of dynamic programming is one integer, a bit for each element of one sequence, so
a text of n characters takes n steps of additions over its whole length, and not n² steps of Python.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence


def edit_distance(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """Return how many elements must be inserted, deleted or replaced to make one of the other.

    Source: Myers 1999, J. ACM 46(3), as in Hyyrö 2003, a bit-vector algorithm.

    >>> edit_distance("kitten", "sitting")
    3
    """
    if not right:
        return len(left)
    places = _places(right)
    full, last = (1 << len(right)) - 1, 1 << (len(right) - 1)
    rises, falls, distance = full, 0, len(right)  # of the column, from each row to the next
    for element in left:
        equal = places[element]
        diagonal = (((equal & rises) + rises) ^ rises) | equal | falls
        up, down = falls | (full & ~(diagonal | rises)), rises & diagonal
        distance += bool(up & last) - bool(down & last)
        up, down = (up << 1) | 1, down << 1
        rises = (down | ~(diagonal | up)) & full
        falls = up & diagonal
    return distance


def common_length(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """Return the length of the longest subsequence of both, which need not be contiguous.

    Source: Hyyrö 2004, AWOCA, bit-parallel LCS-length computation revisited.

    >>> common_length("abcde", "xbxdx")
    2
    """
    places = _places(right)
    full = (1 << len(right)) - 1
    row = full
    for element in left:
        equal = row & places[element]
        row = ((row + equal) | (row - equal)) & full
    return len(right) - row.bit_count()


def _places(sequence: Sequence[Hashable]) -> defaultdict[Hashable, int]:
    """Return for each element a bit for each place where it stands."""
    places: defaultdict[Hashable, int] = defaultdict(int)
    for place, element in enumerate(sequence):
        places[element] |= 1 << place
    return places
