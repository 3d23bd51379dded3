"""A launch on `cpu` that its caller makes himself, on memory that he has.

What other backends of the host have no kernel for is small work for which a buffer, a stream and a
wait take longer than the kernel.  What was recorded of a call is one command; whoever has addresses
for it can run that as it stands.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from operator import itemgetter
from struct import Struct
from typing import Any, Final

from pyrite.backend.cube.backend import CubeBackend
from pyrite.backend.cube.native_call import NativeReplay
from pyrite.backend.cube.recording import Recording
from pyrite.backend.cube.recording_key import key_of_plan
from pyrite.op import Op, Plan
from pyrite.runtime.cpu.bundle import Commands, CpuBundle
from pyrite.runtime.cpu.executor import HEADER

_FUNCTION: Final = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)
_WORD: Final = 8
#: Words of a command before what its function gets: see `executor.ll`.
_OWN: Final = HEADER - 3


class DirectLaunch:
    """The one launch of a recorded call; a call of it runs all of that on this thread.

    It is given the addresses of tensors, that of the result, and the numbers.
    """

    __slots__ = ("_count", "_fixed", "_function", "_head", "_held", "_ordered", "_pack")

    def __init__(self, recording: Recording, commands: Commands) -> None:
        words = memoryview(commands.words).cast("q")
        operands = {at: (operand, code) for at, operand, code in commands.given}
        first, count = min(operands), 1 + max(operand for operand, _ in operands.values())
        self._function = _FUNCTION(words[0])
        self._count = words[1]
        self._head = commands.words[_OWN * _WORD : first * _WORD]
        #: What stands between and behind operands, as if it were more of them.
        fixed = [at for at in range(first, len(words)) if at not in operands]
        self._fixed = tuple(words[at] for at in fixed)
        places = operands | {at: (count + n, "q") for n, at in enumerate(fixed)}
        order = [places[at][0] for at in sorted(places)]
        self._ordered: Any = itemgetter(*order) if len(order) > 1 else tuple
        self._pack = Struct("=" + "".join(places[at][1] for at in sorted(places))).pack
        #: What has the code.
        self._held = recording

    def __call__(self, *operands: float) -> None:
        """Run it.  Whose memory it is has to hold that, in row-major order and whole."""
        operands += self._fixed
        given = self._pack(*self._ordered(operands))
        self._function(self._head + given, 0, self._count)


def direct_launch(
    backend: CubeBackend, op: Op, inputs: Sequence[Any], plan: Plan
) -> DirectLaunch | None:
    """Return the launch of a call of dense tensors, which is made once; None where it is no such.

    So it is where memory is guarded, and where a call is several launches.
    """
    for _ in range(2):  # the first time its code may be compiled meanwhile
        backend.execute(op, inputs, plan)
        backend.synchronize()
    replay = backend.replay_of(key_of_plan(plan, inputs))
    recording = replay.replay if isinstance(replay, NativeReplay) else replay
    if not isinstance(recording, Recording) or not isinstance(recording.bundle, CpuBundle):
        return None
    commands = recording.bundle.commands
    is_plain = recording.only is not None and len(recording.sizes) == 1 and not recording.faults
    if commands is None or len(recording.steps) != 1 or not is_plain:
        return None  # as where it is for no elements
    return DirectLaunch(recording, commands)
