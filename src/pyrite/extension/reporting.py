"""What a kernel says of itself: indices outside, checks that fail, and what it prints."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pyrite.errors import KernelError
from pyrite.extension.arithmetic import Arithmetic
from pyrite.extension.mistake import require_own, shown
from pyrite.extension.printing import Prints, invocation_number
from pyrite.kernel import Memory, Value
from pyrite.kernel.ir import BOOL, Kernel
from pyrite.kernel.passes import most_rounds, report_rounds
from pyrite.op import user_location
from pyrite.types import uint32


class Check(NamedTuple):
    """A check of a kernel: what it says, and its line."""

    message: str
    location: str


#: A note is the rank of a failure in a launch, which falls, and so many bits of an invocation.
RANKS: Final = 16
NOTE_BITS: Final = 28
#: What stands for all invocations from there on.
MOST_NOTED: Final = 2**NOTE_BITS - 1


def noted_invocation(note: int, position: int) -> int | None:
    """Return the invocation in which the failure of a position failed, None if that is unknown.

    >>> noted_invocation((15 << 28) | 7, 0), noted_invocation((15 << 28) | 7, 1)
    (7, None)
    """
    rank, who = note >> NOTE_BITS, note & MOST_NOTED
    return who if rank == RANKS - 1 - position and who < MOST_NOTED else None


#: What is wrong where a device ends loops.
_CUT = (
    "loops on this device (Mesa's llvmpipe) require at most {} rounds of one invocation, inner "
    "loops counted, got more; give each invocation a part of them, or use 'cpu' or a GPU"
)


class Reporting(Arithmetic):
    """The part of a scope that reports: by an error word, and by a buffer of words."""

    def __init__(
        self, name: str, *, workgroup_size: tuple[int, ...], grid: int, counts: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(name, workgroup_size=workgroup_size, grid=grid, counts=counts)
        #: What was recorded an access of that may be outside; if any, an error word is bound last.
        self.tested: dict[str, None] = {}
        #: What may fail: indices, which are None, and checks, by message and line.
        self.failures: dict[Check | None, Value] = {}
        self._word: Memory | None = None
        #: What is printed.
        self.prints = Prints()

    def fail(self, failed: Value, name: str) -> None:
        """Have each read of what comes of the kernel raise IndexRangeError, if that is true."""
        self.tested[name] = None
        self._report(failed, None)

    def _report(self, failed: Value, what: Check | None) -> None:
        word, number = self._reported(what)
        super().error(word, failed, number)

    def _reported(self, what: Check | None) -> tuple[Memory, Value]:
        """Return the error word, and what it gets where something fails."""
        if self._word is None:
            self._word = super().buffer("error_word", uint32, "atomic")
        number = self.failures.get(what)
        if number is None:
            name = f"error_number_{len(self.failures)}"
            number = self.failures[what] = super().scalar(name, uint32)
        return self._word, number

    def built(self, most: int | None, location: str) -> Kernel:
        """Return the kernel, which reports loops that a device ends after so many rounds."""
        kernel = self.build()
        if most is None:
            return kernel
        rounds = most_rounds(kernel)
        if rounds is not None and rounds <= most:
            return kernel
        word, number = self._reported(Check(_CUT.format(most), location))
        return report_rounds(self.build(), word.node, number.node)

    def check(self, condition: Any, message: str) -> None:
        """Have each read of what comes of the kernel raise KernelError where that is false."""
        if not isinstance(message, str):
            raise KernelError(f"check requires a message that is a str, got {shown(message)}")
        if not isinstance(condition, Value):
            if not condition:
                raise KernelError(f"{message}, in kernel '{self.name}', whatever it reads")
            return
        if condition.type is not BOOL:
            raise KernelError(
                f"check requires a bool of the kernel, as i < n, got {shown(condition)}"
            )
        failed, check = ~condition, Check(message, user_location())
        word, number = self._reported(check)
        plain = self.plain
        # One test for both: what follows a failure is rare.
        with plain.if_(plain.of(failed.node)):
            self._note_invocation(word, number, check)
            super().error(word, plain.of(failed.node), number)

    def _note_invocation(self, word: Memory, number: Value, what: Check) -> None:
        """Write which invocation it is beside the error word, where nothing has failed before.

        Numbers of failures fall: who raises the word is of the first launch that fails, and of its
        failures the greatest number is the first.  So is the greatest note.
        """
        rank = RANKS - 1 - [*self.failures].index(what)
        if rank < 1:
            return
        plain = self.plain
        memory, code = Memory(plain, word.node), plain.of(number.node)
        before = memory.atomic("max", 0, code)
        who = plain.min(plain.cast(invocation_number(plain), uint32), MOST_NOTED)
        with plain.if_(before < code):
            memory.atomic("max", 1, who | (rank << NOTE_BITS))

    def print(self, *parts: Any) -> None:
        """Print texts and values when the launch is done, in the order of invocations.

        The launch is waited for.  Of a launch some 65000 numbers are kept.
        """
        require_own(self, "print", parts)
        memory = self.prints.memory or super().buffer("printed", uint32, "atomic")
        self.prints.record(self, memory, parts)
