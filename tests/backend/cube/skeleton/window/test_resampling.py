"""Every config reads axes anew as NumPy does, along any of them, with few taps and with many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.skeleton.window.resampling import (
    Line,
    candidates,
    lines_of,
    resample,
    select,
    written_out,
)
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.device import Device
from pyrite.tensor.creation import tensor
from pyrite.types import TensorType, float32

RANDOM = np.random.default_rng(0)
CPU = Machine("cpu", 16, (1,), 2**31 - 1)
GPU = Machine("gpu", 4, (64,), 65535)

#: Shapes, and the lines along which they are read.
CASES: list[tuple[tuple[int, ...], tuple[tuple[int, int, int], ...]]] = [
    ((2, 3, 19), ((2, 37, 2),)),
    ((2, 3, 5), ((2, 7, 11),)),
    ((1, 2, 5, 35), ((2, 7, 2), (3, 18, 4))),
    ((1, 2, 5, 16), ((2, 3, 9), (3, 33, 1))),
    ((1, 2, 5, 21), ((2, 9, 3),)),
    ((1, 2, 3, 4, 6), ((2, 2, 2), (3, 5, 9), (4, 17, 3))),
    ((1, 2, 3, 4, 6), ((2, 4, 2), (4, 5, 2))),
    ((1, 1, 2, 3, 4), ((2, 3, 6), (3, 2, 7), (4, 5, 3))),
]


def tables(
    shape: tuple[int, ...], lines: tuple[tuple[int, int, int], ...], *, skips: bool
) -> tuple[Any, Any]:
    """Random places and weights, some of them 0 if those are skipped."""
    places = [RANDOM.integers(0, shape[axis], count * taps) for axis, count, taps in lines]
    joined = np.concatenate(places).astype(np.int32)
    weights = RANDOM.uniform(-1, 1, joined.shape).astype(np.float32)
    if skips:
        weights[RANDOM.random(weights.shape) < 0.3] = 0
    return joined, weights


def attributes(lines: Any) -> dict[str, Any]:
    """Return lines as the op takes them."""
    return dict(zip(("axes", "size", "taps"), zip(*lines, strict=True), strict=True))


def settings(shape: tuple[int, ...], lines: Any, machine: Machine) -> list[Any]:
    x = CubeTensor.dense(None, TensorType(shape, float32))  # type: ignore[arg-type]
    sizes = {axis: count for axis, count, _ in lines}
    out = tuple(sizes.get(axis, n) for axis, n in enumerate(shape))
    return candidates(x, lines_of(attributes(lines)), out, machine)


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("machine", [CPU, GPU], ids=lambda m: m.kind)
@pytest.mark.parametrize(("shape", "lines"), CASES)
def test_every_candidate_sums_the_taps(
    interpreter: Device,
    shape: tuple[int, ...],
    lines: Any,
    machine: Machine,
    skips: bool,
    quarter: Any,
) -> None:
    array = RANDOM.normal(size=shape).astype(np.float32)
    places, weights = tables(shape, lines, skips=skips)
    want = tensor(array)._resample(
        tensor(places), tensor(weights), **attributes(lines), skips=skips
    )
    backend = interpreter.backend
    assert isinstance(backend, CubeBackend)
    x, *of_taps = (backend.upload(a) for a in (array, places, weights))
    for setting in quarter(
        s for s in settings(shape, lines, machine) if s.along.width in (1, 4, 16)
    ):
        target = backend.launcher.empty(TensorType(want.shape, float32))
        resample(
            backend.launcher, x, *of_taps, lines_of(attributes(lines)), target, setting, skips=skips
        )
        np.testing.assert_allclose(backend.download(target), want.numpy(), rtol=1e-5, atol=1e-5)


def test_rows_are_summed_first_where_several_are_read_and_they_fit() -> None:
    def sums_rows(shape: tuple[int, ...], lines: Any, machine: Machine = CPU) -> bool:
        x = CubeTensor.dense(None, TensorType(shape, float32))  # type: ignore[arg-type]
        found: list[Line] = lines_of(attributes(lines))
        return select(x, found, (1, 1, 16, 16), machine).sums_rows

    assert sums_rows((1, 1, 8, 8), ((2, 16, 2), (3, 16, 2)))
    assert not sums_rows((1, 1, 8, 8), ((2, 16, 1), (3, 16, 1)))
    assert not sums_rows((1, 1, 8, 16), ((2, 16, 2),))
    assert not sums_rows((1, 1, 8, 1 << 20), ((2, 16, 2), (3, 16, 2)))
    assert not sums_rows((1, 1, 8, 8), ((2, 16, 2), (3, 16, 2)), GPU)


def test_taps_are_written_out_until_their_product_is_large() -> None:
    def axes(*taps: int) -> frozenset[int]:
        return written_out([Line(axis, 4, n, 0) for axis, n in enumerate(taps, start=2)])

    assert axes(8, 8) == {2, 3}
    assert axes(8, 8, 8) == {3, 4}
    assert axes(2, 9) == {2}
    assert axes(9, 2) == {3}


def test_an_infinity_that_is_not_read_is_not_seen(interpreter: Device) -> None:
    x = tensor(np.array([[[np.inf, 1.0, 2.0, np.nan]]], np.float32), device=interpreter)
    # Of these four the taps of weight 0 would be the infinity and NaN.
    out = x.interpolate(7, mode="linear", align_corners=True).numpy()[0, 0]

    assert out.tolist()[:5] == [np.inf, np.inf, 1.0, 1.5, 2.0]
    assert np.isnan(out[5:]).all()


def test_what_no_element_reads_has_no_gradient(interpreter: Device) -> None:
    g = tensor(np.array([[[np.inf, 2.0]]], np.float32), device=interpreter)
    attrs = {"sizes": (5,), "scale_factor": None, "mode": "nearest", "align_corners": False}

    assert g._interpolate_backward(**attrs).numpy().tolist() == [[[np.inf, 0.0, 2.0, 0.0, 0.0]]]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_an_image_that_lies_turned_is_resized_in_its_dtype(interpreter: Device, dtype: str) -> None:
    array = RANDOM.normal(size=(3, 4, 5, 6))
    got, want = (
        tensor(array, device=d).astype(dtype).permute_dims((0, 2, 3, 1)).flip(2)
        .interpolate((9, 7), mode="bicubic").astype("float32").numpy()
        for d in (interpreter, "numpy")
    )  # fmt: skip

    np.testing.assert_allclose(got, want, rtol=1e-2, atol=1e-2 if dtype == "bfloat16" else 1e-3)
