"""Random words on the host: the kernel's and PyTorch's own are those of the reference."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite.backend.torch import words
from pyrite.config import config
from pyrite.errors import DeviceError
from pyrite.tensor.creation import tensor
from pyrite.tensor.random import random_bits
from pyrite.tensor.stream import random_stream

SHAPES = [(0,), (), (1,), (3,), (4, 5), (1025,), (7, 0), (3, 1, 1000)]


def draws(device):
    with random_stream(2**63 + 5, "a name"):
        return [random_bits(shape, device=device).numpy() for shape in SHAPES]


def assert_the_references():
    for got, want in zip(draws("torch:cpu"), draws("numpy"), strict=True):
        assert got.dtype == np.uint32
        np.testing.assert_array_equal(got, want)


def test_words_of_the_kernel_are_the_references():
    assert words._kernels() is not None
    assert_the_references()


def test_words_without_the_kernel_are_the_references(monkeypatch):
    def missing(name):
        raise DeviceError("cpu requires llvmlite")

    words._kernels.cache_clear()
    monkeypatch.setattr(words, "device", missing)
    try:
        assert words._kernels() is None
        assert_the_references()
    finally:
        words._kernels.cache_clear()


def test_a_draw_keeps_its_words():
    with random_stream(1):
        first = random_bits((1000,), device="torch:cpu")
        before = first.numpy().copy()
        for _ in range(5):
            random_bits((1000,), device="torch:cpu").numpy()
    np.testing.assert_array_equal(first.numpy(), before)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 100, 4097, 10**6 + 1])
def test_few_kernels_serve_all_numbers_of_words(count):
    padded = words._with_few_digits(count)
    assert count <= padded <= count + max(count // 8, 1)
    assert padded % (1 << max(0, padded.bit_length() - 5)) == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("turned", [False, True])
def test_dropout_masks_what_the_reference_drops(p, dtype, turned):
    """Infinities and NaN are dropped too, a word at the threshold is not, nor is a zero signed."""
    rng = np.random.default_rng(0)
    # More than one part, and one that is not whole.
    x = rng.normal(size=(3, 30_000)).astype("float32")
    bits = rng.integers(0, 2**32, size=x.shape, dtype=np.uint32)
    x[0, :8] = [np.inf, -np.inf, -0.0, np.inf, -1.0, 1.0, 2.0, 3.0]
    bits[0, :8] = [0, 0, 0, 2**32 - 1, 2**31, 2**31 - 1, round(p * 2**32) % 2**32, 1]
    results = []
    for device in ("numpy", "torch:cpu"):
        a, b = tensor(x, device=device).astype(dtype), tensor(bits, device=device)
        a, b = (a.mT, b.mT) if turned else (a, b)
        results.append(a._dropout(b, p=p).numpy())
    np.testing.assert_array_equal(*results)
    found = [np.signbit(r[~np.isnan(r)]) for r in results]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("p", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 3, 7), (64, 128), (255, 129)])
def test_small_dropout_by_a_kernel_is_the_references(shape, p, dtype):
    """From the second call on, for elements in any order, and into memory of its own."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype(dtype)
    bits = rng.integers(0, 2**32, size=shape, dtype=np.uint32)
    x.reshape(-1)[:5] = np.array([np.inf, -np.inf, np.nan, -0.0, -1.0])[: x.size]
    want = tensor(x, device="numpy")._dropout(tensor(bits, device="numpy"), p=p).numpy()
    ways = (
        [lambda x: x] if not shape else [lambda x: x, lambda x: x.flip(0), lambda x: x[..., None]]
    )
    before = words._dropping.cache_info().hits
    for way in ways * 3:
        a, b = (way(way(tensor(y, device="torch:cpu"))) for y in (x, bits))
        got = a._dropout(b, p=p).numpy().reshape(shape)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(
            np.signbit(got) & ~np.isnan(got), np.signbit(want) & ~np.isnan(want)
        )
        np.testing.assert_array_equal(a.numpy().reshape(shape), x)
    found = words._dropping.cache_info().hits - before
    assert found if x.size <= words._FEW else not found


@pytest.mark.skipif(config.guard is not None, reason="memory is guarded")
def test_few_words_are_drawn_without_a_buffer(monkeypatch):
    random_bits((77,), device="torch:cpu")
    monkeypatch.setattr(words._kernels(), "execute", None)

    with random_stream(3):
        got = random_bits((77,), device="torch:cpu").numpy()

    with random_stream(3):
        np.testing.assert_array_equal(got, random_bits((77,), device="numpy").numpy())
