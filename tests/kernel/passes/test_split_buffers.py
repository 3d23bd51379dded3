"""Kernels of which each buffer is many, against the same kernels as written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.errors import KernelError
from pyrite.kernel import Kernel, KernelBuilder, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.passes import eliminate_common, legalize, split_buffers
from pyrite.kernel.passes.split_buffers import GRAIN
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.types import Array, float32, int32, uint8

EXAMPLES = examples_of_kernels()


def parts_of(value: Any, nbytes: int) -> list[Any]:
    """An array in parts of so many bytes; a number as it is."""
    if not isinstance(value, np.ndarray):
        return [value]
    length = nbytes // value.itemsize
    return [value[i : i + length] for i in range(0, max(len(value), 1), length)]


def split(kernel: Kernel, values: list[Any], nbytes: int) -> tuple[Kernel, list[Any]]:
    """A kernel of parts, and the values in parts: the memory stays the same."""
    counts = [len(parts_of(v, nbytes)) for v in values if isinstance(v, np.ndarray)]
    after = verify(eliminate_common(split_buffers(verify(kernel), counts, nbytes)))
    return after, [part for value in values for part in parts_of(value, nbytes)]


@pytest.mark.parametrize("nbytes", [GRAIN, 3 * GRAIN])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.kernel.name)
def test_a_kernel_of_parts_computes_the_same(example: KernelExample, nbytes: int) -> None:
    found = example.fresh()
    after, parts = split(example.kernel, found, nbytes)

    interpret(after, example.workgroups, *parts)

    assert len(after.buffers) > len(example.kernel.buffers) or len(found[0]) * 4 <= nbytes
    for value, wanted in zip(found, example.expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-6)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("is_aligned", [True, False])
@pytest.mark.parametrize("is_masked", [True, False])
def test_vectors_across_the_bounds_of_parts(width: int, is_aligned: bool, is_masked: bool) -> None:
    b = KernelBuilder("copy", workgroup_size=4)
    x, y = b.buffer("x", float32, "read"), b.buffer("y", float32, "write")
    first = 0 if is_aligned else 3
    place = b.global_id() * width + first
    mask = b.global_id() < 19 if is_masked else None
    value = x.load(place, width=width, mask=mask, other=-1.0, is_aligned=is_aligned)
    y.store(place, value, mask=mask, is_aligned=is_aligned)
    source: Array = np.arange(20 * width + first, dtype=np.float32)
    found, wanted = np.zeros_like(source), np.zeros_like(source)
    interpret(b.build(), 5, source, wanted)

    after, parts = split(b.build(), [source, found], GRAIN)
    interpret(after, 5, *parts)

    np.testing.assert_array_equal(found, wanted)


def test_elements_that_are_packed_in_words_are_split_as_words() -> None:
    b = KernelBuilder("increase", workgroup_size=8)
    x = b.buffer("x", uint8, "read_write")
    i = b.global_id() * 3
    x[i] = x[i] + 1
    values = np.arange(600, dtype=np.uint8)
    words = values.view(np.uint32).copy()

    after, parts = split(legalize(b.build()), [words], GRAIN)
    interpret(after, 25, *parts)

    values[::3] += 1
    np.testing.assert_array_equal(words.view(np.uint8), values)


def test_an_atomic_gives_what_was_there_in_whichever_part() -> None:
    b = KernelBuilder("count", workgroup_size=8)
    counts, old = b.buffer("counts", int32, "atomic"), b.buffer("old", int32, "write")
    n = b.scalar("n", int32)
    i = b.global_id()
    old[i] = counts.atomic("add", i, 5, mask=i < n)
    values = np.arange(100, 196, dtype=np.int32)
    before, found = values.copy(), np.zeros(96, np.int32)

    after, parts = split(b.build(), [values, found, 90], GRAIN)
    interpret(after, 12, *parts)

    np.testing.assert_array_equal(values[:90], before[:90] + 5)
    np.testing.assert_array_equal(found, np.where(np.arange(96) < 90, before, 0))
    np.testing.assert_array_equal(values[90:], before[90:])


def test_arguments_keep_their_order_after_more_buffers() -> None:
    b = KernelBuilder("scale")
    x = b.buffer("x", float32, "read_write")
    factor = b.scalar("factor", float32)
    y = b.buffer("y", float32, "read")
    x[0] = y[0] * factor

    after = split_buffers(b.build(), [2, 3], GRAIN)

    names = [parameter.attr[:2] for parameter in after.parameters]
    assert names == [(0, "x_0"), (1, "x_1"), (2, "factor"), (3, "y_0"), (4, "y_1"), (5, "y_2")]


def test_what_is_not_split_stays_the_kernel_that_it_was() -> None:
    kernel = EXAMPLES[0].kernel
    counts = [1] * len(kernel.buffers)

    assert split_buffers(kernel, counts, GRAIN).digest == kernel.digest


def test_parts_that_cut_a_vector_are_refused() -> None:
    with pytest.raises(KernelError, match="split_buffers requires parts of a multiple of 128, got"):
        split_buffers(EXAMPLES[0].kernel, [1] * len(EXAMPLES[0].kernel.buffers), 100)
