"""Kernels by which all targets are judged, and random ones, for every level of processors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.testing.launch import launched
from pyrite.testing.random_kernels import random_kernel
from pyrite.types import Array


def results(runtime: CpuRuntime, example: KernelExample) -> list[tuple[Array, Any]]:
    """Each buffer after the launch, and what it should hold."""
    found = launched(runtime, example.kernel, example.workgroups, example.values)
    pairs = zip(found, example.expected, strict=True)
    return [(got, wanted) for got, wanted in pairs if isinstance(got, np.ndarray)]


@pytest.mark.parametrize("example", examples_of_kernels(), ids=lambda e: e.kernel.name)
def test_a_hand_written_kernel_computes_what_it_should(
    level_runtime: CpuRuntime, example: KernelExample
) -> None:
    for got, wanted in results(level_runtime, example):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.sample(8, by="level")
@pytest.mark.parametrize("seed", range(150))
def test_a_random_kernel_computes_the_same_bit_for_bit(
    level_runtime: CpuRuntime, seed: int
) -> None:
    for got, wanted in results(level_runtime, random_kernel(seed)):
        np.testing.assert_array_equal(got, wanted)
