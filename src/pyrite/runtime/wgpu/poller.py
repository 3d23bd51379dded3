"""Waiting for a device: it is asked again and again, with sleeps between.

`pyrite.synchronization.pauses` says how long they are.  A wait inside wgpu-native would keep every
other thread from submitting until the device is idle.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.native import poll
from pyrite.synchronization import SHORTEST_SLEEP, pauses, sleep

#: Asks something that the callbacks of finished work change.
Question = Callable[[], bool]


class Poller:
    """Waits for the device of a life.  Its methods raise DeviceError when the device ends."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def is_now(self, question: Question) -> bool:
        """Return the answer, after the callbacks of what is finished have run."""
        self._life.check()
        poll(self._life.device.raw)
        return question()

    def wait(self, question: Question) -> None:
        """Return when the answer is yes."""
        # A device in software has use for the processor that would only ask.
        shortest = 0.0 if self._life.device.is_software else SHORTEST_SLEEP
        for pause in pauses(shortest):
            if self.is_now(question):
                return
            time.sleep(pause)

    async def wait_async(self, question: Question) -> None:
        """Return when the answer is yes; the event loop runs on meanwhile."""
        for pause in pauses():
            if self.is_now(question):
                return
            await sleep(pause)
