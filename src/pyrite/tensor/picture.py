"""A tensor in a notebook: type, statistics and their picture, and the values folded below."""

from __future__ import annotations

from typing import Final

import numpy as np

from pyrite.types import Array

#: Bars of the picture, and its size in pixels.
BARS: Final = 32
WIDTH: Final = 256
HEIGHT: Final = 48
#: So many values are shown at first, more when they are unfolded.
FEW: Final = 64


def picture(array: Array, dtype: str, device: str, text: str) -> str:
    """Return HTML that needs no script and no style of the page; `text` is what repr says."""
    shape = " × ".join(map(str, array.shape)) or "one value"
    head = f"<b>{_escaped(dtype)}</b> {shape} on {_escaped(device)}"
    values = _numbers(array)
    finite = values[np.isfinite(values)]
    said = _statistics(values, finite)
    bars = _histogram(finite) if finite.size > 1 else ""
    opened = ' open=""' if array.size <= FEW else ""
    return (
        f'<div style="font-family:monospace">{head}<br/>{bars}{said}'
        f'<details{opened}><summary style="cursor:pointer">values</summary>'
        f'<pre style="margin:0">{_escaped(text)}</pre></details></div>'
    )


def _escaped(text: str) -> str:
    # As html.escape, whose module's table of 2,000 names each import of Pyrite would read.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _numbers(array: Array) -> Array:
    """Return the values flat, as numbers that NumPy computes with."""
    if array.dtype.kind in "iub":
        return array.ravel().astype(np.float64)
    return array.ravel().astype(np.promote_types(np.float32, array.dtype), copy=False)


def _statistics(values: Array, finite: Array) -> str:
    counts = {
        "NaN": int(np.isnan(values).sum()),
        "inf": int(np.isposinf(values).sum()),
        "-inf": int(np.isneginf(values).sum()),
        "zero": int((finite == 0).sum()),
    }
    parts = [f"{count:,} {name}" for name, count in counts.items() if count]
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        # Relative to the largest, and in float64: neither sums nor squares overflow.
        scale = max(abs(low), abs(high)) or 1.0
        share = np.divide(finite, scale, dtype=np.float64)
        known = {"min": low, "mean": share.mean() * scale, "max": high, "std": share.std() * scale}
        parts = [f"{name} {number:.4g}" for name, number in known.items()] + parts
    return _escaped(" · ".join(parts) or "no values")


def _histogram(finite: Array) -> str:
    low, high = float(finite.min()), float(finite.max())
    # Halves: the width of all float64 is no float64.
    places = (finite / 2 - low / 2) / ((high / 2 - low / 2) or 1.0) * (BARS - 1e-6)
    counts = np.bincount(places.astype(np.int64), minlength=BARS)[:BARS]
    step = WIDTH / BARS
    bars = "".join(
        f'<rect x="{number * step:g}" y="{HEIGHT - height:.1f}" width="{step - 1:g}" '
        f'height="{height:.1f}"/>'
        for number, height in enumerate(counts / counts.max() * HEIGHT)
        if height
    )
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" fill="#4878a8" '
        f'style="border-bottom:1px solid gray"><title>how often which values occur, from '
        f"{low:.4g} to {high:.4g}</title>{bars}</svg><br/>"
    )
