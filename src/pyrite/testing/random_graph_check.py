"""Random graphs with Fusion, without it, and on the reference: what each read may differ by."""

from __future__ import annotations

import numpy as np

from pyrite.backend.device import Device
from pyrite.testing.random_graphs import RandomGraph
from pyrite.types import Array


def check(graph: RandomGraph, plain: Device, fused: Device) -> None:
    """Compare what is read with and without Fusion, and with the reference."""
    without = graph.run(plain)
    found = graph.run(fused)
    again = graph.run(fused)
    held = graph.run(fused, holds_all=True)
    for n, read in enumerate(graph.reads()):
        what = f"seed {graph.seed}, v{read.value}, read {n} of\n{graph.text}\n"
        _assert_same(found[n], again[n], what + "the same program again")
        for other, name in ((found[n], "fused"), (held[n], "with all values held")):
            assert other.dtype == without[n].dtype
            if read.is_exact:
                _assert_same(other, without[n], what + name)
            else:
                _assert_close(other, without[n], read.allowed, what + name)
            if read.is_certain:
                _assert_close(other, read.array, read.allowed, what + name + ", by the reference")


def _assert_same(x: Array, y: Array, what: str) -> None:
    assert x.shape == y.shape, what
    is_same = (x == y) | ((x != x) & (y != y))
    if x.dtype.kind not in "iub":
        is_same &= (np.signbit(x) == np.signbit(y)) | (x != x)
    assert is_same.all(), f"{what}: {x[~is_same][:4]} != {y[~is_same][:4]}"


def _assert_close(x: Array, y: Array, allowed: float, what: str) -> None:
    assert x.shape == y.shape, what
    if y.dtype.kind in "iub":
        np.testing.assert_array_equal(x, y, what)
        return
    wide = x.astype(np.float64), y.astype(np.float64)
    is_finite = np.isfinite(wide[1])
    np.testing.assert_array_equal(wide[0][~is_finite], wide[1][~is_finite], what)
    off = np.abs(wide[0][is_finite] - wide[1][is_finite]).max(initial=0.0)
    assert off <= allowed, f"{what}: off by {off}, allowed {allowed}"
