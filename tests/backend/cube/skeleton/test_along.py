"""A row is written once and whole, however many of its elements are written together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.operand import iota
from pyrite.backend.cube.skeleton.along import (
    Along,
    AlongConfig,
    Block,
    Lanes,
    along_rows,
    candidates,
    select,
)
from pyrite.backend.device import Device
from pyrite.kernel import Value
from pyrite.tensor.creation import tensor

GPU = Machine("gpu", 4, (256, 128, 64, 32), 65535)
CPU = Machine("cpu", 16, (1,), 2**31 - 1)


def doubled(along: Along, problem: None) -> None:
    """out = 2 x, by whole vectors from the third element on, and by blocks of two from there."""
    (x,), (out,) = along.sources, along.targets

    def write(lanes: Lanes) -> None:
        at = x.at([*along.row, lanes.first])
        value = x.load_along(at, lanes.width, mask=lanes.mask)
        out.store_along(out.at([*along.row, lanes.first]), value + value, mask=lanes.mask)

    def pair(first: Value, is_masked: bool) -> None:
        for begin in (first, first + along.width):
            mask = begin + iota(along.b, along.width) < along.length if is_masked else None
            write(Lanes(begin, along.width, mask))

    def fits(first: Value) -> Value:
        return first >= 3

    along.write(write, fits, Block(2, fits, pair) if along.width > 1 else None)


@pytest.mark.parametrize("machine", [GPU, CPU], ids=lambda m: m.kind)
@pytest.mark.parametrize("shape", [(5,), (2, 3, 33), (3, 32)])
def test_every_candidate_writes_every_element(
    fresh: Device, machine: Machine, shape: tuple[int, ...]
) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    x = tensor(array, device=fresh)
    for config in candidates(shape, machine):
        target = backend.launcher.empty(x._type)
        along_rows(backend.launcher, "doubled", None, [x._handle], [target], doubled, config)
        np.testing.assert_array_equal(backend.download(target), array * 2, err_msg=str(config))


@pytest.mark.parametrize("machine", [GPU, CPU], ids=lambda m: m.kind)
def test_what_is_selected_is_a_candidate(machine: Machine) -> None:
    for length, widest in itertools.product((1, 3, 16, 1000), (1, 16)):
        found = select((4, length), machine, widest=widest)

        assert found in candidates((4, length), machine, widest=widest)
        assert found.width <= min(widest, machine.vector)


def test_a_processor_takes_rows_by_vectors_and_a_gpu_points() -> None:
    assert select((8, 512), CPU) == AlongConfig(1, 16, takes_row=True)
    assert select((8, 7), CPU) == AlongConfig(1, 8, takes_row=True)
    assert select((8, 512), GPU) == AlongConfig(256, 1, takes_row=False)
