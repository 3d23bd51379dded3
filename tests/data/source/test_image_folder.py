"""Folders are classes, files are decoded whole or named."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from pyrite.data import DataLoader
from pyrite.data.source.image_folder import ImageFolderDataset, read_image
from pyrite.errors import ArgumentError, DataError


def save(path: Path, array: Any, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(np.asarray(array)).save(path, **options)
    return path


def rgb(height: int = 4, width: int = 6) -> np.ndarray:
    return np.arange(height * width * 3, dtype=np.uint8).reshape(height, width, 3)


def test_a_folder_is_a_class_in_the_order_of_names(tmp_path: Path) -> None:
    save(tmp_path / "dog" / "1.png", rgb())
    save(tmp_path / "cat" / "2.PNG", rgb())
    save(tmp_path / "cat" / "1.png", rgb())
    save(tmp_path / "cat" / "deep" / "3.png", rgb())
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    (tmp_path / "readme.md").write_text("not a class")
    dataset = ImageFolderDataset(tmp_path)
    assert dataset.classes == ("cat", "dog")
    assert [(path.name, label) for path, label in dataset.files] == [
        ("1.png", 0),
        ("2.PNG", 0),
        ("3.png", 0),
        ("1.png", 1),
    ]
    assert [image.label for image in dataset] == [0, 0, 0, 1]
    np.testing.assert_array_equal(
        dataset[0].pixels, (rgb() / np.float32(255)).astype(np.float32).transpose(2, 0, 1)
    )


def test_grey_colour_alpha_and_palette_become_the_channels_asked_for(tmp_path: Path) -> None:
    grey = save(tmp_path / "grey.png", np.full((2, 3), 51, np.uint8))
    assert read_image(grey).shape == (3, 2, 3)
    np.testing.assert_allclose(read_image(grey, channels=1), np.full((1, 2, 3), 0.2))
    alpha = save(tmp_path / "alpha.png", np.full((2, 3, 4), [255, 0, 51, 0], np.uint8))
    np.testing.assert_allclose(read_image(alpha)[:, 0, 0], [1.0, 0.0, 0.2])
    palette = tmp_path / "palette.gif"
    PIL.Image.fromarray(rgb()).convert("P").save(palette)
    assert read_image(palette).shape == (3, 4, 6)


def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path: Path) -> None:
    path = save(tmp_path / "deep.png", np.array([[0, 0x3300, 0xFFFF]], np.uint16))
    np.testing.assert_allclose(read_image(path, channels=1), [[[0.0, 0.2, 1.0]]])


def test_float_pixels_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "float.tiff", np.ones((2, 2), np.float32))
    with pytest.raises(DataError, match=r"float.tiff: .*mode F"):
        read_image(path)


def test_images_are_resized_to_height_and_width(tmp_path: Path) -> None:
    path = save(tmp_path / "flat.png", np.full((4, 6, 3), 51, np.uint8))
    resized = read_image(path, size=(2, 5))
    assert resized.shape == (3, 2, 5)
    np.testing.assert_allclose(resized, 0.2, rtol=1e-6)


def test_the_exif_orientation_is_applied(tmp_path: Path) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    path = save(tmp_path / "turned.jpg", rgb(), exif=exif)
    assert read_image(path).shape == (3, 6, 4)


def png(width: int, height: int, data: bytes) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in chunks)


def encoded() -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    PIL.Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not an image",
        encoded()[:20],
        encoded()[: len(encoded()) // 2],
        encoded()[:60] + bytes(40) + encoded()[100:],
        png(2**31 - 1, 2**31 - 1, b""),
        png(12_000, 9_000, b""),
        png(0, 5, b""),
    ],
    ids=["empty", "text", "header", "half", "damaged", "2^62 pixels", "1e8 pixels", "no width"],
)
def test_a_corrupt_image_is_one_clear_error_with_its_path(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "cat" / "bad.png"
    path.parent.mkdir()
    path.write_bytes(data)
    dataset = ImageFolderDataset(tmp_path)
    with pytest.raises(DataError, match=r"a file that can be decoded, got .*bad.png: ."):
        dataset[0]


def test_a_loader_names_the_item_and_the_path_of_a_corrupt_image(tmp_path: Path) -> None:
    save(tmp_path / "cat" / "1.png", rgb())
    (tmp_path / "cat" / "2.png").write_bytes(b"")
    loader = DataLoader(ImageFolderDataset(tmp_path), 2, workers=1, tensors=False)
    with pytest.raises(DataError, match=r"2.png.* for item 1"):
        list(loader)


def test_folders_that_hold_no_classes_or_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"requires a folder, got .*absent: No such file"):
        ImageFolderDataset(tmp_path / "absent")
    with pytest.raises(DataError, match="one folder per class, got none in"):
        ImageFolderDataset(tmp_path)
    (tmp_path / "cat").mkdir()
    with pytest.raises(DataError, match=r"images of every class, got none in .*cat"):
        ImageFolderDataset(tmp_path)


@pytest.mark.parametrize("arguments", [{"channels": 2}, {"size": (0, 5)}])
def test_formats_out_of_range_are_refused(tmp_path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="image requires"):
        ImageFolderDataset(tmp_path, **arguments)


def test_importing_the_data_package_does_not_import_pillow() -> None:
    program = "import sys, pyrite.data; sys.exit('PIL' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
