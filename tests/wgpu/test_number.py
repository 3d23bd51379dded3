"""Numbers among the attributes of WGSL: given at each launch, under their own names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.errors import KernelError
from pyrite.runtime.wgpu import WgpuRuntime
from pyrite.wgpu import kernel

SCALED = """
// fn main( is below
fn scaled(value: elem) -> elem { return value * scale; }

@compute @workgroup_size(workgroup_size_x)
fn main(
    @builtin(global_invocation_id) id: vec3<u32>, /* fn main() { } */
) {
    let i = element(id);
    if (i >= out_size) { return; }
    let scale = scaled(x[i]); // a name of its own
    out[i] = scale + elem(i32(i) / every);
}
"""


def scaled_by(**kernel_options: Any) -> Any:
    @custom_op(infer=lambda x, **_: x, kernels=[kernel(SCALED, **kernel_options)])
    def op(x: Tensor, /, *, scale: float, every: int) -> Tensor:
        """Scale * x, and one more for every so many."""
        ...

    return op


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are compiled."""
    found: list[str] = []
    real = WgpuRuntime.compile_wgsl

    def compile_wgsl(self: WgpuRuntime, source: str, signature: Any) -> Any:
        found.append(source)
        return real(self, source, signature)

    monkeypatch.setattr(WgpuRuntime, "compile_wgsl", compile_wgsl)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_another_number_compiles_nothing(device: Any, compiled: list[str], dtype: str) -> None:
    if not device.backend.supports(pyrite.types.TensorType((), pyrite.dtype(dtype))):
        pytest.skip(f"{device} has no {dtype}")
    text = SCALED.replace("value * scale", "value * elem(scale)")
    x = np.array([3, -1, 2, 0, 5], dtype)

    @custom_op(infer=lambda x, **_: x, kernels=[kernel(text)])
    def op(x: Tensor, /, *, scale: float, every: int) -> Tensor:
        """Scale * x, and one more for every so many."""
        ...

    for scale, every in [(2.0, 2), (-3.0, 1), (0.0, 4), (2.0, 2), (-0.0, 2**31 - 1)]:
        got = op(pyrite.tensor(x, device=device), scale=scale, every=every)
        wanted = x * np.dtype(dtype).type(scale) + (np.arange(5) // every).astype(dtype)
        np.testing.assert_array_equal(got.numpy(), wanted)

    assert len(compiled) == 1
    # No line has moved.
    given = compiled[0].replace(" begin_numbers();", "", 1)
    assert given.removeprefix("enable f16; ").startswith(text)


def test_infinite_numbers_are_given_too(device: Any) -> None:
    op = scaled_by()

    got = op(pyrite.tensor([1.0, -2.0], device=device), scale=float("inf"), every=1)

    assert got.tolist() == [float("inf"), float("-inf")]


def test_static_numbers_are_constants(device: Any, compiled: list[str]) -> None:
    text = SCALED.replace("// a name", "var few: array<f32, every>; few[0] = 0.0; // a name")

    def op_of(*static: str) -> Any:
        return custom_op(infer=lambda x, **_: x, kernels=[kernel(text, static=static)])(_declared)

    x = pyrite.ones((4,), device=device)

    for every in (2, 3, 2):
        got = op_of("every")(x, scale=2.0, every=every)
        assert got.tolist() == [2.0 + i // every for i in range(4)]
    with pytest.raises(KernelError, match="array"):
        op_of()(x, scale=2.0, every=2)
    with pytest.raises(KernelError, match=r"static= to name attributes of .*, got size; it"):
        op_of("size")(x, scale=2.0, every=2)


def _declared(x: Tensor, /, *, scale: float, every: int) -> Tensor:
    """Scale * x, and one more for every so many."""
    ...


def test_an_int_that_is_none_of_wgsl_is_an_error(device: Any) -> None:
    with pytest.raises(KernelError, match=r"whole number between -2147483648 .* got 4294967296"):
        scaled_by()(pyrite.ones((2,), device=device), scale=1.0, every=2**32)
