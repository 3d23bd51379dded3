"""The records of all ops: those of tensors, and those that `import pyrite` leaves unread.

`pyrite.op.OPS` has what is declared so far.  Tables of all ops and tests over all ops need the rest
too, whichever module is imported first: importing `pyrite.testing` declares it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pyrite import optim, tensor
from pyrite.op import OPS, Op

#: The packages whose modules declare ops; a test compares with the sources.
FAMILIES = (tensor, optim)


def all_records() -> Mapping[str, Op]:
    """Return every op that Pyrite declares, by name, in the order of the names.

    >>> sorted({"exp", "adamw_update"} - set(all_records()))
    []
    """
    return MappingProxyType({name: OPS[name] for name in sorted(OPS)})
