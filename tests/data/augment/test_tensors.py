"""A tensor is augmented as its array is, by the same draws, and stays a tensor where it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.data import DataLoader, Draws, ItemTypeError
from pyrite.data.augment import (
    CenterCrop,
    ColorJitter,
    Compose,
    CutMix,
    Mixup,
    Normalize,
    OneOf,
    RandomAffine,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
)
from pyrite.errors import DTypeError, GradientError, IndexRangeError, ShapeError

STEPS: list[Any] = [
    CenterCrop(5), ColorJitter(0.4, 0.4, 0.4, 0.1), Normalize((0.5,) * 3, (0.2,) * 3),
    RandomAffine(20, translate=(0.1, 0.1), shear=5), RandomCrop(6, padding=2), RandomErasing(p=1.0),
    RandomErasing(p=1.0, value="random"), RandomGrayscale(p=1.0), RandomHorizontalFlip(p=1.0),
    RandomResizedCrop(6), RandomRotation(30), RandomVerticalFlip(p=1.0), Resize((4, 12)),
    Compose(RandomCrop(6), OneOf(RandomRotation(9), RandomHorizontalFlip(p=1.0))),
]  # fmt: skip


def draws(index: int = 0) -> Draws:
    return Draws(7, 1, index)


def pixels() -> Any:
    return np.random.default_rng(1).random((3, 9, 11)).astype(np.float32)


@dataclass(frozen=True)
class Item:
    pixels: Any
    mask: Any
    boxes: Any
    labels: Any
    name: str = "a"


@pytest.mark.parametrize("device", ["cpu", "numpy"])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: repr(step)[:24])
def test_a_tensor_changes_as_its_array_does(step: Any, device: str) -> None:
    array = pixels()
    for operand, expected in (
        (pyrite.tensor(array, device=device), array),
        (pyrite.tensor(array, device=device).flip(2), array[:, :, ::-1]),
        (pyrite.tensor(array.transpose(2, 1, 0), device=device).permute(2, 1, 0), array),
        (pyrite.tensor(array.astype(np.float16), device=device), array.astype(np.float16)),
    ):
        changed = step(operand, draws())
        assert isinstance(changed, pyrite.Tensor)
        assert (changed.dtype, changed.device) == (operand.dtype, operand.device)
        assert np.array_equal(changed.numpy(), step(expected, draws()))


@pytest.mark.parametrize("step", STEPS, ids=lambda step: repr(step)[:24])
def test_a_tensor_of_bfloat16_changes_as_float32_and_is_rounded_once(step: Any) -> None:
    rounded = pyrite.tensor(pixels(), dtype=pyrite.bfloat16)
    changed = step(rounded, draws())
    expected = step(rounded.astype(pyrite.float32).numpy(), draws())
    assert changed.dtype == pyrite.bfloat16
    last = pyrite.tensor(expected).astype(pyrite.bfloat16).astype(pyrite.float32).numpy()
    if not isinstance(step, Compose):  # which rounds after each of its steps
        assert np.array_equal(changed.astype(pyrite.float32).numpy(), last)
    assert changed.shape == expected.shape


def test_masks_boxes_and_labels_that_are_tensors_move_with_the_pixels() -> None:
    arrays = Item(
        pixels(),
        np.arange(99, dtype=np.uint8).reshape(9, 11),
        np.array([[0, 0, 2, 2], [3, 2, 9, 8]], np.float32),
        np.array([4, 5], np.int32),
    )
    fields = ("pixels", "mask", "boxes", "labels")
    tensors = Item(
        **{name: pyrite.tensor(getattr(arrays, name), device="numpy") for name in fields}
    )
    step = Compose(RandomRotation(12), RandomCrop(6), RandomHorizontalFlip(p=1.0))
    expected, changed = step(arrays, draws(3)), step(tensors, draws(3))
    for field in fields:
        tensor = getattr(changed, field)
        assert isinstance(tensor, pyrite.Tensor)
        assert (tensor.dtype, tensor.device) == (getattr(tensors, field).dtype, tensors.mask.device)
        assert np.array_equal(tensor.numpy(), getattr(expected, field))
    kept = RandomHorizontalFlip(p=0.0)(tensors, draws())
    assert kept.pixels is tensors.pixels
    assert kept.mask is tensors.mask


def test_a_tensor_that_is_no_image_or_is_tracked_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"CenterCrop requires pixels \(C, H, W\), got .*\(9, 9\)"):
        CenterCrop(3)(pyrite.zeros((9, 9)), draws())
    with pytest.raises(DTypeError, match=r"ColorJitter requires .* as floats in .*got uint8"):
        ColorJitter(0.1)(pyrite.zeros((3, 9, 9), dtype=pyrite.uint8), draws())
    tracked = pyrite.zeros((3, 9, 9), device=pyrite.autodiff("cpu")).require_grad()
    with pytest.raises(GradientError, match=r"Resize requires tensors without .*x\.detach\(\)"):
        Resize(3)(tracked, draws())


@pytest.mark.parametrize("device", ["cpu", "numpy"])
@pytest.mark.parametrize("mix", [Mixup(0.4, 5), CutMix(1.0, 5)], ids=["mixup", "cutmix"])
def test_a_batch_of_tensors_is_mixed_on_its_device_by_the_same_draws(mix: Any, device: str) -> None:
    rng = np.random.default_rng(2)
    arrays: dict[str, Any] = {
        "pixels": rng.random((6, 3, 8, 7), np.float32),
        "labels": np.arange(6) % 5,
        "id": "a",
    }
    for dtype, limit in ((pyrite.float32, 1e-6), (pyrite.bfloat16, 1e-2)):
        tensors: dict[str, Any] = {
            "pixels": pyrite.tensor(arrays["pixels"], dtype=dtype, device=device),
            "labels": pyrite.tensor(arrays["labels"], device=device),
            "id": "a",
        }
        expected, changed = mix(arrays, draws()), mix(tensors, draws())
        assert changed["pixels"].dtype == dtype
        assert changed["labels"].dtype == pyrite.float32
        for name in ("pixels", "labels"):
            assert changed[name].device == tensors["pixels"].device
            found = changed[name].astype(pyrite.float32).numpy()
            np.testing.assert_allclose(found, expected[name], atol=limit)
    with pytest.raises(IndexRangeError, match="labels from 0 to 4, got 0 to 7"):
        mix((tensors["pixels"], pyrite.tensor([0, 1, 7, 0, 0, 0])), draws())
    with pytest.raises(DTypeError, match=r"got pyrite\.uint8 and"):
        mix((tensors["pixels"].astype(pyrite.uint8), tensors["labels"]), draws())


def test_a_mixed_batch_has_the_gradients_of_its_images() -> None:
    images = pyrite.ones((4, 1, 6, 6), device=pyrite.autodiff("cpu")).require_grad()
    for mix in (Mixup(0.4, 2), CutMix(1.0, 2)):
        mixed, _ = mix((images, pyrite.tensor([0, 1, 0, 1])), draws())
        np.testing.assert_allclose(mixed.sum().backward()[images].numpy(), 1, atol=1e-6)


def test_a_loader_augments_and_stacks_tensors_alike_for_any_workers() -> None:
    rng = np.random.default_rng(4)
    items = [(pyrite.tensor(rng.random((3, 8, 8), np.float32)), i) for i in range(6)]
    step = Compose(RandomCrop(6, padding=1), RandomHorizontalFlip())

    def epoch(items: Any, **settings: Any) -> list[Any]:
        return list(DataLoader(items, 2, shuffle=True, seed=5, augment=step, **settings).epoch(1))

    arrays = [(pair[0].numpy(), pair[1]) for pair in items]
    batches = epoch(items, workers=2), epoch(items, tensors=False), epoch(arrays)
    for ours, kept, theirs in zip(*batches, strict=True):
        assert isinstance(kept[0], pyrite.Tensor)
        assert np.array_equal(ours[0].numpy(), theirs[0].numpy())
        assert np.array_equal(kept[0].numpy(), theirs[0].numpy())
    assert epoch(items, device="numpy")[0][0].device == pyrite.zeros(1, device="numpy").device
    mixed = [pyrite.zeros(2, device="cpu"), pyrite.zeros(2, device="numpy")]
    with pytest.raises(ItemTypeError, match="on one device, got cpu for item 0 and numpy for item"):
        next(iter(DataLoader(mixed, 2)))
