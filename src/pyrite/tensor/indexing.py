"""Indexing: reading elements by position, and writing them into a new tensor."""

from __future__ import annotations

from pyrite.tensor.rearrangement import Rearrangement


class Indexing(Rearrangement):
    """Indexing."""

    __slots__ = ()
