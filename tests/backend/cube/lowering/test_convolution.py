"""Convolutions of tensors: every schedule gives the reference's numbers, however tensors lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.lowering import convolution
from pyrite.backend.cube.skeleton.contraction import gradient, layout_of
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel.machine import Machine
from pyrite.kernel.template import direct_config, outer_config, weight_gradient
from pyrite.kernel.template.implicit_gemm import Windows
from pyrite.kernel.template.polyphase import joined, single
from pyrite.op import OPS, Plan
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.types import Array, TensorType, float32

CPU = Machine.cpu(32, 16)
ATTRS: dict[str, Any] = {
    "stride": (2, 3), "padding": ((1, 1), (2, 0)), "dilation": (1, 2), "groups": 2,
}  # fmt: skip
SAME: dict[str, Any] = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)}
STRIDED: dict[str, Any] = {**SAME, "stride": (2, 2)}


@pytest.fixture(params=["cpu", "gpu"])
def backend(request: pytest.FixtureRequest) -> CubeBackend:
    """An interpreter that is scheduled for as a CPU or as a GPU."""
    return CubeBackend(InterpreterRuntime(CPU if request.param == "cpu" else Machine.gpu()))


def run(backend: CubeBackend, name: str, inputs: list[CubeTensor], want: Array, attrs: Any) -> None:
    out = (TensorType(want.shape, float32),)
    results = backend.execute(OPS[name], inputs, Plan(attrs, out))
    assert results is not None
    got = backend.download(results[0])
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def reference(name: str, *inputs: Array, **attrs: Any) -> Array:
    function: Any = OPS[name].reference
    return np.asarray(function(*inputs, **attrs))


@pytest.mark.parametrize("kernel_size", [(3, 2), (1, 1), (5, 4)], ids=str)
@pytest.mark.parametrize("stride", [(2, 3), (3, 2)], ids=str)
def test_a_strided_convolution_and_its_gradients(
    backend: CubeBackend, kernel_size: tuple[int, int], stride: tuple[int, int]
) -> None:
    attrs = {**ATTRS, "stride": stride}
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 4, 9, 12)).astype(np.float32)
    weight = random.standard_normal((6, 2, *kernel_size)).astype(np.float32)
    out = reference("convolution", x, weight, **attrs)
    g = random.standard_normal(out.shape).astype(np.float32)
    of_x, of_weight = {**attrs, "sizes": (9, 12)}, {**attrs, "kernel_size": kernel_size}
    hx, hw, hg = (backend.upload(a) for a in (x, weight, g))
    run(backend, "convolution", [hx, hw], out, attrs)
    want = reference("convolution_input_gradient", g, weight, **of_x)
    run(backend, "convolution_input_gradient", [hg, hw], want, of_x)
    want = reference("convolution_weight_gradient", x, g, **of_weight)
    run(backend, "convolution_weight_gradient", [hx, hg], want, of_weight)


def test_views_are_read_where_they_lie(backend: CubeBackend) -> None:
    random = np.random.default_rng(1)
    images = random.standard_normal((3, 8, 10, 4)).astype(np.float32)  # channels last
    weight = random.standard_normal((6, 2, 3, 3)).astype(np.float32)
    x = backend.upload(images).permuted((0, 3, 1, 2)).sliced((1, 0, 0, 1), (2, 4, 8, 9), (1,) * 4)
    attrs = {**ATTRS, "stride": (1, 1)}
    want = reference("convolution", images.transpose(0, 3, 1, 2)[1:, :, :, 1:], weight, **attrs)
    run(backend, "convolution", [x, backend.upload(weight)], want, attrs)


def test_every_config_of_a_direct_kernel_and_of_sums_over_positions() -> None:
    backend = CubeBackend(InterpreterRuntime())
    random = np.random.default_rng(2)
    x = random.standard_normal((2, 3, 7, 6)).astype(np.float32)
    weight = random.standard_normal((4, 3, 3, 3)).astype(np.float32)
    attrs: Any = {**ATTRS, "stride": (1, 1), "groups": 1}
    out = reference("convolution", x, weight, **attrs)
    g = random.standard_normal(out.shape).astype(np.float32)
    of_weight = reference("convolution_weight_gradient", x, g, kernel_size=(3, 3), **attrs)
    hx, hw, hg = (backend.upload(a) for a in (x, weight, g))
    w = convolution.windows_of(x.shape, weight.shape, out.shape[2:], attrs)
    launcher = backend.launcher
    whole = single(w)
    for config in set(direct_config.candidates(whole, float32, CPU)):
        target = launcher.empty(TensorType(out.shape, float32))
        convolution.convolve_directly(launcher, whole, hw, hx, target, config)
        np.testing.assert_allclose(backend.download(target), out, rtol=2e-5, atol=2e-5)
    layouts = layout_of(hx), layout_of(hg)
    problem = gradient.WeightGradient(w, *layouts)
    found = set(weight_gradient.candidates(w, float32, CPU))
    outer = outer_config.candidates(w, float32, CPU)
    for chosen in {*found, *outer, *(replace(c, parts=2) for c in (next(iter(found)), outer[0]))}:
        target = launcher.empty(TensorType(weight.shape, float32))
        convolution.sum_over_positions(launcher, problem, hx, hg, target, chosen)
        np.testing.assert_allclose(backend.download(target), of_weight, rtol=2e-5, atol=2e-4)


def test_vectors_of_a_gradient_lie_along_many_outputs_or_along_positions() -> None:
    many = convolution.windows_of((8, 16, 4, 4), (32, 16, 3, 3), (4, 4), {**SAME, "groups": 1})
    single = convolution.windows_of((8, 16, 9, 9), (16, 1, 3, 3), (9, 9), {**SAME, "groups": 16})
    outer = gradient.select(many, float32, CPU)
    assert isinstance(outer, outer_config.OuterConfig)
    along = gradient.select(single, float32, CPU)
    assert isinstance(along, weight_gradient.WeightGradientConfig)


def test_small_images_and_single_taps_are_products() -> None:
    small = convolution.windows_of((8, 4, 4, 4), (4, 4, 3, 3), (4, 4), {**SAME, "groups": 1})
    large = convolution.windows_of((8, 4, 9, 9), (4, 4, 3, 3), (9, 9), {**SAME, "groups": 1})
    assert not convolution.is_direct(single(small), CPU)
    assert convolution.is_direct(single(large), CPU)
    pointwise = replace(large, kernel_size=(1, 1))
    assert not convolution.is_direct(single(pointwise), CPU)


def test_the_gradient_of_strided_images_is_one_kernel_if_it_is_direct() -> None:
    w = convolution.windows_of((8, 4, 15, 15), (4, 4, 3, 3), (8, 8), {**STRIDED, "groups": 1})
    assert convolution.is_direct(joined(w), CPU)
    pointwise = replace(w, kernel_size=(1, 1))
    assert not convolution.is_direct(joined(pointwise), CPU)


@pytest.mark.parametrize(
    ("outputs", "image", "is_direct"), [(8, 6, True), (9, 6, False), (8, 2, False)]
)
def test_phases_of_sparse_images_with_few_outputs_share_a_kernel(
    outputs: int, image: int, is_direct: bool
) -> None:
    counts, size = (image,) * 3, (2 * image,) * 3
    # The gradient of x of a layer by 2, which is the transposed convolution of its weight.
    w = Windows(4, 1, outputs, 16, size, (4,) * 3, counts, (2,) * 3, (1,) * 3, (1,) * 3)

    assert convolution.is_direct(joined(w), CPU) is is_direct
