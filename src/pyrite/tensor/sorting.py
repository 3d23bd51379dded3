"""Order: sorting, top-k, search, sets and counts."""

from __future__ import annotations

from pyrite.tensor.cumulative import Cumulative


class Sorting(Cumulative):
    """Order."""

    __slots__ = ()
