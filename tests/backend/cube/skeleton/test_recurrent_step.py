"""Steps of a recurrent layer: every config, with edges of rows and units, in both kinds of step."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine, Steps
from pyrite.backend.cube.skeleton.recurrent_cell import StepProblem
from pyrite.backend.cube.skeleton.recurrent_group import candidates as candidates_of_group
from pyrite.backend.cube.skeleton.recurrent_step import (
    StepConfig,
    StepOperands,
    candidates,
    pack,
    run_steps,
    select,
    select_shared,
)
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.types import float32, float64

#: Registers of 16 bytes keep vectors short, so that a few units have edges.
SMALL = Machine.cpu(16, 16)
LARGE = Machine.cpu(64, 32)


def sequence(backend, problem, config, steps, has_product=True):
    """tanh(x + the sum of each group times its number), a count of steps, and what they are."""
    rng = np.random.default_rng(0)
    shape = (steps, problem.batch, problem.size)
    x = rng.uniform(-1, 1, shape).astype(problem.dtype.numpy)
    first = rng.uniform(-1, 1, (1, *shape[1:])).astype(x.dtype)
    weights = rng.uniform(-1, 1, (problem.depth, problem.size, problem.groups)) / problem.depth
    weights = weights.astype(x.dtype)
    # The place before the first step holds the first state.
    states = backend.upload(np.concatenate([first, np.full(shape, np.nan, x.dtype)]))
    before = states.sliced((0, 0, 0), shape, (1, 1, 1))
    after = states.sliced((1, 0, 0), shape, (1, 1, 1))
    count = backend.upload(np.zeros(shape[1:], x.dtype))
    turned = backend.upload(weights).permuted((2, 1, 0))

    def cell(step):
        total = step.read(0)
        for n, sum in enumerate(step.sums):
            total = total + sum * (n + 1.0)
        step.write(0, step.k.tanh(total))
        step.write(1, step.current(1) + 1.0)

    launcher = backend.launcher
    packed = pack(launcher, turned, problem, config) if has_product else None
    operands = StepOperands(
        before if has_product else None, packed, [backend.upload(x)], [after, count]
    )
    run_steps(launcher, "test", has_product, problem, config, operands, cell, Steps(0, steps, 1))
    want, state = [], first[0].astype(np.float64)
    for t in range(steps):
        sums = np.einsum("nk,kjg->nj", state, weights * np.arange(1.0, problem.groups + 1))
        state = np.tanh(x[t] + (sums if has_product else 0.0))
        want.append(state)
    return backend.download(after), backend.download(count), np.stack(want)


def assert_right(backend, problem, config, **options):
    got, count, want = sequence(backend, problem, config, 3, **options)
    tolerance = 1e-12 if problem.dtype is float64 else 1e-5
    np.testing.assert_allclose(got, want, atol=tolerance, rtol=tolerance)
    np.testing.assert_array_equal(count, 3.0)


@pytest.fixture(scope="module")
def cpu():
    return CubeBackend(CpuRuntime(threads=2))


def cases():
    """Each config of some problems: all units in whole vectors, some beyond, one of everything."""
    for batch, size, groups in ((1, 1, 1), (5, 8, 3), (5, 9, 4), (7, 13, 1), (2, 13, 3)):
        for config in candidates(StepProblem(batch, size, groups, size, float32), SMALL):
            yield batch, size, groups, config.rows, config.vectors


@pytest.mark.parametrize(("batch", "size", "groups", "rows", "vectors"), list(cases()))
@pytest.mark.sample(10)
def test_every_config_is_right_and_leaves_no_operand(batch, size, groups, rows, vectors):
    """On the interpreter, which checks each access."""
    problem = StepProblem(batch, size, groups, size, float32)
    config = StepConfig(rows, vectors, SMALL.vector)
    assert_right(CubeBackend(InterpreterRuntime()), problem, config)


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
@pytest.mark.parametrize(("batch", "size"), [(1, 5), (7, 13), (8, 8), (9, 9)])
def test_a_config_that_batches_share_leaves_no_operand(batch, size, rows):
    problem = StepProblem(batch, size, 1, size, float32)
    config = StepConfig(rows, 2, SMALL.vector, is_shared=True)
    for has_product in (True, False):
        backend = CubeBackend(InterpreterRuntime())
        assert_right(backend, problem, config, has_product=has_product)


def test_one_kernel_serves_all_batches_that_share_a_config(cpu):
    config = StepConfig(4, 1, 16, is_shared=True)
    built = []
    for batch in (5, 9, 8, 31):
        assert_right(cpu, StepProblem(batch, 23, 2, 23, float32), config)
        built.append(cpu.launcher.built)
    assert built == [built[0]] * 4


def test_shared_configs_have_the_bits_of_others(cpu):
    problem = StepProblem(7, 40, 3, 40, float32)
    found = [
        sequence(cpu, problem, choose(problem, cpu.launcher.machine), 4)[0]
        for choose in (select, select_shared)
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
@pytest.mark.parametrize("groups", [1, 3, 4])
def test_the_config_that_is_selected_is_right_on_processors(cpu, groups, dtype):
    problem = StepProblem(13, 37, groups, 37, dtype)
    assert_right(cpu, problem, select(problem, cpu.launcher.machine))


def test_without_a_product_sums_are_zero(cpu):
    problem = StepProblem(3, 19, 2, 19, float32)
    assert_right(cpu, problem, select(problem, cpu.launcher.machine), has_product=False)


def test_the_sums_fit_in_registers():
    for machine, most in ((SMALL, 12), (LARGE, 20)):
        for groups in (1, 3, 4):
            found = candidates(StepProblem(64, 512, groups, 512, float32), machine)
            assert all(c.rows * c.vectors * groups <= most for c in found)


def test_a_config_whose_rows_divide_the_batch_is_preferred():
    config = select(StepProblem(20, 200, 4, 200, float32), LARGE)
    assert (config.rows, config.vectors) == (5, 1)


def test_results_do_not_depend_on_the_number_of_threads():
    problem = StepProblem(6, 40, 4, 40, float32)
    found = []
    for threads in (1, 2):
        backend = CubeBackend(CpuRuntime(threads=threads))
        config = select(problem, backend.launcher.machine)
        found.append(sequence(backend, problem, config, 4)[0])
    np.testing.assert_array_equal(*found)


def test_units_beyond_the_last_are_packed_as_zeros(cpu):
    problem = StepProblem(1, 5, 1, 2, float32)
    config = select(problem, cpu.launcher.machine)
    weights = cpu.upload(np.arange(1, 11, dtype=np.float32).reshape(1, 5, 2))
    packed = cpu.download(pack(cpu.launcher, weights, problem, config)).reshape(2, -1)
    np.testing.assert_array_equal(packed[:, :5], cpu.download(weights)[0].T)
    assert not packed[:, 5:].any()


# ---- a GPU ----

GPU = Machine.gpu()
#: As an H200: rows share weights in registers.
LARGE_GPU = Machine.gpu(48 << 10)


def group_cases():
    """Each config of some problems: rows, units and depths that fill workgroups or do not."""
    for batch, size, groups in ((1, 1, 1), (5, 8, 3), (9, 9, 4), (33, 13, 1), (2, 70, 3)):
        problem = StepProblem(batch, size, groups, size, float32)
        for machine in (GPU, LARGE_GPU):
            for config in candidates_of_group(problem, machine):
                yield problem, config


@pytest.mark.parametrize(("problem", "config"), list(group_cases()))
@pytest.mark.sample(8)
def test_every_config_of_a_gpu_is_right_and_leaves_no_operand(problem, config):
    assert_right(CubeBackend(InterpreterRuntime(LARGE_GPU)), problem, config)


def test_every_cell_of_a_workgroup_has_an_invocation():
    for machine in (GPU, LARGE_GPU):
        for groups in (1, 3, 4):
            for c in candidates_of_group(StepProblem(64, 512, groups, 512, float64), machine):
                assert c.threads(has_product=True) >= c.cells


def test_without_a_product_sums_are_zero_on_a_gpu():
    problem = StepProblem(11, 7, 2, 7, float32)
    config = select(problem, GPU)
    assert_right(CubeBackend(InterpreterRuntime()), problem, config, has_product=False)


def test_partial_sums_fit_in_the_memory_that_a_workgroup_shares():
    for dtype in (float32, float64):
        for groups in (1, 3, 4):
            problem = StepProblem(64, 512, groups, 512, dtype)
            for c in candidates_of_group(problem, GPU):
                assert c.shared_elements(groups) * dtype.itemsize <= GPU.shared_bytes


def test_a_small_batch_is_cut_into_more_workgroups_than_a_large_one():
    """Of 20 rows and 50 blocks 8 rows each fill the device; 1,000 rows need no more than 32."""
    few, many = (select(StepProblem(n, 200, 4, 200, float32), GPU).rows for n in (20, 1000))
    assert (few, many) == (8, 32)
