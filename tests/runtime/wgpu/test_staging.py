"""Bytes pass through a bounded number of mapped chunks, whatever their number."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("wgpu")

from pyrite.kernel import Kernel
from pyrite.runtime.wgpu import WgpuRuntime
from pyrite.runtime.wgpu.pace import Pace
from pyrite.runtime.wgpu.staging import CHUNK, CHUNKS
from pyrite.types import DTYPES, float32, uint8


@pytest.mark.parametrize("nbytes", [1, 3, 4, 5, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
def test_bytes_come_back_as_they_went(runtime: WgpuRuntime, nbytes: int) -> None:
    data = np.random.default_rng(0).integers(0, 256, nbytes, np.uint8)

    got = runtime.read(runtime.upload(data), uint8, (nbytes,))

    np.testing.assert_array_equal(got, data)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_values_of_every_dtype_pass(runtime: WgpuRuntime, dtype: object) -> None:
    data = np.arange(6).astype(dtype.numpy).reshape(2, 3)  # type: ignore[attr-defined]

    got = runtime.read(runtime.upload(data.T), dtype, (3, 2))  # type: ignore[arg-type]

    np.testing.assert_array_equal(got, data.T)


def test_nothing_passes_too(runtime: WgpuRuntime) -> None:
    empty = runtime.upload(np.zeros((0, 3), np.float32))

    assert runtime.read(empty, float32, (0, 3)).shape == (0, 3)


def test_an_upload_larger_than_all_chunks_passes_in_bounded_memory(runtime: WgpuRuntime) -> None:
    data = np.arange((CHUNKS + 2) * CHUNK // 4, dtype=np.uint32).view(np.uint8)

    buffer = runtime.upload(data)

    assert runtime.report()["staging_bytes"] <= CHUNKS * CHUNK
    np.testing.assert_array_equal(runtime.read(buffer, uint8, data.shape), data)


def test_many_uploads_and_reads_use_few_chunks(runtime: WgpuRuntime) -> None:
    for i in range(200):
        buffer = runtime.upload(np.full(100, i, np.uint8))
        assert runtime.read(buffer, uint8, (100,))[0] == i

    assert runtime.report()["staging_bytes"] <= 3 * CHUNK


def test_an_upload_takes_its_place_among_launches(runtime: WgpuRuntime, scale: Kernel) -> None:
    kernel = runtime.compile(scale)
    y, z = runtime.allocate(256), runtime.allocate(256)
    for number, target in ((1, y), (2, z)):
        x = runtime.upload(np.full(64, number, np.float32))
        storage = x.storage
        runtime.launch(kernel, [x, target, 64, 10.0], [1])
        # Nobody holds it now, so the next upload gets its memory, which the launch has yet to read.
        del x

    values = runtime.read_all([(y, float32, (64,)), (z, float32, (64,))])

    assert [v[0] for v in values] == [10.0, 20.0]
    assert runtime.upload(np.zeros(64, np.float32)).storage is storage


def test_several_reads_are_one_transaction(runtime: WgpuRuntime) -> None:
    runtime._queue.pace = Pace(is_early=False)
    buffers = [runtime.upload(np.full(10, i, np.uint8)) for i in range(5)]
    before = runtime.report()

    values = runtime.read_all([(b, uint8, (10,)) for b in buffers])

    assert [v[0] for v in values] == [0, 1, 2, 3, 4]
    assert runtime.report()["read_backs"] == before["read_backs"] + 1
    assert runtime.report()["submissions"] == before["submissions"] + 1


def test_free_staging_memory_is_given_back(runtime: WgpuRuntime) -> None:
    runtime.read(runtime.upload(np.zeros(100, np.uint8)), uint8, (100,))
    runtime.synchronize()

    runtime.trim()

    assert runtime.report()["staging_bytes"] == 0
    assert runtime.memory_report().reserved == 0
