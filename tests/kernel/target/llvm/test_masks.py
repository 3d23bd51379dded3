"""Masked stores and loads of converted vectors, on every level of processors that runs here."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyrite.kernel.ir import WIDTHS
from pyrite.testing.masks import masked_loads, masked_stores
from pyrite.types import DTYPES, DType

Run = Callable[..., None]

#: Unsigned ones are stored and narrowed as signed ones are.
STORED = [d for d in DTYPES if d.kind != "uint"]
#: What is in registers as no other dtype is: 16-bit floats are computed with as float32.
COMPUTED = [d for d in STORED if d.name not in ("float16", "bfloat16")]

of_every_width = pytest.mark.parametrize("width", WIDTHS[1:])


def dtypes(name: str, choice: list[DType]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(name, choice, ids=lambda d: d.name)


@pytest.mark.sample(4, by="level")
@dtypes("source", COMPUTED)
@dtypes("to", STORED)
@of_every_width
def test_a_masked_store_leaves_the_other_elements_alone(
    agree_at_level: Run, source: DType, to: DType, width: int
) -> None:
    program = masked_stores(source, to, width)

    agree_at_level(program.kernel, program.grid, *program.values)


@pytest.mark.sample(2, by="level")
@dtypes("source", STORED)
@dtypes("to", COMPUTED)
@pytest.mark.parametrize("width", [4, 16])
def test_a_masked_load_gives_the_other_value_where_the_mask_is_false(
    agree_at_level: Run, source: DType, to: DType, width: int
) -> None:
    program = masked_loads(source, to, width)

    agree_at_level(program.kernel, program.grid, *program.values)
