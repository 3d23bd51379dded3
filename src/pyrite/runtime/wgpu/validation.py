"""What may be submitted: wgpu-native aborts the process where a submit meets an error.

So each submission is encoded and checked before.  A command that cannot run is left out, and what
it was to write is **poisoned**, as is all that is computed from that: the next read of any of it
raises the error, which names the kernel.  Stale memory is never returned.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyrite.errors import DeviceError, KernelError, PyriteError
from pyrite.runtime.wgpu.command import Command, Result
from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.external import unusable, why_unusable
from pyrite.runtime.wgpu.memory import Storage
from pyrite.runtime.wgpu.native import NativeError, Pointer
from pyrite.runtime.wgpu.shader import Layouts
from pyrite.runtime.wgpu.submission import Submission, encode
from pyrite.runtime.wgpu.timestamps import Timestamps


class Validator:
    """Makes command buffers for one device.  Its caller holds the lock."""

    def __init__(self, life: Life, layouts: Layouts) -> None:
        self._life = life
        self._layouts = layouts
        self._has_poison = False
        #: Who wants to know when kernels run.
        self.timestamps: Timestamps | None = None

    @property
    def is_plain(self) -> bool:
        """Whether every command can be encoded, as far as is known, and nobody looks at them."""
        return not (self._has_poison or Storage.is_any_lent or self.timestamps)

    def encode(self, submission: Submission) -> Pointer | None:
        """Return the command buffer of the commands that can run, or None if there is none.

        Raises DeviceError if the device is lost.
        """
        commands = self._sound(submission)
        if not commands:
            return None
        try:
            return encode(self._life.device, commands, self.timestamps)
        except NativeError as error:
            self._life.check_loss(error)
        return self._encode_legal(commands)

    def poison(self, results: Sequence[Result], error: PyriteError) -> None:
        """Have every read of the results, and of what is computed from them, raise the error."""
        self._has_poison = True
        for each in results:
            each.error = error

    def _sound(self, submission: Submission) -> list[Command]:
        """Return the commands whose operands are good."""
        reasons = self._unusable(submission)
        if not reasons and not self._has_poison:
            return list(submission)
        return [command for command in submission if self._is_sound(command, reasons)]

    def _unusable(self, submission: Submission) -> dict[Storage, str]:
        """Return the storages in the hands of an application that cannot be used now, and why."""
        if not Storage.is_any_lent:
            return {}
        lent = {
            contents.storage
            for command in submission
            for contents in command.touched
            if contents.storage.is_lent
        }
        found = ((storage, why_unusable(storage, self._layouts)) for storage in lent)
        return {storage: why for storage, why in found if why is not None}

    def _is_sound(self, command: Command, reasons: dict[Storage, str]) -> bool:
        error = _error(command, reasons)
        if error is not None:
            self.poison(command.written(), error)
        return error is None

    def _encode_legal(self, commands: list[Command]) -> Pointer:
        # In order: what reads the result of an illegal command is not to run either.
        legal = [c for c in commands if self._is_sound(c, {}) and self._is_legal(c)]
        life = self._life
        try:
            return encode(life.device, legal)
        except NativeError as error:
            life.check_loss(error)
            life.fail(f"commands that are legal one by one, but not together ({error})")
            raise DeviceError(f"flush requires legal commands, got\n{error}") from None

    def _is_legal(self, command: Command) -> bool:
        try:
            encode(self._life.device, [command])
        except NativeError as error:
            self._life.check_loss(error)
            failure = KernelError(f"{command.name} requires a legal command, got\n{error}")
            self.poison(command.written(), failure)
            return False
        return True


def _error(command: Command, reasons: dict[Storage, str]) -> PyriteError | None:
    """Return what keeps the operands of a command from being used."""
    for contents in command.touched:
        if contents.error is not None:
            return contents.error
        if contents.storage in reasons:
            return unusable(command.name, contents.storage, reasons[contents.storage])
    return None
