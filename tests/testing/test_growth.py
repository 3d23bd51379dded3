"""Larger examples: what they are, and that their ops take them."""

from __future__ import annotations

import random

import pytest

from pyrite.op import OPS, Spec
from pyrite.testing import Example, examples
from pyrite.testing.growth import LARGE, grown, large_examples
from pyrite.types import float32


@pytest.mark.parametrize("op", LARGE)
def test_large_examples_are_taken(op: str) -> None:
    assert [len(example.run(float32, "numpy")) > 0 for example in large_examples(op)]


def shapes_of(example: Example) -> list[tuple[int, ...]]:
    return [i.shape for i in example.sample.inputs if isinstance(i, Spec)]


def test_axes_of_one_size_stay_axes_of_one_size() -> None:
    example = Example(OPS["matmul"], 0, OPS["matmul"].samples[0])

    for seed in range(20):
        found = grown(example, random.Random(seed))
        assert found is not None
        (_, inner), (again, _) = shapes_of(found)
        assert inner == again
        assert shapes_of(found) != shapes_of(example)


def test_most_examples_with_axes_grow() -> None:
    rng = random.Random(0)
    found = {e.op.name: grown(e, rng) for e in examples() if any(map(any, shapes_of(e)))}

    assert sum(e is not None for e in found.values()) > 0.75 * len(found)
