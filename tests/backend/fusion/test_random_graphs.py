"""Random graphs with Fusion, without it, and on the reference."""

from __future__ import annotations

import pytest

import pyrite
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.testing.random_graph_check import check
from pyrite.testing.random_graphs import RandomGraph
from pyrite.testing.random_steps import STEPS


@pytest.fixture(scope="module")
def fused() -> Device:
    return Device(Fusion(pyrite.device("cpu").backend.root))


@pytest.mark.parametrize("first", range(0, 10000, 10))
@pytest.mark.sample(4)
def test_random_graphs_give_what_they_give_without_fusion(fused: Device, first: int) -> None:
    plain = pyrite.device("cpu")
    for seed in range(first, first + 10):
        check(RandomGraph(seed, STEPS), plain, fused)
