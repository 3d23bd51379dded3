"""The folder of images keeps what fits, and nothing but its own files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from pyrite.errors import TrainError
from pyrite.train import ImageSample, RunDirectory
from pyrite.train.sample_folder import LARGEST, SampleFolder


def image(seed: int, side: int = 8) -> ImageSample:
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side))
    return ImageSample.of("x", pixels)


def test_an_image_is_written_once_and_read_again(tmp_path: Path) -> None:
    folder = SampleFolder(tmp_path / "samples")
    folder.store(image(0))
    written = os.stat(folder.path / image(0).file).st_mtime_ns
    SampleFolder(folder.path).store(image(0))
    assert os.stat(folder.path / image(0).file).st_mtime_ns == written
    assert RunDirectory(tmp_path).read_image(image(0)) == image(0).png


def test_the_oldest_make_room(tmp_path: Path) -> None:
    images = [image(seed) for seed in range(6)]
    folder = SampleFolder(tmp_path / "samples", capacity=3 * len(images[0].png) + 10)
    for each in images:
        folder.store(each)
    kept = {each.file for each in images[-3:]}
    assert {file.name for file in folder.path.iterdir()} == kept
    with pytest.raises(TrainError, match="requires a readable"):
        RunDirectory(tmp_path).read_image(images[0])


def test_what_others_put_there_is_neither_counted_nor_deleted(tmp_path: Path) -> None:
    folder = SampleFolder(tmp_path / "samples", capacity=1)
    folder.path.mkdir()
    (folder.path / "mine.png").write_bytes(b"x" * 100)
    folder.store(image(0))
    folder.store(image(1))
    folder.clear()
    assert [file.name for file in folder.path.iterdir()] == ["mine.png"]
    (folder.path / "mine.png").unlink()
    folder.clear()
    assert not folder.path.exists()
    folder.clear()


def test_a_file_that_is_no_image_of_ours_is_not_read_whole(tmp_path: Path) -> None:
    folder = SampleFolder(tmp_path / "samples")
    folder.store(image(0))
    file = folder.path / image(0).file
    with open(file, "wb") as opened:
        opened.truncate(LARGEST + 1)
    with pytest.raises(TrainError, match="it has more than"):
        RunDirectory(tmp_path).read_image(image(0))
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(TrainError, match="it is a FIFO"):
        RunDirectory(tmp_path).read_image(image(0))
