"""Every config of an elementwise kernel writes every element, and no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.skeleton.elementwise import candidates, map_elements, select
from pyrite.backend.device import Device
from pyrite.tensor.creation import tensor
from pyrite.types import TensorType, float32

GPU = Machine("gpu", 4, (256, 128, 64, 32), 65535)
CPU = Machine("cpu", 16, (1,), 2**31 - 1)


@pytest.mark.parametrize("machine", [GPU, CPU], ids=lambda m: m.kind)
@pytest.mark.parametrize("shape", [(1,), (5,), (64,), (67,), (3, 8), (3, 5), (2, 3, 6), (32, 6)])
def test_every_candidate_writes_what_it_should(fresh: Device, machine: Machine, shape: Any) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    twice = np.repeat(array, 2, axis=-1)
    x = tensor(twice, device=fresh)[..., ::2]._handle
    row = tensor(array[..., :1].copy(), device=fresh)._handle
    part = tensor(np.tile(array, 3), device=fresh)[..., 1 : 1 + shape[-1]]._handle
    for config in candidates(shape, machine):
        target = backend.launcher.empty(TensorType(shape, float32))
        map_elements(
            backend.launcher, "add", "", lambda _, x, y, z: x + y * z, [x, row, part], target,
            config,
        )  # fmt: skip
        want = array + array[..., :1] * np.tile(array, 3)[..., 1 : 1 + shape[-1]]
        np.testing.assert_array_equal(backend.download(target), want)


def test_a_strided_target_keeps_what_lies_between(fresh: Device) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    whole = tensor(np.zeros((4, 6), np.float32), device=fresh)
    part = whole[1:3, ::2]._handle
    map_elements(backend.launcher, "one", "", lambda k: 1.0, [], part)
    want = np.zeros((4, 6))
    want[1:3, ::2] = 1

    np.testing.assert_array_equal(whole.numpy(), want)


@pytest.mark.parametrize("machine", [GPU, CPU], ids=lambda m: m.kind)
@pytest.mark.parametrize("shape", [(1,), (7,), (1 << 20,), (3, 5), (3, 1 << 10), (64, 8)])
def test_what_is_selected_is_a_candidate(machine: Machine, shape: Any) -> None:
    assert select(shape, machine) in candidates(shape, machine)


def test_rows_of_an_odd_size_are_read_by_masked_vectors_on_a_cpu() -> None:
    assert [select((64, n), CPU).width for n in (254, 127, 10, 3, 24, 48)] == [
        16,
        16,
        16,
        4,
        16,
        16,
    ]
    assert [select((64, n), GPU).width for n in (254, 127, 10, 3, 24, 48)] == [2, 1, 2, 1, 4, 4]


def test_an_aligned_row_is_read_by_vectors(fresh: Device) -> None:
    x = tensor(np.arange(64, dtype=np.float32).reshape(8, 8), device=fresh)

    np.testing.assert_array_equal((x[:, 4:] + 1.0).numpy(), x.numpy()[:, 4:] + 1)
    np.testing.assert_array_equal((x[:, 1:5] + 1.0).numpy(), x.numpy()[:, 1:5] + 1)
    np.testing.assert_array_equal((x.flip(1) + 1.0).numpy(), x.numpy()[:, ::-1] + 1)


def test_a_transposed_source_is_read_in_blocks_of_rows_on_a_cpu() -> None:
    assert select((64, 32), CPU, is_turned=True).rows == 16
    assert select((63, 32), CPU, is_turned=True).rows == 16
    assert select((64, 32), GPU, is_turned=True).rows == 1
