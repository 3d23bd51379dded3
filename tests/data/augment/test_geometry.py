"""Crops, flips, resizings and affine maps: exact identities, and Pillow and SciPy as judges."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import PIL.Image
import pytest
from scipy import ndimage

from pyrite.data import Draws, Image
from pyrite.data.augment import (
    Augmentation,
    CenterCrop,
    Compose,
    OneOf,
    RandomAffine,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
)
from pyrite.data.augment.affine import interpolate
from pyrite.data.augment.augmentation import IGNORED
from pyrite.errors import ArgumentError, DTypeError, ShapeError

RNG = np.random.default_rng(3)


def draws(index: int = 0) -> Draws:
    return Draws(11, 2, index)


def image(*shape: int, dtype: Any = np.float32) -> Any:
    values = RNG.random(shape or (3, 9, 13))
    return (values * 255).astype(dtype) if np.dtype(dtype).kind == "u" else values.astype(dtype)


class Boxed(NamedTuple):
    pixels: Any
    mask: Any
    boxes: Any
    labels: Any
    name: str


def boxed(height: int = 9, width: int = 13) -> Boxed:
    """One bright rectangle, and its mask and box; another box in a corner."""
    pixels = np.zeros((3, height, width), np.float32)
    mask = np.zeros((height, width), np.uint8)
    pixels[:, 3:6, 4:9] = 1
    mask[3:6, 4:9] = 1
    boxes = np.array([[4, 3, 9, 6], [0, 0, 1, 1]], np.float32)
    return Boxed(pixels, mask, boxes, np.array([5, 6]), "a")


@pytest.mark.parametrize("kind", [RandomHorizontalFlip, RandomVerticalFlip])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.uint8])
def test_a_flip_of_a_flip_is_the_image(kind: type[Augmentation], dtype: Any) -> None:
    x, flip = image(dtype=dtype), kind(p=1.0)  # type: ignore[call-arg]
    once = flip(x, draws())
    assert not np.array_equal(once, x)
    assert np.array_equal(flip(once, draws()), x)
    assert kind(p=0.0)(x, draws()) is x  # type: ignore[call-arg]


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (7, 7)])
@pytest.mark.parametrize("turns", [-3, 0, 1, 2, 3, 4, 5])
def test_quarters_of_a_turn_of_a_square_are_exact(size: tuple[int, int], turns: int) -> None:
    x = image(3, *size)
    turn = RandomRotation((90.0 * turns, 90.0 * turns))
    assert np.array_equal(turn(x, draws()), np.rot90(x, turns, axes=(1, 2)))
    assert turn(x, draws()).dtype == x.dtype


def test_half_a_turn_of_any_image_is_both_flips() -> None:
    x = image(2, 5, 8, dtype=np.uint8)
    assert np.array_equal(RandomRotation((180, 180))(x, draws()), x[:, ::-1, ::-1])


@pytest.mark.parametrize("fill", [0.0, 0.25])
def test_interpolation_is_scipys(fill: float) -> None:
    x = image(2, 6, 7, dtype=np.float64)
    rows, columns = RNG.uniform(-2, 8, (2, 40, 3))
    expected = [
        ndimage.map_coordinates(c, [rows, columns], order=1, mode="grid-constant", cval=fill)
        for c in x
    ]
    np.testing.assert_allclose(interpolate(x, columns, rows, fill), expected, atol=1e-12)


@pytest.mark.parametrize("angle", [17.0, -121.5])
def test_a_rotation_is_pillows(angle: float) -> None:
    smooth = ndimage.gaussian_filter(image(40, 40, dtype=np.float64), 3).astype(np.float32)
    mine = RandomRotation((angle, angle))(smooth[None], draws())[0]
    pillow = PIL.Image.fromarray(smooth).rotate(angle, PIL.Image.Resampling.BILINEAR)
    middle = np.hypot(*(np.mgrid[:40, :40] - 19.5)) < 17
    np.testing.assert_allclose(mine[middle], np.asarray(pillow)[middle], atol=2e-3)


@pytest.mark.parametrize("size", [(5, 4), (20, 31), (9, 13), (1, 1), (3, 40)])
def test_a_resizing_is_pillows(size: tuple[int, int]) -> None:
    x = image()
    expected = [
        np.asarray(PIL.Image.fromarray(c).resize(size[::-1], PIL.Image.Resampling.BILINEAR))
        for c in x
    ]
    np.testing.assert_allclose(Resize(size)(x, draws()), expected, atol=1e-6)
    bytes_ = image(dtype=np.uint8)
    pillow = PIL.Image.fromarray(bytes_[0]).resize(size[::-1], PIL.Image.Resampling.BILINEAR)
    difference = Resize(size)(bytes_, draws())[0].astype(int) - np.asarray(pillow).astype(int)
    assert abs(difference).max() <= 1


def test_crops_are_the_windows_of_the_padded_image_and_all_occur() -> None:
    x = image(1, 4, 5)
    for mode, options in (("constant", {"constant_values": 0.5}), ("reflect", {}), ("edge", {})):
        padded = np.pad(x, ((0, 0), (2, 2), (2, 2)), mode, **options)  # type: ignore[call-overload]
        crop = RandomCrop((5, 7), padding=2, fill=0.5, padding_mode=mode)  # type: ignore[arg-type]
        windows = [padded[:, t : t + 5, u : u + 7] for t in range(4) for u in range(3)]
        seen = set()
        for index in range(150):
            cut = crop(x, draws(index))
            seen.add(next(i for i, window in enumerate(windows) if np.array_equal(cut, window)))
        assert len(seen) == 12


def test_a_centre_crop_is_the_middle() -> None:
    x = image(1, 7, 8)
    assert np.array_equal(CenterCrop((3, 4))(x, draws()), x[:, 2:5, 2:6])


@pytest.mark.parametrize(
    "augmentation",
    [
        RandomHorizontalFlip(1.0),
        RandomVerticalFlip(1.0),
        RandomCrop((7, 9)),
        RandomCrop(9, padding=4),
        CenterCrop((6, 9)),
        RandomRotation((90, 90)),
        RandomAffine(translate=(0.2, 0.2)),
        RandomAffine(scale=(2.0, 2.0)),
        RandomResizedCrop((27, 39), scale=(0.7, 1.0)),
        Resize((18, 26)),
    ],
    ids=repr,
)
def test_mask_and_boxes_stay_on_the_image(augmentation: Augmentation) -> None:
    for index in range(8):
        item = augmentation(boxed(), draws(index))
        assert isinstance(item, Boxed)
        assert item.name == "a"
        assert item.mask.shape == item.pixels.shape[1:]
        # A bilinear value of at least a half is the rectangle's, up to its border.
        inside = ndimage.binary_erosion(item.pixels[0] > 0.5, np.ones((3, 3)))
        assert (item.mask[inside] == 1).all()
        assert (item.mask[ndimage.binary_dilation(item.pixels[0] > 0.5)] != 0).mean() > 0.3
        rows, columns = np.nonzero(item.mask == 1)
        box = item.boxes[item.labels == 5][0]
        found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        assert abs(box - found).max() <= 1.5
        assert len(item.labels) == len(item.boxes)


def test_exact_maps_move_boxes_exactly_and_drop_what_is_cut_off() -> None:
    flipped = RandomHorizontalFlip(1.0)(boxed(), draws())
    assert flipped.boxes.tolist() == [[4, 3, 9, 6], [12, 0, 13, 1]]
    cut = CenterCrop((3, 5))(boxed(), draws())
    assert cut.boxes.tolist() == [[0, 0, 5, 3]]
    assert cut.labels.tolist() == [5]


def test_a_mask_is_ignored_where_it_lies_outside() -> None:
    moved = RandomAffine(degrees=(45, 45))(boxed(), draws())
    assert moved.mask[0, 0] == IGNORED
    assert set(np.unique(moved.mask)) <= {0, 1, IGNORED}


@pytest.mark.parametrize("size", [(30, 30), (7, 90), (1, 1)])
def test_parts_of_a_resized_crop_are_within_scale_and_ratio(size: tuple[int, int]) -> None:
    crop = RandomResizedCrop(4)
    for index in range(60):
        top, left, height, width = crop._part(*size, draws(index))
        assert 0 <= top <= top + height <= size[0]
        assert 0 <= left <= left + width <= size[1]
        if size == (30, 30):
            assert 0.07 < height * width / 900 <= 1.0
            assert 0.7 < width / height < 1.4


def test_every_kind_of_item_is_augmented() -> None:
    flip, x = RandomHorizontalFlip(1.0), image(1, 2, 3)
    mirrored = x[..., ::-1]
    assert np.array_equal(flip(Image(x, 4), draws()).pixels, mirrored)
    assert flip((x, 7), draws())[1] == 7
    assert np.array_equal(flip({"label": 1, "pixels": x}, draws())["pixels"], mirrored)
    assert np.array_equal(Compose(flip, flip)(x, draws()), x)
    assert repr(Compose(flip)) == "Compose(RandomHorizontalFlip(p=1.0))"
    both = {OneOf(flip, Resize((2, 3)))(x, draws(i)).tobytes() for i in range(9)}
    assert both == {x.tobytes(), np.ascontiguousarray(mirrored).tobytes()}


@pytest.mark.parametrize(
    ("item", "error", "message"),
    [
        (np.zeros((4, 3, 8, 8)), ShapeError, r"\(C, H, W\), got shape \(4, 3, 8, 8\).*augment="),
        (7, DTypeError, "item with them, got int"),
        ({"image": np.zeros((1, 2, 2))}, DTypeError, r"field pixels, got fields \['image'\]"),
        (([1.0], 2), DTypeError, "an array or a tensor, got list"),
        ({"pixels": np.zeros((1, 2, 2)), "mask": np.zeros((3, 2), int)}, ShapeError, "mask"),
        ({"pixels": np.zeros((1, 2, 2)), "mask": np.zeros((2, 2), bool)}, DTypeError, "uint8"),
        ({"pixels": np.zeros((1, 2, 2)), "boxes": [[0.0, 1.0]]}, ShapeError, r"boxes \(n, 4\)"),
    ],
)
def test_items_that_do_not_fit_are_refused(item: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        RandomHorizontalFlip(1.0)(item, draws())


@pytest.mark.parametrize(
    "make",
    [
        lambda: RandomCrop(0),
        lambda: RandomCrop(3, padding=-1),
        lambda: RandomCrop(3, padding_mode="wrap"),  # type: ignore[arg-type]
        lambda: RandomHorizontalFlip(1.5),
        lambda: RandomVerticalFlip(float("nan")),
        lambda: RandomResizedCrop(3, scale=(0.0, 1.0)),
        lambda: RandomRotation((3, 1)),
        lambda: RandomRotation(float("inf")),
        lambda: RandomAffine(shear=90),
        lambda: RandomAffine(scale=(0.0, 1.0)),
        lambda: RandomAffine(translate=(2.0, 0.0)),
        lambda: OneOf(),
    ],
)
def test_settings_out_of_range_are_refused(make: Any) -> None:
    with pytest.raises(ArgumentError, match="requires"):
        make()


def test_a_crop_larger_than_the_image_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"14 x 14 or more with its padding of 0, got \(3, 9, 13"):
        RandomCrop(14)(image(), draws())
