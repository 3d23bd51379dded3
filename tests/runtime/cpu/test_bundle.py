"""Bundles whose operands are looked up together give what launches one by one do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.runtime.cpu import bundle as bundles


def step(device: pyrite.Device, dtype: Any) -> list[list[float]]:
    """Return what a compiled function of many tensors and a number gives at some calls."""
    tensors = [pyrite.tensor(np.full(3, n), dtype=dtype, device=device) for n in range(40)]
    other = [pyrite.tensor(np.full((3, 2), n), dtype=dtype, device=device)[:, 0] for n in range(40)]
    made = []

    @pyrite.compile
    def scaled(tensors: Any, factor: float) -> Any:
        return [(t * factor + o).sum() for t, o in zip(tensors, other, strict=True)]

    for _ in range(6):
        made.append([float(x.item()) for x in scaled(tensors, 3.0)])
    assert scaled.replays > 0
    return made


@pytest.mark.parametrize("dtype", [pyrite.float32, pyrite.float64, pyrite.bfloat16, pyrite.float16])
@pytest.mark.parametrize("many", [1, 10**6])
def test_many_addresses_are_looked_up_as_each_by_itself(
    dtype: Any, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "MANY", many)
    device = pyrite.fusion("cpu", check="off")
    want = [float(pyrite.tensor(n * 4 * 3.0).item()) for n in range(40)]
    for found in step(device, dtype):
        assert found == pytest.approx(want, rel=1e-2)
