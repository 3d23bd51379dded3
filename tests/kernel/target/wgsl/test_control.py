"""Loops and branches."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyrite.kernel.target.wgsl import to_wgsl
from pyrite.testing.programs import LaunchCase, counted_loop, programs
from pyrite.types import int32, uint32

Run = Callable[..., None]


@pytest.mark.parametrize("program", programs(8, (int32, uint32)), ids=lambda p: p.name)
def test_a_program_equals_the_interpreters(agree: Run, program: LaunchCase) -> None:
    agree(program.kernel, program.grid, *program.values)


@pytest.mark.parametrize("unroll", [False, True])
def test_an_unrolled_loop_is_written_out(unroll: bool) -> None:
    text = to_wgsl(counted_loop((0, 7), unroll).kernel)

    assert ("for (" in text) is not unroll
