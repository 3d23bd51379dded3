"""Histograms: edges that were made of numbers are kept on a device, and are the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.errors import DeviceError
from pyrite.tensor.histogram import MOST_BINS, MOST_KEPT

VALUES = np.random.default_rng(0).standard_normal(200).astype(np.float32)


@pytest.fixture
def x() -> pyrite.Tensor:
    pytest.importorskip("wgpu")
    try:
        return pyrite.tensor(VALUES, device="wgpu")
    except DeviceError:
        pytest.skip("no WebGPU adapter")


def uploads(x: pyrite.Tensor) -> int:
    backend: Any = x.device.backend.root
    return int(backend.runtime.report()["uploads"])


def test_edges_are_uploaded_once(x: pyrite.Tensor) -> None:
    for bins, range in ((7, (-1.0, 1.0)), (7, (-1.0, 2.0)), (8, (-1.0, 1.0)), (8, (0.5, 0.5))):
        pyrite.histogram(x, bins, range)
        before = uploads(x)

        counts, edges = pyrite.histogram(x, bins, range)

        assert uploads(x) == before
        wanted, bounds = np.histogram(VALUES, bins, range)
        np.testing.assert_array_equal(counts.numpy(), wanted)
        np.testing.assert_allclose(edges.numpy(), bounds, atol=1e-6)


def test_few_edges_are_kept(x: pyrite.Tensor) -> None:
    for n in range(2 * MOST_KEPT):
        pyrite.histogram(x, 4, (0.0, 1.0 + n))
    for bins, range_ in ((4, (0.0, 1.0)), (MOST_BINS + 1, (0.0, 1.0)), (MOST_BINS + 1, (0.0, 1.0))):
        before = uploads(x)
        counts, _ = pyrite.histogram(x, bins, range_)
        assert uploads(x) == before + 1
        assert counts.sum().item() == np.histogram(VALUES, bins, range_)[0].sum()


def test_edges_in_a_gradient_and_in_a_compiled_function(x: pyrite.Tensor) -> None:
    def counted(x: pyrite.Tensor) -> pyrite.Tensor:
        return pyrite.histogram(x, 5, (-2.0, 2.0)).counts

    found, grads = pyrite.value_and_grad(lambda x: x.sum() + counted(x).sum() * 0.0)(x)
    compiled = pyrite.compile(counted)
    wanted = np.histogram(VALUES, 5, (-2.0, 2.0))[0]

    assert abs(found.item() - VALUES.sum()) < 1e-3
    assert (grads.numpy() == 1).all()
    for _ in range(5):
        np.testing.assert_array_equal(compiled(x).numpy(), wanted)
