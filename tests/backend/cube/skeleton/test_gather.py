"""Reading by index gives the same, however many neighbours are read at one index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.skeleton.each import EachConfig
from pyrite.backend.cube.skeleton.gather import kernel
from pyrite.backend.cube.skeleton.gather.config import GatherConfig, candidates, select
from pyrite.backend.device import Device
from pyrite.errors import IndexRangeError
from pyrite.tensor.creation import tensor
from pyrite.testing.memory import contents

GPU = Machine("gpu", 4, (64, 32), 65535)
CPU = Machine("cpu", 16, (1,), 2**31 - 1)


@pytest.mark.parametrize("machine", [GPU, CPU], ids=lambda m: m.kind)
def test_every_candidate_reads_the_same(
    fresh: Device, monkeypatch: pytest.MonkeyPatch, machine: Machine
) -> None:
    rng = np.random.default_rng(0)
    array = rng.normal(size=(7, 16)).astype(np.float32)
    rows = rng.integers(-7, 7, (5, 2)).astype(np.int32)
    x, index = tensor(array, device=fresh), tensor(rows, device=fresh)
    for config in candidates((5, 2, 16), True, machine):
        monkeypatch.setattr(kernel, "select", lambda *_, found=config: found)

        np.testing.assert_array_equal(x.take(index, 0).numpy(), array[rows], str(config))
        np.testing.assert_array_equal(x.embedding(index).numpy(), array[rows], str(config))
        found = x.gather_nd(index.reshape(5, 2, 1)).numpy()
        np.testing.assert_array_equal(found, array[rows], str(config))


def test_an_index_outside_gives_a_row_of_zeros(fresh: Device) -> None:
    x = tensor(np.ones((3, 8), np.float32), device=fresh)
    found = x.take(tensor(np.array([0, 3], np.int32), device=fresh), 0)

    with pytest.raises(IndexRangeError, match="take requires -3 <= index < 3"):
        found.numpy()
    np.testing.assert_array_equal(contents(found), [[1] * 8, [0] * 8])


@pytest.mark.parametrize(
    ("machine", "shape", "has_neighbours", "config"),
    [
        (CPU, (500, 64), True, GatherConfig(EachConfig(1), 16)),
        (CPU, (500, 64), False, GatherConfig(EachConfig(256), 1)),
        (GPU, (500, 64), True, GatherConfig(EachConfig(64), 4)),
        (GPU, (500, 63), True, GatherConfig(EachConfig(64), 1)),
    ],
)
def test_neighbours_are_read_as_vectors(
    machine: Machine, shape: Any, has_neighbours: bool, config: GatherConfig
) -> None:
    assert select(shape, has_neighbours, machine) == config
