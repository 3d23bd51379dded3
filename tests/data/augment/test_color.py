"""Changes of colour agree with Pillow and colorsys; erasing and mixing change what they say."""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import PIL.Image
import PIL.ImageEnhance
import pytest

from pyrite.data import Draws, Image
from pyrite.data.augment import (
    ColorJitter,
    CutMix,
    Mixup,
    Normalize,
    RandomErasing,
    RandomGrayscale,
)
from pyrite.data.augment.color import brightened, contrasted, hue_turned, saturated
from pyrite.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError

RNG = np.random.default_rng(5)
BYTES = RNG.integers(0, 256, (3, 8, 11), np.uint8)
FLOATS = BYTES.astype(np.float32) / 255


def draws(index: int = 0) -> Draws:
    return Draws(4, 1, index)


@pytest.mark.parametrize("factor", [0.0, 0.6, 1.0, 1.7])
@pytest.mark.parametrize(
    ("mine", "pillow"),
    [
        (brightened, PIL.ImageEnhance.Brightness),
        (contrasted, PIL.ImageEnhance.Contrast),
        (saturated, PIL.ImageEnhance.Color),
    ],
)
def test_blends_are_pillows_to_a_level_of_a_byte(mine: Any, pillow: Any, factor: float) -> None:
    expected = pillow(PIL.Image.fromarray(BYTES.transpose(1, 2, 0))).enhance(factor)
    levels = np.asarray(expected).transpose(2, 0, 1) / 255
    np.testing.assert_allclose(mine(FLOATS, factor), levels, atol=2.5 / 255)


@pytest.mark.parametrize("turn", [-0.5, -0.2, 0.0, 0.1, 0.5])
def test_a_turned_hue_is_that_of_colorsys(turn: float) -> None:
    pixels = np.concatenate([FLOATS, np.full((3, 1, 11), 0.3, np.float32)], axis=1)
    expected = np.empty_like(pixels, np.float64)
    for place in np.ndindex(pixels.shape[1:]):
        hue, saturation, value = colorsys.rgb_to_hsv(*pixels[:, *place].astype(float))
        expected[:, *place] = colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value)
    np.testing.assert_allclose(hue_turned(pixels, turn), expected, atol=2e-6)


def test_a_jitter_of_nothing_is_the_image_and_of_all_stays_in_range() -> None:
    assert np.array_equal(ColorJitter()(FLOATS, draws()), FLOATS)
    jitter = ColorJitter(0.5, 0.5, 0.5, 0.2)
    results = [jitter(FLOATS, draws(index)) for index in range(20)]
    assert all(0 <= result.min() <= result.max() <= 1 for result in results)
    assert all(result.dtype == np.float32 for result in results)
    assert len({result.tobytes() for result in results}) == 20
    assert np.array_equal(jitter(FLOATS, draws(3)), results[3])
    factors = [ColorJitter(brightness=0.5)(FLOATS[:, :1] * 0.5, draws(i)).sum() for i in range(200)]
    ratios = np.array(factors) / (FLOATS[:, :1] * 0.5).sum()
    assert 0.5 <= ratios.min() < 0.6 < 1.4 < ratios.max() <= 1.5


def test_grey_has_one_value_in_three_channels() -> None:
    grey = RandomGrayscale(1.0)(FLOATS, draws())
    assert np.array_equal(grey[0], grey[1])
    assert np.array_equal(grey[0], grey[2])
    assert RandomGrayscale(0.0)(FLOATS, draws()) is FLOATS


def test_normalized_channels_have_mean_and_deviation() -> None:
    mean, std = FLOATS.mean((1, 2)).tolist(), FLOATS.std((1, 2)).tolist()
    result = Normalize(mean, std)(FLOATS, draws())
    np.testing.assert_allclose(result.mean((1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(result.std((1, 2)), 1, atol=1e-5)


@pytest.mark.parametrize("value", [0.5, "random"])
def test_one_rectangle_is_erased_and_its_area_is_in_scale(value: Any) -> None:
    x = np.full((3, 32, 32), 2.0, np.float32)
    erase = RandomErasing(1.0, scale=(0.1, 0.2), value=value)
    for index in range(30):
        changed = (erase(x, draws(index)) != 2.0).any(axis=0)
        rows, columns = np.nonzero(changed)
        area = (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
        assert changed.sum() == area
        assert 0.08 < area / 1024 < 0.22
    assert (x == 2.0).all()


def test_mixup_mixes_images_and_labels_by_one_share() -> None:
    pixels = RNG.random((6, 1, 2, 2), np.float32)
    batch = Image(pixels, np.arange(6, dtype=np.int32))  # type: ignore[arg-type]
    for number in range(5):
        mixed = Mixup(0.4, 7)(batch, Draws(0, 0, number, batch=True))
        labels: Any = mixed.label
        assert labels.shape == (6, 7)
        np.testing.assert_allclose(labels.sum(axis=1), 1, atol=1e-6)
        # The labels name who was mixed, with which share: the images are that mixture.
        expected = np.tensordot(labels[:, :6], pixels, axes=1)
        np.testing.assert_allclose(mixed.pixels, expected, atol=1e-6)


def test_cutmix_labels_are_the_areas() -> None:
    pixels = np.broadcast_to(np.arange(4.0, dtype=np.float32)[:, None, None, None], (4, 2, 9, 7))
    seen = set()
    for number in range(20):
        mixed, shares = CutMix(1.0, 4)((pixels, np.arange(4)), Draws(1, 0, number, batch=True))
        for image, share in zip(mixed, shares, strict=True):
            areas = [(image[0] == label).mean() for label in range(4)]
            np.testing.assert_allclose(share, areas, atol=1e-6)
        seen.add(float(np.median(shares[shares > 0])))
    assert len(seen) > 9


@pytest.mark.parametrize(
    ("step", "item", "error", "message"),
    [
        (ColorJitter(0.1), BYTES, DTypeError, "divide them by 255"),
        (ColorJitter(hue=0.1), FLOATS[:1], ShapeError, "three channels"),
        (RandomGrayscale(), FLOATS[:2], ShapeError, "three channels"),
        (Normalize([0.5] * 2, [1.0] * 2), FLOATS, ShapeError, "requires 2 channels"),
        (Mixup(1.0, 2), (FLOATS, np.array([0, 1, 2])), IndexRangeError, "0 to 1, got 0 to 2"),
        (Mixup(1.0, 2), (FLOATS, np.array([0, 1])), ShapeError, "one label for each"),
        (Mixup(1.0, 2), (BYTES, np.array([0, 1, 1])), DTypeError, "floats"),
        (Mixup(1.0, 2), (FLOATS,), DTypeError, "pixels and labels"),
        (CutMix(1.0, 3), (FLOATS, np.array([0, 1, 1])), ShapeError, r"\(N, C, H, W\)"),
    ],
)
def test_what_does_not_fit_is_refused(
    step: Any, item: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        step(item, draws())


@pytest.mark.parametrize(
    "make",
    [
        lambda: ColorJitter(-0.1),
        lambda: ColorJitter(hue=0.6),
        lambda: Normalize([0.0], [0.0]),
        lambda: RandomErasing(scale=(0.5, 0.1)),
        lambda: Mixup(0.0, 3),
        lambda: CutMix(1.0, 0),
    ],
)
def test_settings_out_of_range_are_refused(make: Any) -> None:
    with pytest.raises(ArgumentError, match="requires"):
        make()
