"""Fourier transforms, windows and the mel scale.  A transform is a product with its matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrite.errors import ShapeError
from pyrite.onnx.bound import require_bounded
from pyrite.onnx.converter import Host, converts
from pyrite.onnx.element import ELEMENTS
from pyrite.onnx.host import integer, number
from pyrite.onnx.program import Call
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array

#: The longest transform: its matrix has as many elements as the square of this.
LONGEST = 1 << 13


@converts("DFT", since=20)
def dft(
    x: Tensor,
    dft_length: Host | None = None,
    axis: Host | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """Return the discrete Fourier transform along an axis; the last axis is real and imaginary."""
    at = -2 if axis is None else integer(axis)
    return _dft(
        x,
        None if dft_length is None else integer(dft_length),
        at,
        bool(inverse),
        bool(onesided),
    )


@converts("DFT", since=17)
def dft_17(
    x: Tensor,
    dft_length: Host | None = None,
    *,
    axis: int = 1,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """Return the discrete Fourier transform along an axis; the last axis is real and imaginary."""
    return _dft(
        x,
        None if dft_length is None else integer(dft_length),
        axis,
        bool(inverse),
        bool(onesided),
    )


def _dft(x: Tensor, length: int | None, axis: int, inverse: bool, onesided: bool) -> Tensor:
    axis %= x.ndim
    given = x.shape[axis]
    if length is None:
        length = 2 * (given - 1) if inverse and onesided else given
    real, imaginary = x[..., 0], x[..., 1] if x.shape[-1] == 2 else None
    if inverse and onesided:
        return _inverse_real(real, imaginary, length, axis).unsqueeze(-1)
    count = length // 2 + 1 if onesided else length
    cos, sin = _matrices(min(given, length), count, length, inverse)
    parts = [
        None if p is None else p.narrow(axis, 0, min(given, length)) for p in (real, imaginary)
    ]
    return _product(parts[0], parts[1], cos, sin, axis)


def _matrices(rows: int, columns: int, length: int, inverse: bool) -> tuple[Array, Array]:
    """Return the real and imaginary parts of e ** (-2 pi i n k / length), or its inverse."""
    if length > LONGEST:
        raise ShapeError(f"DFT requires a length of at most {LONGEST}, got {length}")
    # Reduced in integers, where the angle stays exact.
    turns = (np.arange(rows)[:, None] * np.arange(columns)) % length
    angle = 2 * np.pi * turns / length
    scale = 1 / length if inverse else 1.0
    return np.cos(angle) * scale, (np.sin(angle) if inverse else -np.sin(angle)) * scale


def _product(
    real: Tensor | None, imaginary: Tensor | None, cos: Array, sin: Array, axis: int
) -> Tensor:
    assert real is not None, "there is always a real part"
    c, s = (functions.tensor(m, device=real.device).astype(real.dtype) for m in (cos, sin))
    a = real.swap_axes(axis, -1)
    out_real, out_imaginary = a.matmul(c), a.matmul(s)
    if imaginary is not None:
        b = imaginary.swap_axes(axis, -1)
        out_real, out_imaginary = out_real - b.matmul(s), out_imaginary + b.matmul(c)
    return functions.stack([t.swap_axes(axis, -1) for t in (out_real, out_imaginary)], -1)


def _inverse_real(real: Tensor, imaginary: Tensor | None, length: int, axis: int) -> Tensor:
    """Return the real signal whose first half of frequencies is given."""
    half = length // 2 + 1
    count = min(real.shape[axis], half)
    cos, sin = _matrices(count, length, length, True)
    # The other half are the conjugates, but of the first, and of the last of an even length.
    twice = np.full((count, 1), 2.0)
    twice[0] = 1.0
    if length % 2 == 0 and count == half:
        twice[-1] = 1.0
    c, s = (functions.tensor(m * twice, device=real.device).astype(real.dtype) for m in (cos, sin))
    found = real.narrow(axis, 0, count).swap_axes(axis, -1).matmul(c)
    if imaginary is not None:
        found = found - imaginary.narrow(axis, 0, count).swap_axes(axis, -1).matmul(s)
    return found.swap_axes(axis, -1)


@converts("STFT", since=17)
def stft(
    signal: Tensor,
    frame_step: Host,
    window: Tensor | None = None,
    frame_length: Host | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """Return the transforms of windows of a signal: (N, L, 1 or 2) -> (N, frames, bins, 2)."""
    step = integer(frame_step)
    if frame_length is not None:
        length = integer(frame_length)
    else:
        length = signal.shape[1] if window is None else window.shape[0]
    frames = (signal.shape[1] - length) // step + 1
    index = (np.arange(frames)[:, None] * step + np.arange(length)).astype(np.int32)
    places = functions.tensor(index.reshape(-1), device=signal.device)
    seen = signal.take(places, 1).reshape((signal.shape[0], frames, length, signal.shape[2]))
    if window is not None:
        seen = seen * window.reshape((-1, 1))
    return _dft(seen, length, 2, False, bool(onesided))


@converts("MelWeightMatrix", since=17)
def mel_weight_matrix(
    call: Call,
    num_mel_bins: Host,
    dft_length: Host,
    sample_rate: Host,
    lower_edge_hertz: Host,
    upper_edge_hertz: Host,
    *,
    output_datatype: int = 1,
) -> Tensor:
    """Return triangles that weigh the bins of a spectrum: (dft_length / 2 + 1, num_mel_bins)."""
    bins, length, rate = (integer(v) for v in (num_mel_bins, dft_length, sample_rate))
    require_bounded("MelWeightMatrix", (bins, length))
    low, high = (2595 * np.log10(1 + number(v) / 700) for v in (lower_edge_hertz, upper_edge_hertz))
    mels = low + np.arange(bins + 2) * ((high - low) / (bins + 2))
    edges = ((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate).astype(int)
    places = np.arange(length // 2 + 1)[:, None]
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    rising = (places - left) / np.maximum(centre - left, 1)
    falling = (right - places) / np.maximum(right - centre, 1)
    matrix = np.where((places >= left) & (places <= centre), rising, 0.0)
    matrix = np.where((places == centre) & (left == centre), 1.0, matrix)
    matrix = np.where((places >= centre) & (places < right) & (right > centre), falling, matrix)
    carrier = ELEMENTS[output_datatype].carrier
    assert carrier is not None, "support.problems refuses what has no carrier"
    return call.tensor(matrix.astype(carrier.numpy))


def _window(
    call: Call, size: Array, periodic: int, datatype: int, terms: Sequence[float]
) -> Tensor:
    """Return a sum of cosines: terms[k] cos(2 pi k n / N)."""
    count = integer(size)
    require_bounded("a window", (count,))
    span = count if periodic else max(count - 1, 1)
    angle = 2 * np.pi * np.arange(count) / span
    values = sum(term * np.cos(k * angle) for k, term in enumerate(terms))
    carrier = ELEMENTS[datatype].carrier
    assert carrier is not None, "support.problems refuses what has no carrier"
    return call.tensor(np.asarray(values).astype(carrier.numpy))


@converts("HannWindow", since=17)
def hann_window(call: Call, size: Host, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    """Return 0.5 - 0.5 cos(2 pi n / N)."""
    return _window(call, size, periodic, output_datatype, (0.5, -0.5))


@converts("HammingWindow", since=17)
def hamming_window(
    call: Call, size: Host, *, output_datatype: int = 1, periodic: int = 1
) -> Tensor:
    """Return 25/46 - 21/46 cos(2 pi n / N)."""
    return _window(call, size, periodic, output_datatype, (25 / 46, -21 / 46))


@converts("BlackmanWindow", since=17)
def blackman_window(
    call: Call, size: Host, *, output_datatype: int = 1, periodic: int = 1
) -> Tensor:
    """Return 0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)."""
    return _window(call, size, periodic, output_datatype, (0.42, -0.5, 0.08))
