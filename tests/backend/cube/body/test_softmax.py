"""Softmax with every config of its rows: the values of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.body import row_layouts
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.operand import Layout
from pyrite.backend.cube.skeleton import row as rows
from pyrite.backend.device import Device
from pyrite.kernel.ir import walk
from pyrite.tensor.creation import tensor
from pyrite.testing.agreement import assert_agrees, called
from pyrite.types import float16, float32, float64

GPU = Machine("gpu", 4, (256, 128, 64, 32), 65535)
CPU = Machine("cpu", 16, (1,), 2**31 - 1)
MACHINES = pytest.mark.parametrize("machine", [GPU, CPU], ids=lambda m: m.kind)


def array(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def agree(device: Device, name: str, *inputs: Any, note: object = "", **attrs: Any) -> None:
    assert_agrees(device, name, inputs, {"float32": 2e-6}, note=note, **attrs)


@pytest.mark.parametrize(
    ("machine", "length"), [(CPU, 1), (CPU, 10), (CPU, 67), (CPU, 64), (GPU, 10), (GPU, 100)],
    ids=lambda m: getattr(m, "kind", m),
)  # fmt: skip
@pytest.mark.sample(1, by="machine.kind")
def test_every_candidate_is_right(
    fresh: Device, machine: Machine, length: int, monkeypatch: pytest.MonkeyPatch, quarter: Any
) -> None:
    x = array(3, length)
    found = rows.candidates(length, float32, machine, adds=False)
    assert len(found) == len(set(found))
    for config in quarter(found):
        monkeypatch.setattr(row_layouts, "config_for", lambda *_, config=config: config)
        agree(fresh, "softmax", x, note=config)


@MACHINES
@pytest.mark.parametrize("length", [1, 5, 16, 100, 256, 1000, 4096, 1 << 20])
def test_what_is_selected_is_a_candidate(machine: Machine, length: int) -> None:
    for dtype in (float32, float64):
        config = rows.select(length, dtype, machine)

        assert config in rows.candidates(length, dtype, machine)
        if machine is CPU:
            assert config.keeps == (length * dtype.itemsize <= rows.MOST_KEPT)


def test_on_a_gpu_a_lane_has_a_few_vectors_of_a_row_in_registers() -> None:
    found = {length: rows.select(length, float32, GPU) for length in (10, 32, 100, 256, 1024, 4096)}

    assert {length: (c.lanes, c.slots, c.keeps) for length, c in found.items()} == {
        10: (4, 16, True), 32: (4, 16, True), 100: (8, 8, True), 256: (16, 4, True),
        1024: (64, 1, True), 4096: (256, 1, True),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "quiet_softmax"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis_of_a_transposed_tensor_is_right(
    interpreter: Device, name: str, axis: int
) -> None:
    x = array(4, 3, 20)
    got = getattr(tensor(x, device=interpreter).permute_dims((2, 0, 1)), name)(axis=axis).numpy()
    want = getattr(tensor(x.transpose(2, 0, 1)), name)(axis=axis).numpy()

    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "quiet_softmax"])
def test_infinite_and_nan_rows_are_those_of_numpy(interpreter: Device, name: str) -> None:
    inf, nan = np.inf, np.nan
    x = np.array(
        [[0, -inf, 1], [-inf] * 3, [inf, 0, 1], [nan, 0, 1], [0, inf, nan], [1e4, -1e4, 0]],
        np.float32,
    )
    with np.errstate(all="ignore"):
        agree(interpreter, name, x)


def test_half_precision_is_computed_in_single(interpreter: Device) -> None:
    x = array(2, 300).astype(float16.numpy)
    (got,) = called("softmax", [x], interpreter)
    power = np.exp(x.astype(np.float32) - x.max(1, keepdims=True).astype(np.float32))

    assert got.dtype == np.float16
    exact = power / power.sum(1, keepdims=True)
    np.testing.assert_allclose(got.astype(np.float32), exact, rtol=2**-11 + 1e-6)


def test_a_softmax_is_one_kernel(fresh: Device) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    tensor(array(3, 8), device=fresh).softmax()

    assert backend.runtime.report()["launches"] == 1


def shares(row: rows.Row) -> None:
    """A softmax by hand."""
    (x,), (out,) = row.sources, row.targets
    shift = row.largest(x)
    power, again = row.kept(lambda at: row.k.exp(x(at) - row.spread(shift, at)))
    rate = 1.0 / row.sum(power)
    row.write(lambda at: out(at, again(at) * row.spread(rate, at)))


@pytest.mark.parametrize(("machine", "fetches"), [(CPU, True), (GPU, False)])
def test_while_a_row_is_computed_the_next_one_is_fetched(machine: Machine, fetches: bool) -> None:
    layout, config = Layout(float32, (256, 1)), rows.select(256, float32, machine)
    row = rows.Row("softmax", 3, 256, [layout], [layout], [], config, 1)
    row.run(shares)
    loops = [n for n in row.b.build().walk() if n.kind == "for"]

    hints = [sum(n.kind == "prefetch" for n in walk(loop.regions[0])) for loop in loops]
    # The maximum reads the row, the sum has it in a cache and fetches the next one and the result,
    # which is then written.  Each pass has steps of several vectors, unless it writes, then over
    # single ones, then over a masked one.
    assert hints == ([0, 0, 0, 2 * config.vectors, 2, 0, 0, 0] if fetches else [0] * len(loops))
