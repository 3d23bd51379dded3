"""What a device says of its memory: how much is in use, by which tensors, of which lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyrite.op import Site
from pyrite.types import TensorType

#: From so many bytes on the line of a tensor is noted when it is made.  The look at the stack takes
#: 1.3 microseconds, a hundredth of the kernel that writes as much; of 1 MiB it was a twentieth.
LARGE: Final = 1 << 22

#: The same on a GPU.  The host is what small kernels wait for there: the look takes its server 2.8
#: microseconds, an addition that writes 4 MiB 3.6.
LARGE_ON_GPU: Final = 1 << 24


def counted(kernels: int) -> str:
    """Return how many kernels there are, in words."""
    return f"{kernels} kernel" + ("" if kernels == 1 else "s")


class Origin(NamedTuple):
    """A tensor as it was made, and the user's line at which it was."""

    type: TensorType
    site: Site | str

    @property
    def line(self) -> str:
        """The line, as ``file:line``."""
        return str(self.site)

    def __str__(self) -> str:
        return f"{self.type} of {self.line}"


class Origins(tuple[Origin, ...]):
    """Tensors in parts of one buffer."""

    __slots__ = ()

    def __str__(self) -> str:
        return " and ".join(map(str, self))


class ProgramOrigin(NamedTuple):
    """The values of a program that no handle holds, in one block."""

    launches: int

    def __str__(self) -> str:
        return f"values inside of a program of {counted(self.launches)}"


@dataclass(frozen=True, slots=True)
class TensorMemory:
    """A tensor in memory, in bytes; type and line are None where they were not noted."""

    nbytes: int
    type: TensorType | None
    line: str | None

    def __str__(self) -> str:
        what = "" if self.type is None else f" for {self.type}"
        return f"{self.nbytes:,}{what}" + (f" of {self.line}" if self.line else "")


@dataclass(frozen=True, slots=True)
class ProgramMemory:
    """What a program takes beside its inputs, in bytes.

    ``least`` is the most that is in use at one of its ``launches``: no plan can take less.
    ``largest`` are the largest tensors that are in use then.
    """

    launches: int
    planned: int
    least: int
    largest: tuple[TensorMemory, ...]


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """The memory of one device, in bytes.

    ``live`` is in buffers that somebody holds, ``reserved`` what was asked of the system, ``peak``
    the most that was live at a time.  ``tensors`` are the largest first.
    """

    device: str
    live: int
    reserved: int
    peak: int
    tensors: Sequence[TensorMemory] = ()
    programs: Sequence[ProgramMemory] = ()
