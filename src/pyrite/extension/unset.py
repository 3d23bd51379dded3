"""Names of a kernel that were not set."""

from __future__ import annotations

from typing import NoReturn

from pyrite.errors import KernelError


class Unset:
    """What a name is before it is set; or after a statement that does not set it on every way."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def refuse(self, *_: object) -> NoReturn:
        """Raise KernelError, with the name, of whoever reads it."""
        name = object.__getattribute__(self, "_name")
        raise KernelError(
            f"a kernel requires names to be set before they are read, got {name}, which is set in "
            f"a branch or a loop that may not be run; write {name} = ... before it"
        )

    def __repr__(self) -> str:
        return "a name that was not set"

    __getattr__ = __call__ = __getitem__ = __setitem__ = __iter__ = __bool__ = refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = refuse
    __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __and__ = __or__ = refuse
    __rand__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = __neg__ = __pos__ = refuse
    __invert__ = __lt__ = __le__ = __gt__ = __ge__ = __index__ = __int__ = __float__ = refuse
    __len__ = __abs__ = __pow__ = __rpow__ = __round__ = refuse
