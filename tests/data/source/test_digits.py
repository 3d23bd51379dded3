"""The shipped digits are whole, stratified, and learnable."""

from __future__ import annotations

import hashlib
from collections import Counter
from importlib.resources import files

import numpy as np
import pytest

from pyrite.data import digits
from pyrite.errors import ArgumentError


def test_there_are_1797_real_digits_in_unit_range() -> None:
    images = digits("all")
    assert len(images) == 1797
    pixels = np.stack([image.pixels for image in images])
    assert pixels.shape == (1797, 1, 8, 8)
    assert pixels.dtype == np.float32
    assert (pixels.min(), pixels.max()) == (0.0, 1.0)


def test_they_equal_the_copy_in_scikit_learn() -> None:
    reference = pytest.importorskip("sklearn.datasets").load_digits()
    images = digits("all")
    np.testing.assert_array_equal([image.label for image in images], reference.target)
    np.testing.assert_array_equal([image.pixels[0] * 16 for image in images], reference.images)


def test_the_split_is_stratified_disjoint_and_whole() -> None:
    train, test = digits("train"), digits("test")
    assert (len(train), len(test)) == (1437, 360)
    assert Counter(image.label for image in test) == dict.fromkeys(range(10), 36)

    everything = Counter(image.pixels.tobytes() for image in digits("all"))
    parts = Counter(image.pixels.tobytes() for image in [*train, *test])
    assert parts == everything


def test_the_split_depends_on_the_seed_alone() -> None:
    def labels(seed: int) -> list[bytes]:
        return [image.pixels.tobytes() for image in digits("test", seed=seed)]

    assert labels(0) == labels(0)
    assert labels(0) != labels(1)


def test_the_nearest_neighbour_recognises_them() -> None:
    train, test = list(digits("train")), list(digits("test"))
    known = np.stack([image.pixels.ravel() for image in train])
    right = [
        train[np.argmin(((known - image.pixels.ravel()) ** 2).sum(1))].label == image.label
        for image in test
    ]
    assert np.mean(right) > 0.97


def test_another_split_is_refused() -> None:
    with pytest.raises(ArgumentError, match="'train', 'test' or 'all', got 'valid'"):
        digits("valid")  # type: ignore[arg-type]


def test_the_attribution_is_beside_the_file_and_names_its_bytes() -> None:
    folder = files("pyrite.data.source")
    text = (folder / "ATTRIBUTION.md").read_text(encoding="utf-8")
    for part in ("Alpaydin", "Kaynak", "10.24432/C50P49", "CC BY 4.0", "test part"):
        assert part in text
    assert hashlib.sha256((folder / "digits.csv.gz").read_bytes()).hexdigest() in text
