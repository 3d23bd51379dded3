"""Images with masks, with several labels, and with COCO's boxes.  Needs Pillow: import by name.

Files are listed and annotations checked when a dataset is made; images are decoded when read.

Source: T.-Y. Lin et al., "Microsoft COCO: common objects in context", 2014; cocodataset.org.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.data.dataset import Dataset, checked_index
from pyrite.data.source.image import BoxedImage, MultiLabelImage, SegmentedImage
from pyrite.data.source.image_folder import check_format, image_files, read_image, read_mask
from pyrite.errors import ArgumentError, DataError
from pyrite.opening import open_file, reader

Size = tuple[int, int]


class SegmentationFolderDataset(Dataset[SegmentedImage]):
    """The images below one folder, and their masks below another, by equal names without suffix.

    A mask's levels of grey, or palette numbers, are classes.  size=(H, W) resizes both, masks to
    the nearest element.

    Raises DataError if a folder has no image, or an image no mask or a mask no image; when read, if
    a file cannot be decoded or mask and image differ in size.
    """

    def __init__(
        self,
        images: str | PathLike[str],
        masks: str | PathLike[str],
        *,
        size: Size | None = None,
        channels: int = 3,
    ) -> None:
        check_format(size, channels)
        pixels, classes = _by_name(Path(images)), _by_name(Path(masks))
        if alone := sorted(pixels.keys() ^ classes.keys()):
            raise DataError(
                f"segmentation folder requires a mask in {masks} for each image in {images}, got "
                f"one without the other for {len(alone)}: {alone[:3]}"
            )
        self.files = tuple((pixels[name], classes[name]) for name in sorted(pixels))
        self._size = size
        self._channels = channels

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int, /) -> SegmentedImage:
        image, mask = self.files[checked_index(index, len(self))]
        pixels = read_image(image, size=self._size, channels=self._channels)
        classes = read_mask(mask, size=self._size)
        if pixels.shape[1:] != classes.shape:
            raise DataError(
                f"segmentation folder requires masks of their images' size, got {classes.shape} in "
                f"{mask} and {pixels.shape[1:]} in {image}"
            )
        return SegmentedImage(pixels, classes)


class MultiLabelFolderDataset(Dataset[MultiLabelImage]):
    """Images below root, each with the names of its classes: labels {"a.png": ["cat", "dog"]}.

    classes gives all names in their order; without it they are those of labels, sorted.

    Raises ArgumentError for a name that is not in classes; DataError, when read, if a file cannot
    be decoded.
    """

    def __init__(
        self,
        root: str | PathLike[str],
        labels: Mapping[str, Collection[str]],
        *,
        classes: Sequence[str] | None = None,
        size: Size | None = None,
        channels: int = 3,
    ) -> None:
        check_format(size, channels)
        if texts := [name for name, found in labels.items() if isinstance(found, str)]:
            raise ArgumentError(f"labels require lists of names, got a text for {texts[:3]}")
        found = {name for names in labels.values() for name in names}
        self.classes = tuple(sorted(found) if classes is None else classes)
        if unknown := sorted(found.difference(self.classes)):
            raise ArgumentError(f"labels require names in classes, got {unknown[:3]} besides")
        number = {name: i for i, name in enumerate(self.classes)}
        self.files = tuple(
            (Path(root) / file, tuple(sorted(number[name] for name in names)))
            for file, names in labels.items()
        )
        self._size = size
        self._channels = channels

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int, /) -> MultiLabelImage:
        path, numbers = self.files[checked_index(index, len(self))]
        labels = np.zeros(len(self.classes), np.float32)
        labels[list(numbers)] = 1
        return MultiLabelImage(read_image(path, size=self._size, channels=self._channels), labels)


class CocoDataset(Dataset[BoxedImage]):
    """The images of a COCO annotation file, which lie in a folder, with their boxes.

    COCO's left, top, width, height become left, top, right, bottom.  Labels count the categories
    from 0, in the order of their ids; `classes` are their names, `category_ids` their ids, and
    `image_ids` the images'.  Boxes of crowds, and those without area, are left out.  size=(H, W)
    resizes images and boxes.  PadCollate({"boxes": 0, "labels": -1}) batches them.

    Raises DataError, naming the file, if it is no COCO file; when read, if an image cannot be
    decoded or is not of the size that it is said to have.
    """

    def __init__(
        self,
        annotations: str | PathLike[str],
        images: str | PathLike[str],
        *,
        size: Size | None = None,
        channels: int = 3,
    ) -> None:
        check_format(size, channels)
        tables = _read_coco(annotations)
        try:
            categories = sorted((entry["id"], entry["name"]) for entry in tables["categories"])
            self.category_ids = tuple(number for number, _ in categories)
            self.classes = tuple(str(name) for _, name in categories)
            self._entries = tables["images"]
            self.image_ids = tuple(entry["id"] for entry in self._entries)
            paths = [Path(images) / str(entry["file_name"]) for entry in self._entries]
            self._boxes = _boxes_of(tables["annotations"], self.image_ids, self.category_ids)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                "coco requires images (id, file_name), categories (id, name) and annotations "
                f"(image_id, category_id, bbox), got {type(error).__name__}: {error} in "
                f"{annotations}"
            ) from error
        self.files = tuple(paths)
        self._size = size
        self._channels = channels

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int, /) -> BoxedImage:
        index = checked_index(index, len(self))
        path, entry = self.files[index], self._entries[index]
        boxes, labels = self._boxes[index]
        pixels = read_image(path, channels=self._channels)
        height, width = pixels.shape[1:]
        said = entry.get("height", height), entry.get("width", width)
        if said != (height, width):
            raise DataError(f"coco requires {path} of size {said}, got {(height, width)}")
        if self._size is not None:
            pixels = read_image(path, size=self._size, channels=self._channels)
            scale = self._size[1] / width, self._size[0] / height
            boxes = boxes * np.array([*scale, *scale], np.float32)
        return BoxedImage(pixels, boxes, labels)


def _by_name(folder: Path) -> dict[str, Path]:
    """Return the images below folder by their path in it without suffix."""
    found: dict[str, Path] = {}
    for path in image_files(folder):
        name = path.relative_to(folder).with_suffix("").as_posix()
        if name in found:
            raise DataError(
                f"segmentation folder requires one file for each name, got {found[name]} and {path}"
            )
        found[name] = path
    return found


@reader("coco", DataError)
def _read_coco(path: str | PathLike[str]) -> dict[str, Any]:
    try:
        with open_file(path) as file:
            tables = json.loads(file.read().decode("utf-8-sig"))
    except OSError as error:
        raise DataError(f"coco requires a readable file, got {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"coco requires JSON, got {error} in {path}") from error
    if not isinstance(tables, dict):
        raise DataError(f"coco requires an object of JSON, got {type(tables).__name__} in {path}")
    return tables


def _boxes_of(
    annotations: Sequence[Any], image_ids: Sequence[Any], category_ids: Sequence[Any]
) -> list[tuple[NDArray[np.float32], NDArray[np.int32]]]:
    """Return the boxes and labels of each image.

    Raises KeyError, TypeError or ValueError for what is no annotation.
    """
    label = {number: i for i, number in enumerate(category_ids)}
    place = {number: i for i, number in enumerate(image_ids)}
    if len(place) < len(image_ids) or len(label) < len(category_ids):
        raise ValueError("an id that occurs twice")
    boxes: list[list[list[float]]] = [[] for _ in image_ids]
    labels: list[list[int]] = [[] for _ in image_ids]
    for entry in annotations:
        left, top, width, height = map(float, entry["bbox"])
        if not np.isfinite([left, top, width, height]).all():
            raise ValueError(f"a box that is not finite, {entry['bbox']}")
        image, category = place[entry["image_id"]], label[entry["category_id"]]
        if width > 0 and height > 0 and not entry.get("iscrowd"):
            boxes[image].append([left, top, left + width, top + height])
            labels[image].append(category)
    return [
        (np.array(found, np.float32).reshape(-1, 4), np.array(numbers, np.int32))
        for found, numbers in zip(boxes, labels, strict=True)
    ]
