"""A program has the same bits op by op, fused, with values read on the way, and by any threads.

Folds are what this is about: sums of floats have the bits of the order in which they were added.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import pyrite
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.tensor.tensor import Tensor
from pyrite.testing.contraction_steps import STEPS_AROUND
from pyrite.testing.folds_in_programs import (
    FOLDS,
    PLACES,
    SIZES,
    Axes,
    FoldInProgram,
    dense,
    different,
)
from pyrite.testing.layouts import LAYOUTS
from pyrite.testing.random_graphs import RandomGraph
from pyrite.testing.random_steps import STEPS


@pytest.fixture(scope="module")
def fused() -> Device:
    return Device(Fusion(pyrite.device("cpu").backend.root))


def reading(seed: int) -> Iterator[bool]:
    """Yield whether a value is read at a place, drawn."""
    chosen = random.Random(seed)
    while True:
        yield chosen.random() < 0.5


@pytest.mark.parametrize("first", range(0, 4000, 8))
@pytest.mark.sample(4)
def test_a_fold_has_the_same_bits_whatever_it_is_fused_with(fused: Device, first: int) -> None:
    for seed in range(first, first + 8):
        program, reads = FoldInProgram.draw(seed), reading(seed)

        def read(made: Sequence[Tensor], reads: Iterator[bool] = reads) -> None:
            for x in made:
                if next(reads):
                    x.numpy()

        with np.errstate(all="ignore"):
            plain = program.run("cpu")
            assert not different(plain, program.run(fused)), program.text
            assert not different(plain, program.run(fused, read)), f"{program.text}, read between"


def test_a_number_of_each_row_is_folded_over_blocks_as_a_vector(fused: Device) -> None:
    program = FoldInProgram.draw(3677)

    assert "a number of each row" in program.text
    assert not different(program.run("cpu"), program.run(fused))


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.sample(1, by="place")
def test_a_fold_has_the_same_bits_in_every_layout(
    place: tuple[tuple[int, ...], Axes], name: str, rng: random.Random, full: bool
) -> None:
    shape, axes = place
    values = np.random.default_rng(len(name)).standard_normal(shape).astype(np.float32)
    found = [one for one in LAYOUTS.values() if one.applies(shape)]
    for layout in found if full else rng.sample(found, min(2, len(found))):
        settled = layout.settled(values)
        given = [dense(settled, "cpu"), layout(settled, "cpu")]
        results = [[FOLDS[name](x, axes).numpy()] for x in given]
        assert not different(*results), layout.name


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.sample(12)
def test_a_fold_of_any_size_has_the_same_bits_in_every_order_of_memory(
    fused: Device, size: int, rng: random.Random, full: bool
) -> None:
    for seed in rng.sample(range(1 << 20), 16 if full else 3):
        program = FoldInProgram.draw_of_size(size, seed)
        with np.errstate(all="ignore"):
            wanted = program.dense.run("cpu")
            assert not different(program.run("cpu"), wanted), program.text
            assert not different(program.run(fused), wanted), f"{program.text}, fused"


def test_a_fold_that_runs_by_itself_is_one_that_is_wanted(fused: Device) -> None:
    """Another over the same rows, of which nothing is wanted yet, stood first."""
    program = FoldInProgram.draw_of_size(49, 8407)

    assert "rms_norm over 0, a fold the other way" in program.text
    assert not different(program.dense.run("cpu"), program.run(fused))


@pytest.mark.parametrize("first", range(0, 800, 8))
@pytest.mark.sample(1)
def test_a_fold_has_the_same_bits_by_any_number_of_threads(first: int) -> None:
    with np.errstate(all="ignore"):
        for seed in range(first, first + 8):
            program = FoldInProgram.draw(seed)
            wanted = program.run("cpu")
            for threads in (1, 5):
                runtime = CpuRuntime(threads=threads)
                try:
                    found = program.run(Device(CubeBackend(runtime)))
                finally:
                    runtime.close()
                assert not different(found, wanted), f"{threads} threads, {program.text}"


@pytest.mark.parametrize("first", range(0, 4000, 5))
@pytest.mark.sample(2)
def test_random_graphs_have_the_same_bits(fused: Device, first: int) -> None:
    for seed in range(first, first + 5):
        with np.errstate(all="ignore"):
            graph = RandomGraph(seed, STEPS)
            plain = graph.run("cpu", holds_all=True)
            assert not different(plain, graph.run(fused)), f"{seed}:\n{graph.text}"


@pytest.mark.parametrize("first", range(0, 2000, 5))
@pytest.mark.sample(1)
def test_products_have_the_same_bits_with_what_is_around_them(fused: Device, first: int) -> None:
    for seed in range(first, first + 5):
        with np.errstate(all="ignore"):
            graph = RandomGraph(seed, STEPS_AROUND)
            plain = graph.run("cpu", holds_all=True)
            assert not different(plain, graph.run(fused)), f"{seed}:\n{graph.text}"
