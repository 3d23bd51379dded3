"""Launches by one loop of machine code: the same as by Python, whatever their numbers are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

from pyrite.errors import KernelError
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.runtime.protocol import BundledLaunch, Fixed
from pyrite.runtime.wgpu import WgpuRuntime, native_calls, submission
from pyrite.types import float32

COUNT = 64


class Ready(native_calls.LoopLater):
    """The loop, at once."""

    def after(self, launches: int) -> native_calls.Loop | None:
        return native_calls.loop()


class Never(native_calls.LoopLater):
    """No loop."""

    def after(self, launches: int) -> native_calls.Loop | None:
        return None


def filled(numbers: int) -> Kernel:
    """Return a kernel that writes the sum of so many numbers, 4 bytes each, to each element."""
    b = KernelBuilder(f"filled_{numbers}", workgroup_size=COUNT)
    out = b.buffer("out", float32, "write")
    total: Any = 1.0
    for n in range(numbers):
        total = b.scalar(f"n{n}", float32) + total
    out[b.global_id()] = total
    return b.build()


def test_numbers_of_any_size_travel_in_the_rows(
    runtime: WgpuRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows without numbers, and with 4 to 20 bytes of them, fixed and varying, side by side."""
    found = []
    for later in (Ready(), Never()):
        monkeypatch.setattr(submission, "later", later)
        outs = []
        for count in (0, 1, 2, 3, 5, 0, 4, 1):
            executable = runtime.compile(filled(count))
            for is_fixed in (True, False):
                given = [10**n for n in range(count)]
                places: list[Any] = [Fixed(n) if is_fixed else at for at, n in enumerate(given, 1)]
                bundle = runtime.bundle([BundledLaunch(executable, (0, *places), (1,))])
                for _ in range(2):
                    out = runtime.allocate(4 * COUNT)
                    bundle.launch([out, *given])
                    outs.append(out)
        values = [runtime.read(out, float32, (COUNT,)) for out in outs]
        assert all((v == v[0]).all() for v in values)
        found.append([v[0] for v in values])

    sums = [1 + int("1" * n or 0) for n in (0, 1, 2, 3, 5, 0, 4, 1) for _ in range(4)]
    assert found == [sums, sums]


def test_one_that_is_not_legal_is_told_from_those_beside_it(
    runtime: WgpuRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "later", Ready())
    bundle = runtime.bundle([BundledLaunch(runtime.compile(filled(1)), (0, 1), (1,))])
    outs = [runtime.allocate(4 * COUNT) for _ in range(5)]
    for n, out in enumerate(outs):
        bundle.launch([out, n])
    command: Any = runtime._queue.pending.commands[2]
    row = np.frombuffer(command.row[: native_calls.ROW.itemsize], native_calls.ROW).copy()
    row["grid"] = (100_000, 1, 1)
    command.row = row.tobytes() + command.row[native_calls.ROW.itemsize :]
    runtime.flush()

    assert outs[2].contents.error is not None
    assert isinstance(outs[2].contents.error, KernelError)
    for n in (0, 1, 3, 4):
        assert runtime.read(outs[n], float32, (COUNT,)).tolist() == [n + 1.0] * COUNT


def test_the_loop_is_made_by_another_thread_for_who_makes_many_launches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = object()
    monkeypatch.setattr(native_calls, "loop", lambda: made)
    later = native_calls.LoopLater()

    assert later.after(native_calls.LAUNCHES_BEFORE - 1) is None
    later.after(1)
    later.join()

    assert later.after(1) is made


def test_a_number_that_does_not_fit_is_an_error_of_its_call(
    runtime: WgpuRuntime, scale: Kernel
) -> None:
    bundle = runtime.bundle([BundledLaunch(runtime.compile(scale), (0, 1, 2, Fixed(2.0)), (1,))])
    x, y = (runtime.allocate(4 * COUNT) for _ in range(2))

    with pytest.raises(KernelError, match=r"scale' requires numbers .* got \[4294967296, 2.0\]"):
        bundle.launch([x, y, 2**32])
