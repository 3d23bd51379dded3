"""What changes no integer that it meets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyrite.backend.cube.skeleton.scatter.atomic import atomic_of
from pyrite.op.rule import Collision
from pyrite.types import DType, Number

_IDENTITIES: Final[Mapping[str, str]] = {"add": "zero", "min": "highest", "max": "lowest"}


def identity_of(collision: Collision, dtype: DType) -> Number | None:
    """Return what changes no integer that it meets, None for a collision without.

    >>> from pyrite.op.rule.scatter import ADD, MULTIPLY
    >>> from pyrite.types import int8
    >>> identity_of(ADD, int8), identity_of(MULTIPLY, int8)
    (0, None)
    """
    name = _IDENTITIES.get(atomic_of(collision, dtype) or "")
    return 0 if name == "zero" else None if name is None else getattr(dtype, name)
