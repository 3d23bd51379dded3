"""Loops of more rounds than Mesa's llvmpipe runs: right, or an error; never silently cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device, device_problem
from pyrite.errors import KernelError
from pyrite.extension import kernel
from pyrite.types import TensorType, int32


@kernel
def counted(k: Any, x: Any, out: Any, *, rounds: Any) -> None:
    total = 0
    for _ in range(rounds):
        total += x[0]
    out[k.at] = total


@kernel(static=("rounds",))
def known(k: Any, x: Any, out: Any, *, rounds: Any) -> None:
    total = 0
    for n in range(0, rounds * 3, 3):
        total += x[0] if n >= 0 else 0
    out[k.at] = total


@kernel
def nested(k: Any, x: Any, out: Any, *, rounds: Any) -> None:
    total = 0
    for _ in range(3):
        for _ in range(rounds // 3):
            total += x[0]
    for _ in range(rounds % 3):
        total += x[0]
    out[k.at] = total


@kernel
def waiting(k: Any, x: Any, out: Any, *, rounds: Any) -> None:
    total = 0
    while total < rounds:
        total += x[0]
    out[k.at] = total


@kernel
def leaving(k: Any, x: Any, out: Any, *, rounds: Any) -> None:
    total = 0
    for n in range(10 * rounds):
        if n == rounds:
            break
        total += x[0]
    out[k.at] = total


@kernel
def parting(k: Any, x: Any, out: Any, *, rounds: Any) -> None:
    (i,) = k.at
    total = 0
    for _ in range(rounds if i == 2 else 5):
        total += x[0]
    out[i] = total


@pytest.fixture(params=["cpu", "wgpu"])
def device(request: pytest.FixtureRequest) -> Device:
    """Those on which 70,000 rounds take no time."""
    if problem := device_problem(request.param):
        pytest.skip(problem)
    return pyrite.device(request.param)


KERNELS = (counted, known, nested, waiting, leaving, parting)


def rounds_of(device: Device, made: Any, rounds: int) -> Any:
    @custom_op(infer=lambda x, **_: TensorType((3,), int32), kernels=[made])
    def op(x: Tensor, /, *, rounds: int) -> Tensor:
        """The number of rounds."""
        ...

    one = pyrite.tensor([1], dtype="int32", device=device)
    return op(one, rounds=rounds).numpy()


@pytest.mark.parametrize("made", KERNELS, ids=lambda m: m.name)
def test_long_loops_are_right_or_an_error(device: Device, made: Any) -> None:
    backend = device.backend.root
    assert isinstance(backend, CubeBackend)
    assert rounds_of(device, made, 60_000)[2] == 60_000
    if backend.launcher.machine.rounds is None:
        assert rounds_of(device, made, 70_000)[2] == 70_000
        return
    with pytest.raises(KernelError, match=rf"at most 65535 rounds.*, in kernel '{made.name}'"):
        rounds_of(device, made, 70_000)
    assert rounds_of(device, made, 1000)[2] == 1000


def test_short_loops_are_not_watched() -> None:
    """What is known to end in time has no error word."""
    if device_problem("wgpu"):
        pytest.skip("no wgpu")
    types = [TensorType((1,), int32)], [TensorType((3,), int32)]
    assert "error_word" not in known.source("wgpu", *types, rounds=60_000)


def test_an_attention_of_many_rows(device: Device) -> None:
    """It was wrong without a word: 512 rows of 64 features are 65536 rounds and more."""
    rows, features = 512, 64

    @kernel(workgroup_size=1, grid=lambda q, *_: (2,))
    def scores(k: Any, q: Any, keys: Any, out: Any) -> None:
        i, total = k.workgroup_id(), 0.0
        for j in range(keys.shape[0]):
            score = 0.0
            for d in range(features):
                score += q[i, d] * keys[j, d]
            for d in range(features):
                score -= q[i, d]
            total = max(total, score)
        out[i] = total

    @custom_op(infer=lambda q, keys: TensorType((2,), q.dtype), kernels=[scores])
    def op(q: Tensor, keys: Tensor, /) -> Tensor:
        """The greatest score of two rows."""
        ...

    random = np.random.default_rng(0)
    q, keys = (random.normal(size=(n, features)).astype("f4") for n in (2, rows))
    keys[-1] = 9.0 * q[0]
    given = [pyrite.tensor(x, device=device) for x in (q, keys)]
    backend = device.backend.root
    assert isinstance(backend, CubeBackend)
    if backend.launcher.machine.rounds is not None:
        with pytest.raises(KernelError, match="at most 65535 rounds"):
            op(*given).numpy()
        return
    wanted = np.maximum((q @ keys.T).max(1) - q.sum(1), 0.0)
    np.testing.assert_allclose(op(*given).numpy(), wanted, rtol=1e-4)
