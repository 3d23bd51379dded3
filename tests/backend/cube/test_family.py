"""A kernel serves all the sizes for which it was right to build it so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.protocol import Body
from pyrite.config import config
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.kernel.extent import all_extents, extent, pattern_of, remaking, with_extents
from pyrite.kernel.machine import Machine
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.types import TensorType, float32


@dataclass(frozen=True, slots=True)
class Grid:
    shape: tuple[int, int] = extent()
    strides: tuple[int, int] = extent()


@dataclass(frozen=True, slots=True)
class Problem:
    name: str
    of: Grid
    scale: int = extent(default=1)


def build(problem: Problem, grid: int) -> Kernel:
    """Each element times the scale, unless there are a multiple of 3 columns: then minus that."""
    (rows, columns), strides = problem.of.shape, problem.of.strides
    b = KernelBuilder(problem.name, grid=grid)
    x, out = b.buffer("x", float32, "read"), b.buffer("out", float32, "write")
    index = b.workgroup_id()
    with b.if_(index < rows * columns):
        i, j = index // columns, index % columns
        at = i * strides[0] + j * strides[1]
        value = x[at] * problem.scale
        out[at] = -value if columns % 3 == 0 else value
    return b.build()


@pytest.fixture
def launcher() -> Launcher:
    return Launcher(InterpreterRuntime(Machine.cpu(16, 16)))


def run(launcher: Launcher, problem: Problem) -> None:
    rows, columns = problem.of.shape
    type = TensorType((rows, columns), float32)
    x = np.arange(rows * columns, dtype="float32").reshape(rows, columns)
    source, target = launcher.runtime.upload(x), launcher.allocate(type.nbytes)
    launcher.launch_for(problem, "key", build, [source, target], rows * columns)
    wanted = x * problem.scale * (-1 if columns % 3 == 0 else 1)
    found = launcher.runtime.read(target, type.dtype, type.shape)
    np.testing.assert_array_equal(found, wanted)


def dense(rows: int, columns: int, scale: int = 1) -> Problem:
    return Problem("scaled", Grid((rows, columns), (columns, 1)), scale)


def test_another_size_takes_the_same_kernel_unless_it_answers_otherwise(launcher: Launcher) -> None:
    run(launcher, dense(4, 5, 3))
    assert launcher.kernels == 1
    run(launcher, dense(7, 4, 9))
    run(launcher, dense(2, 11, 2))
    assert launcher.kernels == 1
    run(launcher, dense(4, 6, 3))  # a multiple of 3
    assert launcher.kernels == 2
    run(launcher, dense(5, 9, 2))
    run(launcher, dense(5, 8, 2))
    assert launcher.kernels == 2


def test_one_and_none_are_problems_of_their_own(launcher: Launcher) -> None:
    for number, problem in enumerate((dense(4, 5), dense(4, 5, 2), dense(1, 5), dense(4, 1)), 1):
        run(launcher, problem)
        assert launcher.kernels == number


@pytest.fixture
def static() -> Iterator[None]:
    config.static_sizes = True
    yield
    config.static_sizes = False


@pytest.mark.usefixtures("static")
def test_sizes_can_be_built_in(launcher: Launcher) -> None:
    run(launcher, dense(4, 5))
    run(launcher, dense(4, 7))
    assert launcher.kernels == 2


def test_the_extents_of_a_problem_are_exchanged_and_nothing_else() -> None:
    problem = dense(4, 5, 3)
    pattern, extents = pattern_of(problem)

    assert extents == (4, 5, 5, 3)
    assert with_extents(problem, iter(extents)) == problem
    assert with_extents(problem, iter((7, 8, 8, 2))) == dense(7, 8, 2)
    assert pattern_of(dense(7, 8, 2))[0] == pattern
    assert pattern_of(dense(7, 8))[0] != pattern
    assert pattern_of(Problem("other", problem.of, 3))[0] != pattern
    # A dtype is what it is.
    assert pattern_of(("a", float32))[0][1] is float32


def test_a_problem_is_made_again_with_any_extents() -> None:
    problem = dense(4, 1, 0)
    remade = remaking(problem)

    assert remade(all_extents(problem)[1]) == problem
    assert remade((7, 8, 8, 1, 2)) == dense(7, 8, 2)
    assert remaking(Body("a", (1, 12), max))(()).of is max
    assert remaking((float32, (problem, None)))(all_extents(dense(3, 0, 5))[1]) == (
        float32, (dense(3, 0, 5), None)
    )  # fmt: skip


def test_what_is_not_compared_is_in_no_pattern_and_stays_as_it_is() -> None:
    body, other = Body("a", (1, 12), len), Body("b", (1, 12), max)

    assert pattern_of(body) == pattern_of(other)
    assert with_extents(other, iter(())).of is max
    assert pattern_of(body) != pattern_of(Body("a", (1, 13), len))


def test_sizes_in_the_key_of_a_body_are_no_extents() -> None:
    body = Body("a", dense(4, 5), len)

    assert pattern_of(body)[1] == ()
    assert pattern_of(body)[0] != pattern_of(Body("a", dense(4, 7), len))[0]


def test_sizes_that_come_first_may_be_built_in(launcher: Launcher) -> None:
    def kernels(problem: Problem) -> int:
        before = launcher.kernels
        launcher.member(problem, "key", build, 1, knows_first=True)
        return launcher.kernels - before

    sizes = [dense(4, 5), dense(4, 7), dense(7, 8), dense(4, 5), dense(2, 11)]
    assert [kernels(problem) for problem in sizes] == [1, 1, 0, 0, 0]


def test_what_comes_first_is_for_real_calls_where_it_orders_sums(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that compiles programs ahead would decide by when it is done."""
    monkeypatch.setattr(type(launcher.ahead), "is_here", True)
    for ask in (launcher.first_of, launcher.is_first):
        with pytest.raises(LookupError, match="no call has come to"):
            ask(dense(4, 5))
    monkeypatch.setattr(type(launcher.ahead), "is_here", False)
    assert launcher.is_first(dense(4, 5))
    monkeypatch.setattr(type(launcher.ahead), "is_here", True)
    assert launcher.first_of(dense(7, 8)) == dense(4, 5)
    assert not launcher.is_first(dense(7, 8))
