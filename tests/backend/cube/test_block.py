"""One block for many buffers: what is in use together lies apart, and little is wasted."""

from __future__ import annotations

import numpy as np
import pytest

import pyrite
from pyrite.backend.cube.block import Use, block_of, hosted, least_bytes

ALIGNMENT = 64


def some(seed: int) -> list[Use]:
    """Return uses as a network has them: many short ones, and some from forward to backward."""
    rng = np.random.default_rng(seed)
    found = []
    for n in range(int(rng.integers(1, 90))):
        end = n + int(rng.integers(0, 5)) if rng.random() < 0.7 else 200 - n
        found.append(Use(int(rng.integers(0, 4000)) * int(rng.choice([1, 16])), n, end))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_parts_in_use_together_do_not_overlap(seed: int) -> None:
    uses = some(seed)
    plan = block_of(uses, ALIGNMENT)
    pairs = list(zip(uses, plan.offsets, strict=True))
    for n, (one, at) in enumerate(pairs):
        assert at % ALIGNMENT == 0
        assert at + one.nbytes <= plan.nbytes
        for other, start in pairs[:n]:
            apart = at + one.nbytes <= start or start + other.nbytes <= at
            assert apart or not one.meets(other) or 0 in (one.nbytes, other.nbytes)
    assert plan.nbytes >= least_bytes(uses)
    assert plan.nbytes <= 1.3 * least_bytes(uses) + ALIGNMENT * len(uses)


@pytest.mark.parametrize("seed", range(30))
def test_what_is_hosted_is_done_before_its_host_begins(seed: int) -> None:
    uses, hosts = dict(enumerate(some(seed))), dict(enumerate(some(seed + 100), 1000))
    places = hosted(uses, hosts)
    for n, host in places.items():
        assert uses[n].end < hosts[host].begin
        assert uses[n].nbytes <= hosts[host].nbytes
        assert not any(
            uses[n].meets(uses[m]) for m, other in places.items() if other == host and m != n
        )


def test_uses_that_never_meet_share_their_place() -> None:
    uses = [Use(100, n, n) for n in range(50)]
    assert block_of(uses, ALIGNMENT).nbytes == least_bytes(uses) == 100
    assert block_of([], ALIGNMENT).nbytes == least_bytes([]) == 0


def test_a_program_makes_no_more_memory_than_is_in_use_at_once() -> None:
    device = pyrite.fusion("cpu")
    runtime = device.backend.root.runtime  # type: ignore[attr-defined]
    values = np.random.default_rng(0).standard_normal((200, 120), dtype=np.float32)

    def chain(x: pyrite.Tensor) -> pyrite.Tensor:
        y = x
        for n in range(12):
            y = x[:, : 120 - 7 * n].mT @ (x @ (x.mT @ y)) * 1e-5
            y = (
                x
                @ x[:, : y.shape[0]]
                .mT[: y.shape[0]]
                .mT.sum(0)
                .reshape((-1, 1))
                .expand((y.shape[0], 120))[:1]
                .expand((120, 120))
                + y.mean()
            )
        return y

    x = pyrite.tensor(values, device=device)
    expected = chain(pyrite.tensor(values, device="cpu")).numpy()
    before = runtime.memory_report().live
    y = chain(x)
    device.synchronize()
    assert runtime.memory_report().live <= before + 1.25 * y.numpy().nbytes
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)
    programs = device.backend.recorded.programs._young.values()  # type: ignore[attr-defined]
    recording = max((program.recording for program in programs), key=lambda r: len(r.parts))
    assert len(recording.parts) > 5
    assert recording.block + sum(recording.sizes) < 4 * values.nbytes
