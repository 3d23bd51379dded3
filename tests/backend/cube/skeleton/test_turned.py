"""Copies by turned tiles: every size beside a tile, strides and dtypes, judged by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.skeleton.copy import copy
from pyrite.backend.cube.skeleton.turned import copy_turned, read_turned
from pyrite.backend.device import Device
from pyrite.backend.explanation.report import explain
from pyrite.kernel import KernelBuilder, Value, verify
from pyrite.kernel.interpret import interpret
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.tensor.creation import tensor
from pyrite.types import TensorType, float32, int16, int64

pytest.importorskip("llvmlite")

#: Shapes of what lies row by row, and the axes of the copy.
TURNS = [
    ((4, 4), (1, 0)), ((2, 2), (1, 0)), ((5, 7), (1, 0)), ((16, 16), (1, 0)), ((33, 70), (1, 0)),
    ((3, 9, 8), (0, 2, 1)), ((3, 9, 8), (2, 1, 0)), ((2, 5, 3, 17), (0, 3, 1, 2)),
    ((17, 2, 3, 5), (1, 2, 3, 0)), ((4, 1, 6), (2, 1, 0)),
]  # fmt: skip
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module", params=["interpreter", "cpu"])
def device(request: pytest.FixtureRequest) -> Device:
    """Vectors of 16 bytes, every access of which is checked, and the processor's own."""
    is_checked = request.param == "interpreter"
    runtime: Any = InterpreterRuntime(Machine.cpu(16, 16)) if is_checked else CpuRuntime(threads=2)
    return Device(CubeBackend(runtime))


def launcher_of(device: Device) -> Any:
    backend = device.backend
    assert isinstance(backend, CubeBackend)
    return backend.launcher


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize(("shape", "axes"), TURNS, ids=str)
def test_all_elements_come_where_they_should(
    device: Device, shape: Any, axes: Any, dtype: str
) -> None:
    array = (RNG.standard_normal(shape) * 1000).astype(dtype)
    whole = array.transpose(axes)
    # A view with an offset and gaps, whose neighbours are still on the turned axis.
    wide = np.concatenate([array + 1, array, array + 2])
    part = tensor(wide, device=device)[shape[0] : 2 * shape[0]].permute_dims(axes)
    launcher = launcher_of(device)
    target = launcher.empty(TensorType(whole.shape, part.dtype))
    is_turned = copy_turned(launcher, part._handle, target)
    if not is_turned:
        assert min(shape) < 8, "a large one is turned"
        copy(launcher, part._handle, target)
    np.testing.assert_array_equal(device.backend.download(target), whole)


def test_what_lies_between_the_elements_of_a_target_is_kept(device: Device) -> None:
    launcher, array = launcher_of(device), RNG.standard_normal((19, 21)).astype(np.float32)
    whole = tensor(np.zeros((30, 40), np.float32), device=device)
    part = whole[2:23, 3:22]
    assert copy_turned(launcher, tensor(array, device=device).mT._handle, part._handle)
    want = np.zeros((30, 40), np.float32)
    want[2:23, 3:22] = array.T
    np.testing.assert_array_equal(whole.numpy(), want)


def test_others_are_left_to_other_copies(device: Device) -> None:
    launcher = launcher_of(device)
    x = tensor(RNG.standard_normal((40, 40)).astype(np.float32), device=device)
    none = tensor(np.zeros((0, 40, 40), np.float32), device=device).permute_dims((0, 2, 1))
    for source, type in (
        (none, none._type),
        (x, x._type),  # lies as the target
        (x[::2, ::2].mT, TensorType((20, 20), x.dtype)),  # has no neighbours
        (x[:, :1].broadcast_to((40, 40)), x._type),  # repeats one
        (x.astype("int16").mT, TensorType((40, 40), int16)),  # short elements
        (x.mT, TensorType((40, 40), int64)),  # are converted
        (x[:, :1].mT, TensorType((1, 40), x.dtype)),  # a line
    ):
        assert not copy_turned(launcher, source._handle, launcher.empty(type))


def test_a_copy_is_turned_whatever_its_sizes_by_one_kernel() -> None:
    fresh = Device(CubeBackend(InterpreterRuntime(Machine.cpu(16, 16))))
    for shape in ((8, 12), (12, 20), (9, 7)):
        array = RNG.standard_normal(shape).astype(np.float32)
        flat = tensor(array, device=fresh).mT.reshape((-1,))
        np.testing.assert_array_equal(flat.numpy(), array.T.reshape(-1))
    assert launcher_of(fresh).built == 1


def test_a_tile_is_turned_by_shuffles_of_two_vectors() -> None:
    """Elements picked from all vectors of a tile took twice the time."""
    device = Device(CubeBackend(CpuRuntime(threads=1)))
    with explain() as report:
        tensor(np.zeros((64, 64), np.float32), device=device).mT.reshape((-1,)).numpy()
    (launched,) = (k for k in report.kernels if k.name == "turned copy")
    text = launcher_of(device).runtime.source(launched.kernel)
    width = launcher_of(device).machine.vector_bytes // 4
    assert text.count("shufflevector") >= width * (width.bit_length() - 1)
    assert text.count("insertelement") < width


@pytest.mark.parametrize("width", [4, 8, 16])
def test_a_tile_of_any_width_is_read_by_shuffles_of_two_vectors(width: int) -> None:
    """Of more vectors elements were moved one by one: with AVX-512 twice as many instructions."""
    b = KernelBuilder("tile")
    x, out = b.buffer("x", float32, "read"), b.buffer("out", float32, "write")

    def read(row: int, first: int, count: int) -> Value:
        return x.load(row * width + first, width=count)

    for row, column in enumerate(read_turned(read, width, 4)):
        out.store(row * width, column)
    llvm, host = (
        pytest.importorskip(f"pyrite.{n}") for n in ("kernel.target.llvm", "runtime.cpu.host")
    )
    kernel, target = verify(b.build()), host.host_target()

    assert llvm.to_llvm(llvm.lowered(kernel, target), target).count("insertelement") == 0
    given = np.arange(width * width, dtype=np.float32)
    result = np.zeros_like(given)
    interpret(kernel, 1, given, result)
    np.testing.assert_array_equal(result, given.reshape(width, width).T.reshape(-1))
