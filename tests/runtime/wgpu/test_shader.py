"""A user's WGSL is checked, and an error in it names the line."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("wgpu")

from pyrite.errors import KernelError
from pyrite.kernel import KernelBuilder
from pyrite.runtime.wgpu import Signature, WgpuRuntime
from pyrite.types import float32, uint8

SQUARE = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) i: vec3<u32>) { y[i.x] = x[i.x] * x[i.x]; }
"""

TWO = Signature("square", (None, None), (False, True), 1)


def test_wgsl_of_a_user_runs(runtime: WgpuRuntime) -> None:
    x = runtime.upload(np.arange(64, dtype=np.float32))
    y = runtime.allocate(256)

    runtime.launch(runtime.compile_wgsl(SQUARE, TWO), [x, y], [1])

    np.testing.assert_array_equal(runtime.read(y, float32, (64,)), np.arange(64.0) ** 2)


def test_it_cannot_write_outside_of_its_buffers(runtime: WgpuRuntime) -> None:
    x = runtime.upload(np.ones(1024, np.float32))
    whole = runtime.upload(np.zeros(1024, np.float32))
    part = whole.view(256, 256)

    runtime.launch(runtime.compile_wgsl(SQUARE, TWO), [x, part], [16])

    values = runtime.read(whole, float32, (1024,))
    assert values[64:128].all()
    assert not values[:64].any()
    assert not values[128:].any()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("y[i.x] = x[i.x] *;", "expected expression"),
        ("var z: i32 = 1.5;", "`i32`"),
        ("y[i.x] = q;", "`q`"),
    ],
)
def test_an_error_names_the_line(runtime: WgpuRuntime, wrong: str, reason: str) -> None:
    source = SQUARE.replace("y[i.x] = x[i.x] * x[i.x];", wrong)

    with pytest.raises(KernelError, match="kernel 'square' requires WGSL that compiles") as e:
        runtime.compile_wgsl(source, TWO)

    assert "wgsl:5:" in str(e.value)
    assert wrong in str(e.value)
    assert reason in str(e.value)


def test_bindings_that_the_signature_lacks_are_an_error(runtime: WgpuRuntime) -> None:
    with pytest.raises(KernelError, match=r"requires a pipeline of it, got"):
        runtime.compile_wgsl(SQUARE, Signature("square", (None,), (False,), 1))


def test_too_much_workgroup_memory_is_an_error_when_it_is_compiled(runtime: WgpuRuntime) -> None:
    limit = runtime.device.limits["max-compute-workgroup-storage-size"]
    b = KernelBuilder("greedy", workgroup_size=64)
    b.shared(float32, limit // 8)[b.local_index()] = 1.0
    b.shared(uint8, limit // 8 + 4)[b.local_index()] = 1

    with pytest.raises(KernelError, match=f"at most {limit:,} bytes of .* got {limit + 16:,}; use"):
        runtime.compile(b.build())


def test_too_many_invocations_are_an_error_when_it_is_compiled(runtime: WgpuRuntime) -> None:
    kernel = KernelBuilder("crowd", workgroup_size=(2048, 1, 1)).build()

    with pytest.raises(KernelError, match=r"kernel 'crowd' requires .*\n?.*2048"):
        runtime.compile(kernel)


def test_it_has_no_kernel_of_ir_to_show(runtime: WgpuRuntime) -> None:
    executable = runtime.compile_wgsl(SQUARE, TWO)

    with pytest.raises(KernelError, match="made of IR, got WGSL: 'square'"):
        executable.kernel  # noqa: B018


def test_one_buffer_both_read_and_written_is_an_error(runtime: WgpuRuntime) -> None:
    x = runtime.upload(np.ones(256, np.float32))

    with pytest.raises(KernelError, match=r"no buffer is both read and written.*copy it first"):
        runtime.launch(runtime.compile_wgsl(SQUARE, TWO), [x.view(0, 256), x.view(256, 256)], [1])
