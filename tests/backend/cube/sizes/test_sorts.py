"""Sorts of other lengths take the kernels of the first: its memory for a row has room for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.skeleton.sort.key import Key
from pyrite.backend.cube.skeleton.sort.order import SORT, SortedRows, argsort_axis
from pyrite.backend.cube.skeleton.sort.row import rows_of
from pyrite.types import float32


@pytest.mark.parametrize("lengths", [(20, 33, 31), (90, 70, 127)], ids=["ranked", "by digits"])
def test_rows_are_sorted(lengths: Any, cpu_built: Any, draw: Any) -> None:
    def case(device: Any, length: int) -> Any:
        x = draw(3, length)
        return pyrite.tensor(x, device=device).sort(axis=-1), np.sort(x)

    first, *others = cpu_built(case, lengths)

    assert first > 0
    assert others == [0, 0]


def test_the_first_of_rows_are_found(cpu_built: Any, draw: Any) -> None:
    def case(device: Any, length: int) -> Any:
        x = draw(3, length)
        return pyrite.tensor(x, device=device).topk(2)[0], -np.sort(-x)[:, :2]

    first, *others = cpu_built(case, [60, 85, 33])

    assert first > 0
    assert others == [0, 0]


def test_blocks_are_sorted(backend: CubeBackend) -> None:
    """Rows longer than a block, as those are that fit into no memory of their own."""
    random = np.random.default_rng(0)
    built = []
    for shape in ((2, 69), (3, 99), (2, 65)):
        x = random.integers(-4, 5, shape).astype("float32")
        handle = backend.upload(x)
        problem = SortedRows(rows_of(handle), Key(float32, False))
        lanes = 1 if backend.launcher.machine.kind == "cpu" else 64
        config = next(
            c for c in SORT.candidates(problem, backend.launcher.machine)
            if c.by == "radix blocks" and c.workgroup_size == lanes and c.digit_bits <= 8
        )  # fmt: skip
        config = replace(config, width=lanes * 4 if lanes > 1 else 16, digit_bits=4)
        before = backend.launcher.kernels
        found = argsort_axis(backend.launcher, handle, 1, config=config)
        np.testing.assert_array_equal(backend.download(found), np.argsort(x, 1, kind="stable"))
        built.append(backend.launcher.kernels - before)
    first, *others = built
    assert first > 0
    assert others == [0, 0]
