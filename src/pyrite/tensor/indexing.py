"""Indexing: reading elements by position, and writing them into a new tensor."""

from __future__ import annotations

from pyrite.tensor.movement import Movement


class Indexing(Movement):
    """Indexing."""

    __slots__ = ()
