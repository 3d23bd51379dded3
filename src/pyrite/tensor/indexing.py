"""Indexing: reading elements by position, and writing them into a new tensor."""

from __future__ import annotations

from pyrite.tensor.gathering import Gathering


class Indexing(Gathering):
    """Indexing."""

    __slots__ = ()
