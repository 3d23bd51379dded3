"""Metrics of images against torchmetrics; and against SciPy in float64, window by window."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import correlate1d

from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.train import PSNR, SSIM, MultiScaleSSIM, Output

from .conftest import Over, output


def images(case: int, shape: tuple[int, ...], data_range: float = 1.0) -> tuple[Any, Any]:
    """Pictures with smooth parts, and copies with noise and another brightness."""
    generator = np.random.default_rng(case)
    right = generator.random(shape)
    for axis in (2, 3):
        right = correlate1d(right, np.full(5, 0.2), axis=axis)
    noise = generator.normal(size=shape) * generator.choice([0.01, 0.1, 0.5])
    said = np.clip(right * generator.uniform(0.7, 1.1) + noise, 0, 1)
    return (said * data_range).astype(np.float32), (right * data_range).astype(np.float32)


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize("data_range", [1.0, 255.0])
def test_psnr_is_that_of_torchmetrics(case: int, data_range: float, over: Over) -> None:
    judge = pytest.importorskip("torchmetrics.functional.image").peak_signal_noise_ratio
    torch = pytest.importorskip("torch")
    said, right = images(case, (5, 3, 9, 7), data_range)
    given = torch.tensor(said).double(), torch.tensor(right).double()
    assert over(PSNR(data_range), said, right) == pytest.approx(
        float(judge(*given, data_range=data_range)), abs=1e-4
    )
    each = judge(*given, data_range=data_range, dim=(1, 2, 3))
    assert over(PSNR(data_range, per_image=True), said, right) == pytest.approx(
        float(each), abs=1e-4
    )


def test_psnr_of_equal_images_is_infinite_and_of_bytes_does_not_wrap(over: Over) -> None:
    dark, bright = np.zeros((2, 4), np.uint8), np.full((2, 4), 255, np.uint8)
    assert over(PSNR(255.0), dark, dark) == math.inf
    assert over(PSNR(255.0, per_image=True), dark, dark) == math.inf
    assert over(PSNR(255.0), dark, bright) == over(PSNR(255.0), bright, dark) == 0


def parts(x: Any, y: Any, data_range: float, window: Any) -> tuple[Any, Any]:
    """SSIM and its part of contrast and structure per image, in float64, by SciPy."""
    reach = len(window) // 2

    def means(image: Any) -> Any:
        for axis in (2, 3):
            image = correlate1d(image, window, axis=axis)
        return image[:, :, reach : image.shape[2] - reach, reach : image.shape[3] - reach]

    x, y = x.astype(np.float64), y.astype(np.float64)
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    mx, my = means(x), means(y)
    vx, vy, cov = means(x * x) - mx**2, means(y * y) - my**2, means(x * y) - mx * my
    structure = (2 * cov + c2) / (vx + vy + c2)
    whole = structure * (2 * mx * my + c1) / (mx**2 + my**2 + c1)
    return whole.mean(axis=(1, 2, 3)), structure.mean(axis=(1, 2, 3))


def bell(sigma: float) -> Any:
    reach = int(3.5 * sigma + 0.5)
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    return weights / weights.sum()


def halved(image: Any) -> Any:
    height, width = image.shape[2] // 2 * 2, image.shape[3] // 2 * 2
    image = image[:, :, :height, :width].astype(np.float64)
    return image.reshape(*image.shape[:2], height // 2, 2, width // 2, 2).mean(axis=(3, 5))


@pytest.mark.parametrize("data_range", [1.0, 255.0])
@pytest.mark.parametrize("sigma", [1.5, 0.8])
@pytest.mark.parametrize("shape", [(3, 1, 16, 21), (2, 3, 23, 17), (2, 2, 11, 11)])
def test_ssim_is_that_of_the_paper_and_of_torchmetrics_within_the_border(
    shape: tuple[int, ...], sigma: float, data_range: float, over: Over
) -> None:
    judge = pytest.importorskip("torchmetrics.functional.image")
    torch = pytest.importorskip("torch")
    reach = int(3.5 * sigma + 0.5)
    for case in range(3):
        said, right = images(case, shape, data_range)
        value = over(SSIM(data_range, sigma=sigma), said, right)
        assert value == pytest.approx(
            parts(said, right, data_range, bell(sigma))[0].mean(), abs=2e-6
        )
        _, whole = judge.structural_similarity_index_measure(
            torch.tensor(said).double(), torch.tensor(right).double(),
            sigma=sigma, data_range=data_range, return_full_image=True,
        )  # fmt: skip
        inside = whole[..., reach : shape[2] - reach, reach : shape[3] - reach]
        assert value == pytest.approx(float(inside.mean()), abs=2e-6)


def test_ssim_of_square_windows(over: Over) -> None:
    said, right = images(7, (2, 3, 14, 12))
    expected = parts(said, right, 1.0, np.full(7, 1 / 7))[0].mean()
    metric = SSIM(gaussian_kernel=False, kernel_size=7)
    assert over(metric, said, right) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("level", [0.0, 0.5, 1.0, 255.0])
def test_ssim_of_constant_images_is_that_of_their_brightness(level: float, over: Over) -> None:
    shape, data_range = (2, 1, 13, 13), max(level, 1.0)
    right = np.full(shape, level, np.float32)
    assert over(SSIM(data_range), right, right) == pytest.approx(1, abs=1e-6)
    c1 = (0.01 * data_range) ** 2
    dark = over(SSIM(data_range), 0 * right, right)
    assert dark == pytest.approx(c1 / (level**2 + c1), abs=1e-6)


def test_ssim_of_bright_images_with_little_contrast_keeps_its_digits(over: Over) -> None:
    generator = np.random.default_rng(0)
    right = (250 + generator.random((2, 1, 20, 20))).astype(np.float32)
    said = (250 + generator.random((2, 1, 20, 20))).astype(np.float32)
    expected = parts(said, right, 1.0, bell(1.5))[0].mean()
    assert over(SSIM(1.0), said, right) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("normalize", ["relu", "simple"])
@pytest.mark.parametrize("shape", [(2, 1, 46, 49), (2, 3, 61, 44)])
def test_ms_ssim_is_that_of_the_paper(shape: Any, normalize: Any, over: Over) -> None:
    betas = (0.3, 0.3, 0.4)
    for case in range(3):
        said, right = images(case, shape)
        if case == 2:
            said = 1 - said  # negative structure
        expected: Any = 1.0
        x, y = said, right
        for scale, beta in enumerate(betas):
            part = parts(x, y, 1.0, bell(1.5))[0 if scale == 2 else 1]
            part = np.maximum(part, 0) if normalize == "relu" else (part + 1) / 2
            expected, x, y = expected * part**beta, halved(x), halved(y)
        value = over(MultiScaleSSIM(betas=betas, normalize=normalize), said, right)
        assert value == pytest.approx(expected.mean(), abs=1e-5)


def test_ms_ssim_is_near_that_of_torchmetrics_which_mirrors_at_the_coarsest_scale(
    over: Over,
) -> None:
    judge = pytest.importorskip("torchmetrics.functional.image")
    torch = pytest.importorskip("torch")
    said, right = images(1, (2, 1, 192, 181))
    expected = judge.multiscale_structural_similarity_index_measure(
        torch.tensor(said).double(), torch.tensor(right).double(), data_range=1.0, normalize="relu"
    )
    assert over(MultiScaleSSIM(), said, right) == pytest.approx(float(expected), abs=0.02)


@pytest.mark.parametrize(
    "make", [PSNR, lambda: PSNR(per_image=True), SSIM, lambda: MultiScaleSSIM(betas=(0.5, 0.5))]
)
def test_the_cut_into_batches_does_not_matter(make: Any, over: Over) -> None:
    said, right = images(4, (6, 2, 24, 23))
    values = [over(make(), said, right, cuts) for cuts in ([], range(6), [1])]
    assert values == pytest.approx([values[0]] * 3, rel=1e-6)


@pytest.mark.parametrize("make", [PSNR, SSIM, lambda: MultiScaleSSIM(betas=(0.5, 0.5))])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_are_computed_with_in_float32(make: Any, dtype: str) -> None:
    said, right = (tensor(image).astype(dtype) for image in images(5, (2, 1, 24, 24)))
    small, large = make(), make()
    small.update(Output(tensor(0.0), said, right))
    large.update(Output(tensor(0.0), said.astype("float32"), right.astype("float32")))
    assert small.compute() == large.compute()


def test_what_does_not_fit_is_named() -> None:
    small = np.zeros((1, 1, 10, 30), np.float32)
    with pytest.raises(ShapeError, match="at least 11 x 11 pixels, got"):
        SSIM().update(output(small, small))
    with pytest.raises(ShapeError, match="at least 176 x 176 pixels, got"):
        MultiScaleSSIM().update(output(small, small))
    with pytest.raises(ShapeError, match=r"one shape \(N, C, H, W\), got"):
        SSIM().update(output(small[0], small[0]))
    with pytest.raises(ShapeError, match=r"one shape \(N, ...\), got"):
        PSNR().update(output(small, small[:, :, :5]))
    with pytest.raises(ArgumentError, match="got NoneType and NoneType"):
        PSNR().update(Output(tensor(0.0)))
    for make in (lambda: PSNR(0.0), lambda: SSIM(sigma=0.0), lambda: SSIM(-1.0),
                 lambda: SSIM(gaussian_kernel=False, kernel_size=0),
                 lambda: MultiScaleSSIM(betas=())):  # fmt: skip
        with pytest.raises(ArgumentError, match="requires"):
            make()
