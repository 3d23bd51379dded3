"""Waiting for a device: it is asked again and again, with sleeps between.

`pyrite.synchronization.pauses` says how long they are.  A wait inside wgpu-native would keep every
other thread from submitting until the device is idle.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.native import poll, poll_in_turn
from pyrite.synchronization import SHORTEST_SLEEP, pauses, sleep

#: Seconds for which a device in software is left to its work, or another thread to its questions.
NAP: Final = 1e-6

#: The most seconds between two questions.  Half a millisecond is a hundredth of 20 ms too late in
#: the mean, which are seven products of 4096 on an H200.
LONGEST_IN_SOFTWARE: Final = 5e-4
LONGEST: Final = 1e-4

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
        device = self._life.device
        # A device in software has use for the processor that would only ask.
        shortest, least = (0.0, NAP) if device.is_software else (SHORTEST_SLEEP, 0.0)
        longest = LONGEST_IN_SOFTWARE if device.is_software else LONGEST
        for pause in pauses(shortest, longest):
            self._life.check()
            is_alone = poll_in_turn(device.raw)
            if question():
                return
            # Python before 3.14 sleeps some 50 µs where it is asked for no pause.
            if pause := max(pause, least if is_alone else NAP):
                time.sleep(pause)

    async def wait_async(self, question: Question) -> None:
        """Return when the answer is yes; the event loop runs on meanwhile."""
        for pause in pauses():
            if self.is_now(question):
                return
            await sleep(pause)
