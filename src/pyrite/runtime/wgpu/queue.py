"""The queue of a device: what waits to be submitted, what was, and how far the device has come.

Commands are kept until a flush (many flush by themselves, see pace.py) and submitted together; the
device works through submissions in order.
"""

from __future__ import annotations

from typing import Any

import wgpu

from pyrite.errors import DeviceError
from pyrite.runtime.interruption import Uninterrupted
from pyrite.runtime.wgpu.application_queue import queue_of
from pyrite.runtime.wgpu.command import Command, Copy, Staged, StorageRange
from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.encoding_thread import EncodingThread
from pyrite.runtime.wgpu.launches import GRID_BYTES, Launches
from pyrite.runtime.wgpu.memory import ALIGNMENT, GONE, LAST_USES, STORAGES, Buffer
from pyrite.runtime.wgpu.native import NativeError, Pointer, Progress, captured, ffi, lib, poll
from pyrite.runtime.wgpu.pace import Pace
from pyrite.runtime.wgpu.poller import Poller
from pyrite.runtime.wgpu.staging import Upload, transfer_buffer
from pyrite.runtime.wgpu.submission import Submission
from pyrite.runtime.wgpu.validation import Validator
from pyrite.types import Array

#: So many submissions may be under way; the host waits for the oldest.
IN_FLIGHT = 64

#: After so many commands it is looked whether another thread has encoded those before.
LOOK_AFTER = 16

#: Bytes of a uniform buffer: the arguments of 256 launches of a submission.
UNIFORMS = 64 << 10


class Queue:
    """Submits the commands of a device in order.

    Its caller holds the lock, except in `go_on`, in `is_done` and in the waits.
    """

    __slots__ = (
        "_away", "_begun", "_grid", "_has_looked", "_life", "_poller", "_progress", "_submitted",
        "_uniform", "_validator", "pace", "pending", "uploads",
    )  # fmt: skip

    def __init__(self, life: Life, poller: Poller, validator: Validator) -> None:
        self._life = life
        self._poller = poller
        self._validator = validator
        self.uploads = Upload(life, poller, self.flush)
        device = life.device
        self.pace = Pace(is_early=not (device.is_software or device.is_external))
        #: The thread that encodes, once there is one, and what it is at.
        self._away: EncodingThread | None = None
        self._has_looked = False
        self._begun: Submission | None = None
        #: What was appended since the last flush.
        self.pending = Submission(1)
        self._progress = Progress()
        self._uniform: Any = None
        self._grid: Any = None
        #: Where a submission takes its command buffer from.
        self._submitted = ffi.new("WGPUCommandBuffer[1]")

    @property
    def submitted(self) -> int:
        """The number of the last submission."""
        return self.pending.number - 1

    def append(self, command: Command) -> None:
        """Have a command run after all others."""
        pending = self.pending
        number, is_external = pending.number, False
        for contents in command.touched:
            if contents.gone is not None:
                self._validator.poison(command.written(), contents.gone)
                return
            storage = contents.storage
            storage.last_use = number
            if storage.is_external:
                is_external = True
        self._appended(pending.append(command), is_external=is_external)

    def append_many(self, launches: Launches) -> None:
        """Do what `append` does for launches none of whose storages an application has in hand."""
        pending, touched = self.pending, launches.touched
        gone = next(filter(None, GONE.read(touched)), None)
        if gone is not None:
            self._validator.poison(launches.written(), gone)
            return
        LAST_USES.write(STORAGES.read(touched), [pending.number] * len(touched))
        self._appended(pending.append(launches), is_external=False)

    def _appended(self, size: int, *, is_external: bool) -> None:
        """Go on with what is pending, of which a command was just appended."""
        if size >= self.pace.due:
            self._hand_over()
        elif is_external:
            # The application may write there next: what was asked for before comes first.
            queue_of(self._life.device.gpu).wait(self)
        elif self._begun is not None and not size % LOOK_AFTER:
            self.collect_done()

    def go_on(self) -> None:
        """Do what `append` does when there is a command, for who appended some by machine code."""
        with self._life.lock:
            if self.pending.size >= self.pace.due:
                self._hand_over()
            else:
                self.collect_done()

    def _hand_over(self) -> None:
        """Give away what is pending: to the thread that encodes, if it is there, or the device."""
        if not self._encode_away():
            self.flush()

    @property
    def encoded(self) -> int:
        """The number of the last submission whose commands are encoded."""
        return self.submitted if self._begun is None else self._begun.number - 1

    def collect_done(self) -> None:
        """Submit what another thread has encoded, if it is done."""
        if self._begun is not None and self._away is not None and self._away.is_done:
            self._collect()

    def flush_for_application(self) -> None:
        """Do what `flush` does, from outside of the lock."""
        with self._life.lock:
            try:
                self.flush()
            finally:
                queue_of(self._life.device.gpu).done(self)

    def write(self, data: Array, target: Buffer) -> None:
        """Have the bytes, a uint8 array, written to a new buffer."""
        start = 0
        while start < len(data):
            source, offset, count = self.uploads.write(data[start:])
            self._append_upload(Staged(source, offset), StorageRange(target, start), count)
            start += count

    def uniform(self) -> Pointer:
        """Return the uniform buffer, for launches whose arguments do not travel with them."""
        if self._uniform is None:
            usage = wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST
            self._uniform = transfer_buffer(self._life, UNIFORMS, usage)
        return self._uniform._internal

    def grid(self) -> Pointer:
        """Return the buffer for the grid of a launch that is counted on the device."""
        if self._grid is None:
            usage = wgpu.BufferUsage.INDIRECT | wgpu.BufferUsage.COPY_DST
            self._grid = transfer_buffer(self._life, GRID_BYTES, usage)
        return self._grid._internal

    def append_arguments(self, arguments: bytes) -> int:
        """Return where the arguments of the next launch will be in the uniform buffer."""
        size = -(-len(arguments) // ALIGNMENT) * ALIGNMENT
        if len(self.pending.uniforms) + size > UNIFORMS:
            self.flush()
        uniforms = self.pending.uniforms
        offset = len(uniforms)
        uniforms += arguments.ljust(size, b"\0")
        return offset

    def flush(self) -> int:
        """Hand what was appended to the device and return the number of the last submission.

        Raises DeviceError if the device does not work.
        """
        self._life.check()
        self._collect()
        pending = self.pending
        if not len(pending):
            return pending.number - 1
        # Whole: commands that are dropped, or run twice, would be wrong values.
        with Uninterrupted():
            commands = self._validator.encode(pending)
            self.pending = Submission(pending.number + 1)
            self._submit(pending, commands)
        self.pace.submitted()
        self._bound_lead(pending.number)
        return pending.number

    def is_done(self, submission: int) -> bool:
        """Whether the device has done everything up to that submission."""
        self._life.check()
        self._collect_for(submission)
        if self._progress.completed < submission:
            poll(self._life.device.raw)
        return self._progress.completed >= submission

    def wait(self, submission: int) -> None:
        """Return when the device has done everything up to that submission.

        Raises DeviceError if there was no such submission, or the device is lost meanwhile.
        """
        if submission > self.submitted:
            raise DeviceError(
                f"wait requires a submission that was made, got {submission}; the last was "
                f"{self.submitted}"
            )
        self._collect_for(submission)
        self._poller.wait(lambda: self._progress.completed >= submission)
        self.note_wait()
        self._life.probe()

    async def wait_async(self, submission: int) -> None:
        """Return when the device has done everything up to it; the event loop runs on meanwhile."""
        self._collect_for(submission)
        await self._poller.wait_async(lambda: self._progress.completed >= submission)
        self.note_wait()
        self._life.probe()

    def note_wait(self) -> None:
        """Note that the host has waited: if for all that was submitted, the device is idle."""
        if self._progress.completed >= self.submitted:
            self.pace.rested()

    def end(self) -> None:
        """Let the thread that encodes end; nothing is appended any more."""
        if self._away is not None:
            self._away.end()
        self._away = self._begun = None

    def _encode_away(self) -> bool:
        """Have what is pending encoded by another thread; return whether it is."""
        if not self.pace.is_steady:
            return False
        # First: a launch of the job before may turn out to be illegal, and poison others.
        self._collect()
        pending = self.pending
        tables = pending.tables if self._validator.is_plain else None
        if tables is None:
            return False
        if not self._has_looked:
            self._has_looked = True
            self._away = EncodingThread.of(self._life.device.raw)
        if self._away is None:
            return False
        with Uninterrupted():
            self._away.begin(tables, pending)
            self._begun = pending
            self.pending = Submission(pending.number + 1)
        self.pace.begun(is_of_ops=len(pending.commands) == len(pending))
        return True

    def _collect(self) -> None:
        """Submit what another thread encodes, when it is done."""
        begun = self._begun
        if begun is None:
            return
        assert self._away is not None
        with Uninterrupted():
            commands = self._away.result()
            self._begun = None
            if commands is None:
                commands = self._validator.encode(begun)
            # It was encoded some time ago.
            self._life.probe()
            self._submit(begun, commands, is_away=True)
        self._bound_lead(begun.number)

    def _collect_for(self, submission: int) -> None:
        """See that a submission that somebody waits for is made."""
        if self._begun is not None and self._begun.number <= submission:
            with self._life.lock:
                self._collect()

    def _bound_lead(self, number: int) -> None:
        """Wait for the oldest submission, where too many are under way."""
        if number - self._progress.completed > IN_FLIGHT:
            self._poller.wait(lambda: self._progress.completed >= number - IN_FLIGHT)

    def _append_upload(self, source: Staged, target: StorageRange, nbytes: int) -> None:
        """Append it before all commands of the submission, if none of them touches the target."""
        pending = self.pending
        is_touched = target.contents.storage.last_use == pending.number
        append = pending.append if is_touched else pending.append_upload
        append(Copy("upload", source, target, nbytes))
        if len(pending) >= self.pace.due:
            self.flush()

    def _submit(
        self, submission: Submission, commands: Pointer | None, *, is_away: bool = False
    ) -> None:
        queue = self._life.device.queue
        # What another thread encoded uploads nothing: chunks that are filled are a later one's.
        chunks = [] if is_away else self.uploads.before_submit()
        try:
            with captured():
                if submission.uniforms:
                    data = ffi.from_buffer(submission.uniforms)
                    lib.wgpuQueueWriteBuffer(queue, self.uniform(), 0, data, len(data))
                if commands is not None:
                    self._life.check()
                    self._submitted[0] = commands
                    lib.wgpuQueueSubmit(queue, 1, self._submitted)
                self.uploads.after_submit(chunks)
                self._progress.watch(queue, submission.number)
        except NativeError as error:
            self._life.fail(f"a submission failed ({error})")
            self._life.check()
