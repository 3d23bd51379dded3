"""Records of labels and planes are read; other files are one clear error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyrite.data import cifar10, cifar100
from pyrite.errors import ArgumentError, DataError

PLANES = np.repeat(np.array([255, 51, 0], np.uint8), 1024)


def record(*labels: int) -> bytes:
    return bytes(labels) + PLANES.tobytes()


def test_cifar10_joins_the_five_training_files(tmp_path: Path) -> None:
    for number in range(1, 6):
        (tmp_path / f"data_batch_{number}.bin").write_bytes(record(number) + record(0))
    (tmp_path / "test_batch.bin").write_bytes(record(9))
    train, test = cifar10(tmp_path), cifar10(tmp_path, "test")
    assert [image.label for image in train] == [1, 0, 2, 0, 3, 0, 4, 0, 5, 0]
    assert test[0].label == 9
    assert test[0].pixels.shape == (3, 32, 32)
    assert test[0].pixels.dtype == np.float32
    np.testing.assert_allclose(test[0].pixels[:, 5, 7], [1.0, 0.2, 0.0])


def test_pixels_are_stored_row_by_row(tmp_path: Path) -> None:
    ramp = np.arange(3072) % 251
    (tmp_path / "test_batch.bin").write_bytes(b"\x00" + ramp.astype(np.uint8).tobytes())
    pixels = cifar10(tmp_path, "test")[0].pixels
    assert pixels[1, 2, 3] == np.float32(ramp[1024 + 2 * 32 + 3]) / np.float32(255)


def test_cifar100_has_fine_and_coarse_labels(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(record(19, 99) + record(3, 4))
    assert [image.label for image in cifar100(tmp_path)] == [99, 4]
    assert [image.label for image in cifar100(tmp_path, label="coarse")] == [19, 3]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"records of 3073 bytes, got 0 bytes"),
        (record(1)[:-1], r"got 3072 bytes; the file is truncated or foreign: .*test_batch.bin"),
        (record(1) + b"\x00", r"got 3074 bytes"),
        (record(1) + record(10), r"labels below 10, got 10 in record 1: .*test_batch.bin"),
    ],
)
def test_a_bad_file_is_one_clear_error(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "test_batch.bin").write_bytes(data)
    with pytest.raises(DataError, match="cifar10 requires .*" + message):
        cifar10(tmp_path, "test")


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cifar100 .*readable file, got .*test.bin: No such file"):
        cifar100(tmp_path, "test")


def test_other_words_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="split 'train' or 'test', got 'valid'"):
        cifar10(tmp_path, "valid")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="'fine' or 'coarse', got 'both'"):
        cifar100(tmp_path, label="both")  # type: ignore[arg-type]
