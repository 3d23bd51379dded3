"""Levels of processors, and code that is made for one."""

from __future__ import annotations

from itertools import pairwise

import pytest

pytest.importorskip("llvmlite")

import pyrite
from pyrite.errors import DeviceError
from pyrite.runtime.cpu import level
from pyrite.runtime.cpu.level import ARM, X86, level_target, levels, targets


def test_a_processor_has_a_level_and_all_below_it() -> None:
    found = levels()

    assert found in [known[first:] for known in (X86, ARM) for first in range(len(known))]


def test_each_level_adds_features() -> None:
    for higher, lower in pairwise(X86):
        assert higher.features > lower.features


def test_vectors_are_as_wide_as_the_level_allows() -> None:
    found = [level.target("x86_64-unknown-linux-gnu") for level in X86]

    assert [t.vector_bytes for t in found] == [64, 32, 16, 16]
    assert (
        [t.has_fma for t in found] == [t.has_float16 for t in found] == [True, True, False, False]
    )


def test_the_processor_itself_comes_before_its_levels() -> None:
    first, *rest = targets()

    assert first.features
    assert [t.cpu for t in rest] == [level.cpu for level in levels()]


def test_a_level_that_the_processor_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lowest = levels()[-1]
    monkeypatch.setattr(level, "levels", lambda: (lowest,))

    with pytest.raises(DeviceError, match=rf"CPU_LEVEL requires one of \['{lowest.name}'\] on"):
        level_target("x86-64-v9")


def test_the_device_computes_on_the_level_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyrite.backend.cube.cpu import Cpu

    lowest = levels()[-1]
    monkeypatch.setattr(pyrite.config, "cpu_level", lowest.name)
    device = pyrite.Device(Cpu())

    x = pyrite.ones((129, 33), dtype=pyrite.bfloat16, device=device)

    assert device.backend.details.startswith(f"{lowest.cpu}, ")
    assert (x @ x.mT == 33).all().item()
