"""The recording of one op's lowering, for calls of the same types and layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyrite.backend.cube.launcher import Given, Launcher
from pyrite.backend.cube.recording import Recording
from pyrite.backend.cube.recording_launcher import Kept, RecordingLauncher
from pyrite.backend.cube.registry import means_of
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.means import note_means
from pyrite.op import Attributes, Op
from pyrite.types import TensorType


def record(
    launcher: Launcher,
    lowering: Callable[..., Sequence[CubeTensor]],
    op: Op,
    inputs: Sequence[Any],
    attrs: Attributes,
    out: tuple[TensorType, ...] | None,
    *,
    comes_first: bool = True,
) -> tuple[Recording, Kept, Sequence[Given]]:
    """Return the recording of a lowering for such inputs, and what calls of other sizes keep.

    The third is what gives launches of an application's kernels their numbers at other calls.
    With ``comes_first`` kernels may have the sizes built in.
    """
    recorder = RecordingLauncher(launcher, inputs)
    recorder.comes_first, recorder.is_of_one_op = comes_first, True
    before = launcher.built
    results = lowering(recorder, op, recorder.inputs, attrs, out)
    built = launcher.built - before
    note_means(launcher.runtime.name, op.name, means_of(op, lowering), built)
    return recorder.recording(results, op.name), recorder.kept, recorder.given
