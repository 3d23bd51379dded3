"""Masks, several labels and COCO's boxes belong to their images; what is damaged is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from pyrite.data import DataLoader, PadCollate
from pyrite.data.augment import RandomHorizontalFlip
from pyrite.data.source.annotation import (
    CocoDataset,
    MultiLabelFolderDataset,
    SegmentationFolderDataset,
)
from pyrite.errors import ArgumentError, DataError

RNG = np.random.default_rng(4)
COLOURS = RNG.integers(0, 256, (6, 8, 3), np.uint8)
CLASSES = RNG.integers(0, 4, (6, 8), np.uint8)


def save(path: Path, array: Any, mode: str | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = PIL.Image.fromarray(array)
    if mode == "P":
        image.putpalette(list(range(255, -1, -1)) * 3)
    image.save(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("b", "a", "deep/c"):
        save(tmp_path / f"images/{name}.png", COLOURS)
        save(tmp_path / f"masks/{name}.png", CLASSES, "P" if name == "a" else None)
    return tmp_path


def test_masks_are_found_by_name_and_hold_classes(root: Path) -> None:
    dataset = SegmentationFolderDataset(root / "images", root / "masks")
    assert [path.stem for path, _ in dataset.files] == ["a", "b", "c"]
    for item in dataset:
        assert np.array_equal(item.mask, CLASSES)
        assert item.pixels.shape == (3, 6, 8)
    small = SegmentationFolderDataset(root / "images", root / "masks", size=(3, 4), channels=1)
    (batch,) = DataLoader(small, 3, tensors=False, augment=RandomHorizontalFlip(1.0))
    assert batch.pixels.shape == (3, 1, 3, 4)
    assert set(np.unique(batch.mask)) <= {0, 1, 2, 3}


def test_a_mask_that_does_not_belong_is_an_error(root: Path) -> None:
    save(root / "masks/deep/c.png", CLASSES[:3])
    with pytest.raises(DataError, match=r"\(3, 8\) in .*c.png and \(6, 8\) in"):
        SegmentationFolderDataset(root / "images", root / "masks")[2]
    save(root / "masks/deep/c.png", COLOURS)
    with pytest.raises(DataError, match=r"mode RGB"):
        SegmentationFolderDataset(root / "images", root / "masks")[2]
    whole = (root / "masks/a.png").read_bytes()
    (root / "masks/a.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"a.png: .*truncated|a.png"):
        SegmentationFolderDataset(root / "images", root / "masks")[0]
    save(root / "images/a.jpg", COLOURS)
    with pytest.raises(DataError, match="one file for each name"):
        SegmentationFolderDataset(root / "images", root / "masks")
    (root / "images/a.jpg").unlink()
    (root / "masks/a.png").unlink()
    with pytest.raises(DataError, match=r"without the other for 1: \['a'\]"):
        SegmentationFolderDataset(root / "images", root / "masks")


def test_images_have_several_labels(root: Path) -> None:
    labels = {"a.png": ["dog", "cat"], "b.png": []}
    dataset = MultiLabelFolderDataset(root / "images", labels)
    assert dataset.classes == ("cat", "dog")
    assert [item.labels.tolist() for item in dataset] == [[1, 1], [0, 0]]
    more = MultiLabelFolderDataset(root / "images", labels, classes=["dog", "cow", "cat"])
    assert more[0].labels.tolist() == [1, 0, 1]
    with pytest.raises(ArgumentError, match=r"got \['cat'\]"):
        MultiLabelFolderDataset(root, labels, classes=["dog"])
    with pytest.raises(ArgumentError, match=r"a text for \['a.png'\]"):
        MultiLabelFolderDataset(root, {"a.png": "dog"})
    with pytest.raises(DataError, match=r"none.png"):
        MultiLabelFolderDataset(root, {"none.png": ["x"]})[0]


COCO: dict[str, Any] = {
    "images": [
        {"id": 7, "file_name": "b.png", "width": 8, "height": 6},
        {"id": 3, "file_name": "a.png"},
    ],
    "categories": [{"id": 90, "name": "cat"}, {"id": 1, "name": "dog"}],
    "annotations": [
        {"image_id": 7, "category_id": 90, "bbox": [1, 2, 3, 4]},
        {"image_id": 7, "category_id": 1, "bbox": [0, 0, 8, 6], "iscrowd": 1},
        {"image_id": 7, "category_id": 1, "bbox": [0.5, 0, 2, 1], "iscrowd": 0},
        {"image_id": 7, "category_id": 1, "bbox": [2, 2, 0, 1]},
    ],
}


def coco(root: Path, content: Any = COCO, **arguments: Any) -> CocoDataset:
    text = content if isinstance(content, str) else json.dumps(content)
    (root / "coco.json").write_text(text)
    return CocoDataset(root / "coco.json", root / "images", **arguments)


def test_boxes_of_coco(root: Path) -> None:
    dataset = coco(root)
    assert dataset.classes == ("dog", "cat")
    assert dataset.image_ids == (7, 3)
    assert dataset[0].boxes.tolist() == [[1, 2, 4, 6], [0.5, 0, 2.5, 1]]
    assert dataset[0].labels.tolist() == [1, 0]
    assert dataset[1].boxes.shape == (0, 4)
    assert coco(root, size=(12, 4))[0].boxes.tolist() == [[0.5, 4, 2, 12], [0.25, 0, 1.25, 2]]
    (batch,) = DataLoader(
        dataset, 2, augment=RandomHorizontalFlip(1.0), tensors=False,
        collate=PadCollate({"boxes": 0, "labels": -1}),
    )  # fmt: skip
    assert batch.boxes.values[0].tolist() == [[4, 2, 7, 6], [5.5, 0, 7.5, 1]]
    assert batch.labels.values.tolist() == [[1, 0], [-1, -1]]
    assert batch.boxes.mask.tolist() == [[True, True], [False, False]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("{", "JSON"),
        ("[]", "object of JSON, got list"),
        ("[" * 99999, "JSON"),
        ({"images": None}, "NoneType"),
        ({"annotations": [{"image_id": 7, "category_id": 90}]}, "KeyError: 'bbox'"),
        (
            {"annotations": [{"image_id": 9, "category_id": 90, "bbox": [0, 0, 1, 1]}]},
            "KeyError: 9",
        ),
        ({"annotations": [{"image_id": 7, "category_id": 90, "bbox": [0, 0, 1]}]}, "ValueError"),
        (
            {"annotations": [{"image_id": 7, "category_id": 1, "bbox": [0, 0, 1, float("nan")]}]},
            "not finite",
        ),
        ({"categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]}, "occurs twice"),
    ],
)
def test_a_damaged_annotation_file_is_one_error(root: Path, change: Any, message: str) -> None:
    content = {**COCO, **change} if isinstance(change, dict) else change
    with pytest.raises(DataError, match=message) as caught:
        coco(root, content)
    assert "coco.json" in str(caught.value)


def test_an_image_of_another_size_than_said_is_an_error(root: Path) -> None:
    images = [{**COCO["images"][0], "width": 9}]
    with pytest.raises(DataError, match=r"b.png of size \(6, 9\), got \(6, 8\)"):
        coco(root, {**COCO, "images": images, "annotations": []})[0]
