"""Images in folders, one folder per class.  Needs Pillow: import this module by name.

    root/cat/1.png        label 0
    root/cat/deep/2.jpg   label 0
    root/dog/1.png        label 1

Invariant: a file that Pillow cannot decode whole is a DataError naming it, never a partial image.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
import PIL.Image
from numpy.typing import NDArray
from PIL import ImageOps

from pyrite.config import config
from pyrite.data.dataset import Dataset, checked_index
from pyrite.data.source.image import Image
from pyrite.errors import ArgumentError, DataError
from pyrite.opening import open_file, reader

EXTENSIONS = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
"""Files with another extension are ignored; case does not matter."""

_SETTING = "pyrite.config.image_pixels"
_BOMBS = (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning)

_MODES: dict[int, Literal["L", "RGB", "RGBA"]] = {1: "L", 3: "RGB", 4: "RGBA"}


class ImageFolderDataset(Dataset[Image]):
    """The images below root, labelled by the first folder below root in the order of names.

    Files are listed now, and decoded each time that an item is read.  pixels is float32 (C, H, W)
    in [0, 1]: channels is 1 for grey, 3 for red, green, blue, or 4 with alpha, which 1 and 3 drop;
    the EXIF orientation is applied.  size=(H, W) resizes (bilinear); without it images keep their
    sizes.

    Raises DataError if root is no folder, or a class folder has no image; ArgumentError if channels
    is not 1, 3 or 4 or size is not positive.
    """

    def __init__(
        self,
        root: str | PathLike[str],
        *,
        size: tuple[int, int] | None = None,
        channels: int = 3,
    ) -> None:
        check_format(size, channels)
        root = Path(root)
        folders = class_folders(root)
        self.root = root
        self.classes = tuple(folder.name for folder in folders)
        self.files = tuple(
            (path, label) for label, folder in enumerate(folders) for path in image_files(folder)
        )
        self._size = size
        self._channels = channels

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int, /) -> Image:
        path, label = self.files[checked_index(index, len(self))]
        return Image(read_image(path, size=self._size, channels=self._channels), label)


@reader("image", DataError)
def read_image(
    path: str | PathLike[str], *, size: tuple[int, int] | None = None, channels: int = 3
) -> NDArray[np.float32]:
    """Return the pixels of an image file: float32 (C, H, W) in [0, 1].

    Raises DataError if the file is missing, cannot be decoded, or has more pixels than
    ``pyrite.config.image_pixels`` or Pillow allows; ArgumentError as ImageFolderDataset.
    """
    check_format(size, channels)

    def converted(file: PIL.Image.Image) -> PIL.Image.Image:
        image = ImageOps.exif_transpose(_eight_bit(file)).convert(_MODES[channels])
        return image if size is None else image.resize(size[::-1], PIL.Image.Resampling.BILINEAR)

    image = decoded(path, converted)
    pixels = np.asarray(image, np.float32).reshape(image.height, image.width, channels)
    scaled: NDArray[np.float32] = np.ascontiguousarray(pixels.transpose(2, 0, 1))
    scaled /= np.float32(255)
    return scaled


@reader("mask", DataError)
def read_mask(
    path: str | PathLike[str], *, size: tuple[int, int] | None = None
) -> NDArray[np.uint8]:
    """Return the classes in a mask file: uint8 (H, W), its levels of grey or palette numbers.

    size=(H, W) takes the nearest elements.  Raises as `read_image`, and DataError for a file of
    colours, which are no classes.
    """
    check_format(size, 1)

    def converted(file: PIL.Image.Image) -> PIL.Image.Image:
        if file.mode not in ("L", "P", "1"):
            raise DataError(f"grey levels or a palette are required, the mask has mode {file.mode}")
        image = file.convert("L") if file.mode == "1" else file
        return image if size is None else image.resize(size[::-1], PIL.Image.Resampling.NEAREST)

    return np.array(decoded(path, converted), np.uint8)


def decoded(
    path: str | PathLike[str], convert: Callable[[PIL.Image.Image], PIL.Image.Image]
) -> PIL.Image.Image:
    """Return what convert makes of an image file, which is decoded whole.

    Raises DataError, naming the file, if it cannot be.
    """
    try:
        with open_file(path) as opened, PIL.Image.open(opened) as file:
            _require_few_pixels(file.width, file.height)
            image = convert(file)
            image.load()
            return image
    except MemoryError:
        raise
    except Exception as error:
        # Pillow's decoders raise many types on damaged files: OSError, SyntaxError, struct.error …
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        if isinstance(error, _BOMBS):
            reason = f"{error}; if it is meant, raise PIL.Image.MAX_IMAGE_PIXELS and {_SETTING}"
        raise DataError(
            f"image requires a file that can be decoded, got {path}: {reason}"
        ) from error


def _require_few_pixels(width: int, height: int) -> None:
    """Raise DataError before an image is decoded that takes more memory than is meant."""
    if width * height > config.image_pixels:
        raise DataError(
            f"at most {config.image_pixels} pixels are allowed, it has {width} x {height}; if it "
            f"is meant, raise {_SETTING}"
        )


def _eight_bit(image: PIL.Image.Image) -> PIL.Image.Image:
    """Return the image with 16-bit grey levels scaled down, which Pillow's convert would clip."""
    if not image.mode.startswith(("I", "F")):
        return image
    if not image.mode.startswith("I;16"):
        raise DataError(f"8 or 16 bits per channel are required, the image has mode {image.mode}")
    return PIL.Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))


def check_format(size: tuple[int, int] | None, channels: int) -> None:
    """Raise ArgumentError unless channels is 1, 3 or 4 and the size is positive or None."""
    if channels not in _MODES:
        raise ArgumentError(f"image requires channels 1, 3 or 4, got {channels}")
    if size is not None and min(size) < 1:
        raise ArgumentError(f"image requires a positive size (H, W), got {size}")


def class_folders(root: Path) -> list[Path]:
    """Return the folders in root, one of each class.  Raises DataError if there is none."""
    try:
        folders = sorted(path for path in root.iterdir() if path.is_dir())
    except OSError as error:
        raise DataError(f"image folder requires a folder, got {root}: {error.strerror}") from error
    if not folders:
        raise DataError(f"image folder requires one folder per class, got none in {root}")
    return folders


def image_files(folder: Path) -> list[Path]:
    """Return the images below folder, by their names.  Raises DataError if there is none."""
    paths = (path for path in folder.rglob("*") if path.suffix.lower() in EXTENSIONS)
    images = sorted(path for path in paths if path.is_file())
    if not images:
        raise DataError(f"image folder requires images of every class, got none in {folder}")
    return images
