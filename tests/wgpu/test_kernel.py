"""A kernel in WGSL: what is declared for it, how it is run, and how its mistakes are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device
from pyrite.errors import DeviceError, DTypeError, KernelError
from pyrite.extension import kernel as python_kernel
from pyrite.runtime.wgpu import WgpuRuntime
from pyrite.types import TensorType
from pyrite.wgpu import WGSLKernel, init_device, kernel

Op = Callable[..., Any]

SQUARE = """
@compute @workgroup_size(workgroup_size_x)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = element(id);
    if (i >= out_size) { return; }
    let value: elem = x[i];
    out[i] = value * value;
}
"""


def same(*types: TensorType, **_: Any) -> TensorType:
    return types[0]


def op_of(made: WGSLKernel, infer: Any = same) -> Op:
    @custom_op(infer=infer, kernels=[made])
    def op(x: Tensor, /) -> Tensor:
        """An op of that kernel."""
        ...

    return op


square = op_of(kernel(SQUARE, name="square"))


# ---- values ----


@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (0, 3), (1000,)])
def test_it_runs_once_for_each_element(device: Device, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)

    assert np.array_equal(square(pyrite.tensor(array, device=device)).numpy(), array**2)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32", "float16", "float64", "int64"])
def test_the_element_type_is_that_of_the_tensor(device: Device, dtype: str) -> None:
    backend: Any = device.backend.root
    needs = {"float16": "shader-f16", "float64": "shader-f64", "int64": "shader-int64"}
    if needs.get(dtype, "shader-f16") not in backend.runtime.device.features:
        pytest.skip(f"the device lacks {dtype}")
    x = pyrite.tensor([0, 3, 5], dtype=dtype, device=device)

    got = square(x)

    assert (got.dtype, got.tolist()) == (x.dtype, [0, 9, 25])


@pytest.mark.parametrize("size", [1, 32, 256])
def test_the_size_of_a_workgroup_is_a_parameter(device: Device, size: int) -> None:
    x = pyrite.tensor(np.arange(500, dtype=np.float32), device=device)

    got = op_of(kernel(SQUARE, workgroup_size=size))(x)

    assert np.array_equal(got.numpy(), np.arange(500.0) ** 2)


def test_there_may_be_more_workgroups_than_an_axis_has(device: Device) -> None:
    array = np.arange(70_000, dtype=np.int32) % 1000

    got = op_of(kernel(SQUARE, workgroup_size=1))(pyrite.tensor(array, device=device))

    assert np.array_equal(got.numpy(), array**2)


def test_a_view_comes_in_row_major_order(device: Device) -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = pyrite.tensor(array, device=device)

    assert np.array_equal(square(x.mT[1:]).numpy(), array.T[1:] ** 2)
    assert np.array_equal(square(x[1]).numpy(), array[1] ** 2)


def test_shapes_and_attributes_are_constants_and_workgroups_share_memory(device: Device) -> None:
    source = """
    var<workgroup> tile: array<array<x_elem, workgroup_size_x>, workgroup_size_y>;

    @compute @workgroup_size(workgroup_size_x, workgroup_size_y)
    fn main(
        @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>
    ) {
        let from_row = group.y * workgroup_size_y + local.y;
        let from_column = group.x * workgroup_size_x + local.x;
        if (from_row < x_shape[0] && from_column < x_shape[1]) {
            tile[local.y][local.x] = x[from_row * x_shape[1] + from_column];
        }
        workgroupBarrier();
        let row = group.x * workgroup_size_x + local.y;
        let column = group.y * workgroup_size_y + local.x;
        if (row < turned_shape[0] && column < turned_shape[1]) {
            let value = tile[local.x][local.y];
            turned[row * turned_shape[1] + column] =
                select(value, -value, negate) * f32(times) * factor + weights[1];
        }
    }
    """

    @custom_op(
        infer=lambda x, **_: TensorType(x.shape[::-1], x.dtype),
        kernels=[
            kernel(
                source,
                workgroup_size=(8, 8),
                grid=lambda x, out, **_: (-(-x.shape[1] // 8), -(-x.shape[0] // 8)),
                outputs="turned",
            )
        ],
    )
    def turn(x: Tensor, /, *, negate: bool, times: int, factor: float, weights: tuple[float, ...],
             note: str = "left to the host") -> Tensor:  # fmt: skip
        """Its transpose, changed by all that an attribute may be."""
        ...

    array = np.random.default_rng(0).normal(size=(11, 19)).astype(np.float32)

    got = turn(
        pyrite.tensor(array, device=device), negate=True, times=3, factor=0.5, weights=(1.0, 2.0)
    )

    np.testing.assert_allclose(got.numpy(), -array.T * 1.5 + 2.0, rtol=1e-6, atol=1e-6)


def test_it_may_have_several_outputs(device: Device) -> None:
    source = SQUARE.replace("out[i] = value", "lowest[i] = -value; out[i] = value")

    @custom_op(infer=lambda x: (x, x), kernels=[kernel(source, outputs=("out", "lowest"))])
    def both(x: Tensor, /) -> tuple[Tensor, Tensor]:
        """X² and -x."""
        ...

    squares, negated = both(pyrite.tensor([2.0, 3.0], device=device))
    assert (squares.tolist(), negated.tolist()) == ([4.0, 9.0], [-2.0, -3.0])


# ---- what is compiled, and when ----


def test_it_is_compiled_once_for_each_set_of_types(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    real = WgpuRuntime.compile_wgsl

    def compile_wgsl(self: WgpuRuntime, source: str, signature: Any) -> Any:
        compiled.append(source)
        return real(self, source, signature)

    monkeypatch.setattr(WgpuRuntime, "compile_wgsl", compile_wgsl)
    op = op_of(kernel(SQUARE))
    x, longer = pyrite.ones((4,), device=device), pyrite.ones((5,), device=device)
    for argument in (x, x, longer, x.astype("int32"), longer):
        op(argument)

    assert len(compiled) == 3
    assert all(text.startswith(SQUARE) for text in compiled)


# ---- mistakes ----


def test_a_mistake_names_its_line_as_it_was_written(device: Device) -> None:
    wrong = op_of(kernel(SQUARE.replace("value * value", "value * q"), name="square"))
    backend: Any = device.backend.root
    has_float16 = "shader-f16" in backend.runtime.device.features

    for dtype in ("float32", "float16") if has_float16 else ("float32",):
        with pytest.raises(KernelError, match=r"kernel 'square' requires WGSL that c.*\n") as error:
            wrong(pyrite.ones((4,), dtype=dtype, device=device))
        assert "wgsl:7:" in str(error.value)
        assert "out[i] = value * q;" in str(error.value)
        assert str(error.value.location).startswith(__file__)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "bool"])
def test_a_dtype_that_wgsl_lacks_is_an_error(device: Device, dtype: str) -> None:
    with pytest.raises(DTypeError, match=rf"\(float32, int32, uint32.* got {dtype}; cast it"):
        square(pyrite.ones((4,), device=device).astype(pyrite.dtype(dtype)))


def test_every_output_has_a_name(device: Device) -> None:
    with pytest.raises(KernelError, match=r"a name for each of the 2 outputs of op, got outputs="):
        op_of(kernel(SQUARE), lambda x: (x, x))(pyrite.ones((2,), device=device))


def test_an_attribute_that_wgsl_cannot_say_is_an_error(device: Device) -> None:
    @custom_op(infer=same, kernels=[kernel(SQUARE, static="limit")])
    def limited(x: Tensor, /, *, limit: float) -> Tensor:
        """X²."""
        ...

    with pytest.raises(KernelError, match=r"attribute limit requires a finite number .* got inf"):
        limited(pyrite.ones((2,), device=device), limit=float("inf"))


@pytest.mark.parametrize(
    ("written", "given"), [("32", 64), ("64u, 2", 64), (" 8, 8, ", (8, 4)), ("64", (64, 2))]
)
def test_a_workgroup_that_is_not_the_one_that_is_counted_is_an_error(
    written: str, given: int | tuple[int, ...]
) -> None:
    """As many invocations would be missing, or too many, with nothing said."""
    source = SQUARE.replace("workgroup_size_x", written)

    with pytest.raises(KernelError, match=r"'main' requires the workgroup that .*; write @work"):
        kernel(source, workgroup_size=given, grid=lambda *_: (1,))


@pytest.mark.parametrize(
    "written",
    [
        "64",
        "64u, 1",
        "workgroup_size_x",
        "workgroup_size_x, 1, 1",
        "size",
        "64) // @workgroup_size(8",
    ],
)
def test_a_workgroup_may_be_written_as_it_is_given(written: str) -> None:
    kernel(SQUARE.replace("workgroup_size_x)", f"{written})\n/* @workgroup_size(1)\n*/"))


@pytest.mark.parametrize("source", [None, b"fn main() {}", Path("kernel.wgsl")])
def test_a_kernel_is_text(source: Any) -> None:
    with pytest.raises(KernelError, match=r"requires WGSL as a str, got .*; of a file .*read_text"):
        kernel(source)


def test_workgroups_of_several_axes_have_a_grid() -> None:
    with pytest.raises(KernelError, match=r"'main' requires a grid .* got none and .*\(8, 8\)"):
        kernel(SQUARE, workgroup_size=(8, 8))


@pytest.mark.parametrize("name", ["cpu", "numpy"])
def test_it_is_an_error_where_there_is_no_wgsl(name: str) -> None:
    with pytest.raises(DeviceError, match=f"op requires a kernel that runs on {name}, or a body"):
        square(pyrite.ones((2,), device=name))


# ---- where ----


def test_kernels_run_on_the_device_of_an_application(application: Any) -> None:
    """It was made without features, so numbers reach a kernel in a buffer."""
    shared = init_device(application)
    x = pyrite.tensor(np.arange(12, dtype=np.float32).reshape(3, 4), device=shared)

    @python_kernel
    def tripled(k: Any, x: Any, out: Any) -> None:
        out[k.at] = x[k.at] * 3.0

    @custom_op(infer=same, kernels=[tripled])
    def triple(x: Tensor, /) -> Tensor:
        """3 x."""
        ...

    assert square(x[1:, 1]).tolist() == [25.0, 81.0]
    assert triple(x[1:, 1]).tolist() == [15.0, 27.0]


def test_calls_are_recorded_where_inputs_fill_their_buffers(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
    @compute @workgroup_size(workgroup_size_x)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        let i = element(id);
        if (i >= out_size) { return; }
        out[i] = x[i] * scale + elem(1000u * arrayLength(&x) + 100000u * arrayLength(&out));
    }
    """
    made, launches = pyrite.wgpu.kernel(source), list[str]()
    launch = type(made).launch

    def noted(self: Any, launcher: Any, call: Any) -> None:
        launches.append(type(launcher).__name__)
        launch(self, launcher, call)

    monkeypatch.setattr(type(made), "launch", noted)

    @pyrite.custom_op(infer=lambda x, **_: x, kernels=[made])
    def op(x: Tensor, /, *, scale: float) -> Tensor:
        """x times scale, and how large the arrays are."""
        ...

    whole = pyrite.arange(12, dtype="float32", device=device)
    views = {
        "whole": whole + 0.0, "table": whole.reshape((3, 4)) + 0.0, "slice": whole[3:7],
        "start": whole[:4], "turned": whole.reshape((3, 4)).mT, "reversed": whole.flip((0,)),
        "broadcast": whole[:1].expand((4,)),
    }  # fmt: skip
    for _ in range(4):
        for scale in (2.0, -0.0, 0.0):
            for name, x in views.items():
                bound = -(-x.size // 8) * 8  # whole multiples of 32 bytes
                wanted = x.numpy() * scale + 101000.0 * bound
                np.testing.assert_array_equal(op(x, scale=scale).numpy(), wanted, err_msg=name)

    launches.clear()
    for _ in range(3):
        op(views["whole"], scale=2.0)
        op(views["start"], scale=2.0)
    assert launches == ["Launcher"] * 3  # of the slice alone
