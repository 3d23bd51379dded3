"""The device whose ops run as programs: `pyrite.fusion`."""

from __future__ import annotations

from pyrite.backend.device import Device, DeviceLike, device
from pyrite.backend.fusion.decorator import Fusion
from pyrite.config import Check, require_check
from pyrite.errors import ArgumentError
from pyrite.op import public


@public
def fusion(
    where: DeviceLike = None, *, check: Check | None = None, after: int | None = None
) -> Device:
    """Return the same device with ops that run as programs of many: see `Fusion`.

    ``check`` says when programs are compared with their ops one by one: ``"first"``, when they
    first run, ``"always"``, or ``"off"``; None is as ``pyrite.config.fusion_check`` says.  One that
    gives something else runs as its ops from then on, with a `QuarantineWarning`.

    A program that is new runs as its ops, and is compiled in a pause once it came again ``after``
    so many times.  With 0 it is compiled when it first runs: so it is by default, but for a device
    that has Fusion by name, where ``pyrite.config.fusion_after`` says it.

    >>> import pyrite
    >>> x = pyrite.tensor([1.0, 2.0], device=pyrite.fusion("cpu"))
    >>> ((x * 2 + 1).exp().sum() > 0).item()
    True
    """
    require_check("fusion(check=...)", check)
    if after is not None and (type(after) is not int or after < 0):
        raise ArgumentError(f"fusion requires after to be a whole number from 0 on, got {after!r}")
    found = device(where)
    if not isinstance(found.backend, Fusion):
        return Device(Fusion(found.backend, check=check, after=after or 0))
    known = found.backend.recorded
    if check in (None, known.check) and after in (None, known.after):
        return found
    after = known.after if after is None else after
    return Device(Fusion(found.backend.inner, check=check, after=after))
