"""Columns are the windows of an image, and folding is the transpose of that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.skeleton.along import AlongConfig
from pyrite.backend.cube.skeleton.window.axis import positions_of_windows, sliding
from pyrite.backend.cube.skeleton.window.overlap import Cells, Folding, fold
from pyrite.backend.device import Device
from pyrite.kernel import Value
from pyrite.tensor.creation import tensor
from pyrite.types import TensorType, int32

#: Sizes, kernel_size, stride, padding, dilation.
WINDOWS: list[tuple[Any, ...]] = [
    ((5, 40), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    ((4, 41), (2, 3), (1, 1), ((0, 1), (2, 0)), (2, 3)),
    ((7, 50), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    ((6, 77), (2, 4), (3, 3), ((0, 0), (2, 1)), (1, 1)),
    ((5, 70), (1, 2), (2, 4), ((0, 0), (3, 3)), (1, 1)),
    ((9, 30), (3, 2), (2, 3), ((2, 2), (0, 4)), (2, 3)),
    ((5, 60), (2, 11), (1, 1), ((1, 1), (5, 5)), (1, 1)),
    ((5, 60), (2, 3), (1, 7), ((1, 1), (3, 3)), (1, 1)),
]
CONFIGS = [AlongConfig(1, width, row) for width in (1, 4, 16) for row in (True, False)]


def options(windows: tuple[Any, ...]) -> dict[str, Any]:
    """The arguments of `unfold4d` and `fold4d`."""
    _, kernel_size, stride, padding, dilation = windows
    return {
        "kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation,
    }  # fmt: skip


@pytest.mark.parametrize("setting", CONFIGS, ids=str)
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_every_candidate_sums_what_windows_hold(
    interpreter: Device, windows: tuple[Any, ...], setting: AlongConfig
) -> None:
    backend = interpreter.backend
    assert isinstance(backend, CubeBackend)
    sizes, *rest = windows
    counts = positions_of_windows(sizes, *rest)
    shape = (2, 1, *rest[0], *counts)
    array = np.random.default_rng(0).integers(-99, 99, shape).astype(np.int32)
    columns = tensor(array.reshape(2, -1, int(np.prod(counts))))
    want = columns.fold4d(sizes, **options(windows)).numpy()

    def held(folding: Folding, cells: Cells) -> Value:
        return folding.load(folding.along.sources[0], cells, has_taps=True)

    target = backend.launcher.empty(TensorType(want.shape, int32))
    source = tensor(array, device=interpreter)._handle
    axes = sliding(sizes, counts, *rest)
    fold(backend.launcher, "fold", None, axes, [source], target, held, config=setting)

    np.testing.assert_array_equal(backend.download(target), want)


@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_folding_is_the_transpose_of_unfolding(
    interpreter: Device, windows: tuple[Any, ...]
) -> None:
    rng = np.random.default_rng(1)
    image = rng.integers(-9, 9, (2, 3, *windows[0])).astype(np.int32)
    columns = tensor(image, device=interpreter).unfold4d(**options(windows))
    other = rng.integers(-9, 9, columns.shape).astype(np.int32)
    folded = tensor(other, device=interpreter).fold4d(windows[0], **options(windows))

    assert (columns.numpy() * other).sum() == (image * folded.numpy()).sum()


def test_columns_of_an_image_in_any_layout_are_its_windows(interpreter: Device) -> None:
    array = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 4, 5, 3)
    got, want = (
        tensor(array, device=d).permute_dims((0, 3, 1, 2)).flip(2).unfold4d(2, padding=1).numpy()
        for d in (interpreter, "numpy")
    )

    np.testing.assert_array_equal(got, want)


def test_a_sum_of_bools_is_whether_any_holds(interpreter: Device) -> None:
    array = np.random.default_rng(2).integers(0, 2, (1, 4, 8 * 3)).astype(bool)
    got, want = (
        tensor(array, device=d).fold4d((4, 9), 2, stride=(1, 1)).numpy()
        for d in (interpreter, "numpy")
    )

    assert got.dtype == bool
    np.testing.assert_array_equal(got, want)
