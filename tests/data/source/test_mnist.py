"""IDX files of every dtype are read; damaged, foreign and hostile ones are one clear error."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrite.data import mnist, read_idx
from pyrite.errors import ArgumentError, DataError

CODES = {"u1": 0x08, "i1": 0x09, ">i2": 0x0B, ">i4": 0x0C, ">f4": 0x0D, ">f8": 0x0E}


def idx(array: Any, code: str = "u1", shape: tuple[int, ...] | None = None) -> bytes:
    """The bytes of an IDX file, its header as given."""
    array = np.asarray(array)
    sizes = array.shape if shape is None else shape
    header = struct.pack(f">HBB{len(sizes)}I", 0, CODES[code], len(sizes), *sizes)
    return header + array.astype(code).tobytes()


def zipped(data: bytes) -> bytes:
    """Compressed, without the time of day: tests are named by their data."""
    return gzip.compress(data, mtime=0)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_every_dtype_is_read_in_native_order(
    written: Callable[..., Path], code: str, pack: Any
) -> None:
    array = np.arange(24).reshape(2, 3, 4)
    got = read_idx(written("data.idx", pack(idx(array, code))))
    assert got.dtype == np.dtype(code).newbyteorder("=")
    assert got.dtype.isnative
    np.testing.assert_array_equal(got, array)


def test_an_array_without_values_is_read(written: Callable[..., Path]) -> None:
    assert read_idx(written("data.idx", idx(np.zeros((0, 28, 28))))).shape == (0, 28, 28)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"4 bytes of magic number, got .*data.idx"),
        (b"\x00\x00", r"4 bytes of magic number"),
        (b"\x89PNG\r\n\x1a\n", r"a magic number .*, got 89 50 4e 47: .*data.idx"),
        (b"\x00\x00\x0a\x01\x00\x00\x00\x01\x00", r"a magic number .*, got 00 00 0a 01"),
        (b"\x00\x00\x08\xff" + bytes(2000), r"at most 32 axes, got 255"),
        (b"\x00\x00\x08\x03\x00\x00", r"12 bytes of axis lengths"),
        (idx(np.zeros(10))[:-3], r"10 bytes of values of shape \(10,\), got 7; .*truncated"),
        (idx(np.zeros(10)) + b"\x00", r"the file to end after its data: .*data.idx"),
        (idx([0], "u1", (2**20,) * 3), r"1152921504606846976 bytes of values .* holds at most"),
        (idx([0], ">f8", (2**32 - 1,) * 32), r"over 2\*\*63 bytes of values .* holds at most 140"),
        (idx([], "u1", (0, *(2**32 - 1,) * 3)), r"axes of an array, got shape \(0, 4294967295"),
        (zipped(idx(np.zeros(10)))[:-4], r"an undamaged file, got Compressed file ended"),
        (zipped(bytes(10**4))[:30], r""),
        (
            zipped(idx([0], "u1", (2**20,) * 3)),
            r"1152921504606846976 bytes of values .* holds at most",
        ),
        (b"\x1f\x8bfoo" + bytes(20), r"an undamaged file, got Unknown compression method"),
        (b"\x1f\x8b", r""),
    ],
)
def test_a_bad_file_is_one_clear_error_and_takes_no_memory(
    written: Callable[..., Path], data: bytes, message: str
) -> None:
    path = written("data.idx", data)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=f"idx requires {message}") as caught:
            read_idx(path)
        assert str(path) in str(caught.value)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_damaged_checksum_is_an_error(written: Callable[..., Path]) -> None:
    packed = bytearray(gzip.compress(idx(np.arange(200))))
    packed[-5] ^= 0xFF
    with pytest.raises(DataError, match="an undamaged file, got CRC check failed"):
        read_idx(written("data.idx", bytes(packed)))


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"readable file, got .*absent: No such file"):
        read_idx(tmp_path / "absent")


def test_mnist_reads_both_splits_packed_or_not_and_both_spellings(tmp_path: Path) -> None:
    images = np.arange(2 * 3 * 4).reshape(2, 3, 4) * 10
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(images))
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx([3, 1])))
    (tmp_path / "t10k-images.idx3-ubyte").write_bytes(idx(images[:1]))
    (tmp_path / "t10k-labels.idx1-ubyte").write_bytes(idx([9]))
    train, test = mnist(tmp_path), mnist(tmp_path, "test")
    assert (len(train), len(test)) == (2, 1)
    pixels, label = train[1]
    assert label == 1
    assert pixels.shape == (1, 3, 4)
    np.testing.assert_array_equal(pixels[0], (images[1] / 255).astype(np.float32))


def test_images_and_labels_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    images = tmp_path / "train-images-idx3-ubyte"
    labels = tmp_path / "train-labels-idx1-ubyte"
    images.write_bytes(idx(np.zeros((2, 3, 4))))
    labels.write_bytes(idx([1, 2, 3]))
    with pytest.raises(DataError, match=r"labels of uint8 \(2,\), got uint8 \(3,\) in .*labels"):
        mnist(tmp_path)
    images.write_bytes(idx(np.zeros((2, 3))))
    with pytest.raises(DataError, match=r"images of uint8 \(N, H, W\), got uint8 \(2, 3\) in"):
        mnist(tmp_path)


def test_a_folder_without_the_files_names_what_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"one of \['train-images-idx3-ubyte', .* got none"):
        mnist(tmp_path)
    with pytest.raises(ArgumentError, match="'train' or 'test', got 'valid'"):
        mnist(tmp_path, "valid")  # type: ignore[arg-type]
