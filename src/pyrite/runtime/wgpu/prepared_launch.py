"""One launch of a bundle, made ready: what is fixed of it, its row, and what it was bound to."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, NamedTuple

from pyrite.runtime.protocol import BundledLaunch, Fixed
from pyrite.runtime.wgpu.executable import Executable, Variant
from pyrite.runtime.wgpu.native import Pointer
from pyrite.runtime.wgpu.native_calls import HEAD
from pyrite.runtime.wgpu.varying_numbers import LaunchNumbers
from pyrite.types import Number

#: The serial of a buffer's storage, its offset and its bytes.
Key = tuple[int, int, int]
#: A group, the row of a launch with it, and its values where numbers vary: there the row has zeros.
Bound = tuple[Pointer, bytes, tuple[Number, ...] | None]
#: Values of a row before the numbers.
_IN_HEAD: Final = 7


class NumberPlace(NamedTuple):
    """Where in a row the number goes that is one of the operands, and its letter of struct."""

    byte: int
    operand: int
    letter: str


@dataclass(frozen=True, slots=True)
class PreparedLaunch:
    """A launch: where its buffers are among the operands, and its numbers, fixed or there too.

    ``packed`` are the numbers where all of them are fixed, ``variant`` and ``counts`` what runs on
    how many workgroups if each of its buffers is of a storage of its own, and small enough; one
    that stands for two of its parameters is not.
    """

    executable: Executable
    buffers: tuple[int, ...]
    numbers: tuple[int | Fixed, ...]
    grid: tuple[int, ...]
    is_folded: bool
    packed: bytes | None
    variant: Variant
    counts: tuple[int, int, int]
    #: What a row is if its numbers vary, and where in it which of the operands are.
    form: Struct
    varying: tuple[tuple[int, int], ...]
    #: By the keys of buffers what is bound to them.
    bound: dict[tuple[Key, ...], Bound]
    name: str
    pipeline: Pointer
    results: tuple[bool, ...]

    def row(self, values: Sequence[Number], operands: Sequence[Any]) -> bytes:
        """Return the row of a launch, of the values of `values_of`.

        Raises KernelError for a number that does not fit its dtype.
        """
        made = [*values]
        for at, n in self.varying:
            made[at] = operands[n]
        try:
            return self.form.pack(*made)
        except struct.error as error:
            raise self.executable.misfit(made[_IN_HEAD:], error) from None

    def values_of(self, addresses: tuple[int, int]) -> tuple[Number, ...]:
        """Return the values of a row with what is bound at these addresses, 0 where they vary."""
        numbers = [n.value if isinstance(n, Fixed) else 0 for n in self.numbers]
        if self.is_folded:
            numbers.append(self.grid[0])
        nbytes = self.executable.nbytes(is_folded=self.is_folded)
        return (*addresses, 0, *self.counts, nbytes, *numbers)

    def fixed_row(self, addresses: tuple[int, int]) -> bytes:
        """Return the row of every launch with what is bound at these addresses."""
        numbers = self.packed or b""
        head = Struct("@" + HEAD).pack(*addresses, 0, *self.counts, len(numbers))
        return head + numbers + bytes(-len(numbers) % 8)

    def arguments(self, operands: Sequence[Any]) -> bytes | None:
        """Return the numbers of a run as the kernel reads them."""
        if self.packed is not None or not self.numbers:
            return self.packed
        numbers = [operands[n] if n.__class__ is int else n.value for n in self.numbers]  # type: ignore[union-attr]
        return self.executable.packed(numbers, self.grid, is_folded=self.is_folded)

    def number_places(self) -> tuple[NumberPlace, ...]:
        """Return where the numbers that vary go."""
        letters = self.executable.signature.letters(self.is_folded)
        found: list[NumberPlace] = []
        for at, operand in self.varying:
            letter = letters[at - _IN_HEAD]
            end = struct.calcsize("@" + HEAD + letters[: at - _IN_HEAD + 1])
            found.append(NumberPlace(end - struct.calcsize(letter), operand, letter))
        return tuple(found)

    def launch_numbers(self, place: int) -> LaunchNumbers:
        """Return its numbers as those of a launch of a table."""
        grid = [Fixed(self.grid[0])] if self.is_folded else []
        letters = self.executable.signature.letters(self.is_folded)
        return LaunchNumbers(place, self.name, letters, [*self.numbers, *grid])


def prepared(step: BundledLaunch) -> PreparedLaunch:
    """Return a launch made ready."""
    executable: Executable = step.executable
    parameters = list(zip(executable.signature.parameters, step.bindings, strict=True))
    buffers = [b for dtype, b in parameters if dtype is None]
    assert not any(isinstance(b, Fixed) for b in buffers), "a buffer is an operand"
    numbers = tuple(b for dtype, b in parameters if dtype is not None)
    fixed = [n.value for n in numbers if isinstance(n, Fixed)]
    is_folded = executable.check_grid(step.grid)
    packed = None
    if len(fixed) == len(numbers):
        packed = executable.packed(fixed, step.grid, is_folded=is_folded)
    variant = executable.variant(all_writable=False, is_folded=is_folded)
    return PreparedLaunch(
        executable,
        tuple(b for b in buffers if not isinstance(b, Fixed)),
        numbers,
        step.grid,
        is_folded,
        packed,
        variant,
        executable.counts(step.grid, is_folded=is_folded),
        Struct("@" + HEAD + executable.signature.letters(is_folded) + "0q"),
        tuple((_IN_HEAD + at, n) for at, n in enumerate(numbers) if not isinstance(n, Fixed)),
        {},
        executable.name,
        variant.pipeline,
        executable.results,
    )


def stepped(step: BundledLaunch, before: PreparedLaunch) -> PreparedLaunch:
    """Return a launch that differs in fixed numbers alone from the one before it."""
    executable: Executable = before.executable
    parameters = zip(executable.signature.parameters, step.bindings, strict=True)
    numbers = tuple([b for dtype, b in parameters if dtype is not None])
    packed = None
    if before.packed is not None:
        values = [n.value for n in numbers if isinstance(n, Fixed)]
        packed = executable.packed(values, step.grid, is_folded=before.is_folded)
    return PreparedLaunch(
        executable, before.buffers, numbers, before.grid, before.is_folded, packed, before.variant,
        before.counts, before.form, before.varying, {}, before.name, before.pipeline,
        before.results,
    )  # fmt: skip
