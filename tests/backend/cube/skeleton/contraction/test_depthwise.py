"""Convolutions of few channels on a GPU: one kernel, right for all sizes, layouts and windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.lowering.convolution import windows_of
from pyrite.backend.cube.skeleton.contraction import depthwise
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.polyphase import joined, single
from pyrite.op import OPS, Plan
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.types import Array, DType, Shape, TensorType, bfloat16, float16, float32

GPU = Machine.gpu()
#: Sizes of x, the kernel, stride, dilation, padding of each side; odd and even ones.
LAYERS: dict[str, tuple[Shape, Shape, Shape, Shape, tuple[tuple[int, int], ...]]] = {
    "3x3": ((9, 10), (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1))),
    "3x3 by 2": ((11, 12), (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1))),
    "5x5 by 2": ((8, 7), (5, 5), (2, 2), (1, 1), ((2, 2), (2, 2))),
    "apart": ((13, 9), (2, 3), (3, 2), (2, 1), ((0, 2), (1, 0))),
    "by 3 and 4": ((10, 17), (3, 4), (3, 4), (1, 1), ((1, 1), (0, 3))),
    "gaps": ((9, 9), (2, 2), (3, 3), (1, 1), ((0, 0), (0, 0))),
    "one window": ((3, 3), (3, 3), (2, 2), (1, 1), ((0, 0), (0, 0))),
    "one element": ((1, 1), (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1))),
    "a line": ((17,), (5,), (2,), (1,), ((2, 1),)),
    "a volume": ((5, 4, 6), (3, 2, 3), (2, 1, 2), (1, 1, 1), ((1, 1), (0, 1), (1, 1))),
}


@pytest.fixture
def backend() -> CubeBackend:
    """An interpreter that is scheduled for as a GPU, and checks every access."""
    return CubeBackend(InterpreterRuntime(GPU))


def given(name: str, groups: int, channels: int, outputs: int) -> tuple[Array, Array, Array, Any]:
    """Return x, the weight, g and the attributes of a layer, of numbers that are added exactly."""
    sizes, kernel, stride, dilation, padding = LAYERS[name]
    attrs: Any = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    random = np.random.default_rng(0)
    x = random.integers(-3, 4, (2, groups * channels, *sizes)).astype(np.float32)
    weight = random.integers(-3, 4, (groups * outputs, channels, *kernel)).astype(np.float32)
    out = reference("convolution", x, weight, **attrs)
    return x, weight, random.integers(-3, 4, out.shape).astype(np.float32), attrs


def reference(name: str, *inputs: Array, **attrs: Any) -> Array:
    function: Any = OPS[name].reference
    return np.asarray(function(*inputs, **attrs))


def run(
    backend: CubeBackend, name: str, inputs: list[CubeTensor], attrs: Any, shape: Shape,
    dtype: DType = float32,
) -> Array:  # fmt: skip
    results = backend.execute(OPS[name], inputs, Plan(attrs, (TensorType(shape, dtype),)))
    assert results is not None
    return backend.download(results[0])


@pytest.mark.parametrize(("channels", "outputs"), [(1, 1), (1, 2), (3, 1)])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_and_the_gradient_of_its_input(
    backend: CubeBackend, name: str, channels: int, outputs: int
) -> None:
    x, weight, g, attrs = given(name, 3, channels, outputs)
    hx, hw, hg = (backend.upload(a) for a in (x, weight, g))
    np.testing.assert_array_equal(
        run(backend, "convolution", [hx, hw], attrs, g.shape),
        reference("convolution", x, weight, **attrs),
    )
    attrs = {**attrs, "sizes": x.shape[2:]}
    before = backend.launcher.built
    np.testing.assert_array_equal(
        run(backend, "convolution_input_gradient", [hg, hw], attrs, x.shape),
        reference("convolution_input_gradient", g, weight, **attrs),
    )
    assert backend.launcher.built <= before + 1


@pytest.mark.parametrize("name", ["3x3", "3x3 by 2", "apart", "a volume"])
@pytest.mark.parametrize("is_gradient", [False, True])
def test_every_config(backend: CubeBackend, name: str, is_gradient: bool) -> None:
    x, weight, g, attrs = given(name, 2, 1, 1)
    w = windows_of(x.shape, weight.shape, g.shape[2:], attrs)
    p, source = (joined(w), g) if is_gradient else (single(w), x)
    more = {**attrs, "sizes": x.shape[2:]} if is_gradient else attrs
    want = reference(f"convolution{'_input_gradient' * is_gradient}", source, weight, **more)
    hw, hs = backend.upload(weight), backend.upload(source)
    problem = depthwise.Depthwise(p, (float32, hw.strides, False), depthwise.layout_of(hs))
    for config in depthwise.DEPTHWISE.candidates(problem, GPU):
        target = backend.launcher.empty(TensorType(want.shape, float32))
        depthwise.convolve(backend.launcher, p, hw, hs, target, config, is_transposed=is_gradient)
        np.testing.assert_array_equal(backend.download(target), want)


@pytest.mark.parametrize("dtype", [float32, float16, bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("layout", ["channels last", "turned", "apart", "one number", "offset"])
def test_operands_lie_anyhow(backend: CubeBackend, layout: str, dtype: DType) -> None:
    _, weight, g, attrs = given("3x3 by 2", 3, 1, 1)
    weight, g = weight.astype(dtype.numpy), g.astype(dtype.numpy)
    hg = backend.upload(g)
    if layout == "channels last":
        hg = backend.upload(np.ascontiguousarray(g.transpose(0, 2, 3, 1))).permuted((0, 3, 1, 2))
    elif layout == "turned":
        hg = backend.upload(np.ascontiguousarray(g[..., ::-1]))
        hg = hg.sliced((0, 0, 0, g.shape[3] - 1), g.shape, (1, 1, 1, -1))
    elif layout == "apart":
        hg = backend.upload(np.repeat(g, 2, -1)).sliced((0,) * 4, g.shape, (1, 1, 1, 2))
    elif layout == "one number":
        g = np.broadcast_to(g[:1, :1, :1, :1], g.shape)
        hg = backend.upload(np.ascontiguousarray(g[:1, :1, :1, :1])).broadcast_to(g.shape)
    else:
        hg = backend.upload(np.concatenate([g, g])).sliced((2, 0, 0, 0), g.shape, (1,) * 4)
    attrs = {**attrs, "sizes": (11, 12)}
    got = run(
        backend,
        "convolution_input_gradient",
        [hg, backend.upload(weight)],
        attrs,
        (2, 3, 11, 12),
        dtype,
    )
    want = reference("convolution_input_gradient", g, weight, **attrs)
    np.testing.assert_array_equal(got, want.astype(dtype.numpy), strict=True)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_padding_is_multiplied_by_nothing(backend: CubeBackend, bad: float) -> None:
    x, weight, g, attrs = given("5x5 by 2", 2, 1, 1)
    weight[0, 0, 0, 0] = weight[1, 0, 4, 2] = bad
    hx, hw, hg = (backend.upload(a) for a in (x, weight, g))
    more = {**attrs, "sizes": x.shape[2:]}
    with np.errstate(invalid="ignore"):
        forward = reference("convolution", x, weight, **attrs)
        backward = reference("convolution_input_gradient", g, weight, **more)
    assert np.isfinite(forward).any()
    np.testing.assert_array_equal(run(backend, "convolution", [hx, hw], attrs, g.shape), forward)
    got = run(backend, "convolution_input_gradient", [hg, hw], more, x.shape)
    np.testing.assert_array_equal(got, backward)


def test_other_sizes_build_few_kernels(backend: CubeBackend) -> None:
    """Sizes are arguments; whether rows of out are whole vectors is built in."""
    random = np.random.default_rng(1)
    weight = random.integers(-3, 4, (3, 1, 3, 3)).astype(np.float32)
    hw = backend.upload(weight)
    for n, height, width in ((2, 12, 16), (3, 20, 8), (5, 8, 24), (1, 16, 12), (4, 36, 40)):
        g = random.integers(-3, 4, (n, 3, height // 2, width // 2)).astype(np.float32)
        attrs: Any = {
            "stride": (2, 2), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 3,
            "sizes": (height, width),
        }  # fmt: skip
        shape = (n, 3, height, width)
        got = run(backend, "convolution_input_gradient", [backend.upload(g), hw], attrs, shape)
        want = reference("convolution_input_gradient", g, weight, **attrs)
        np.testing.assert_array_equal(got, want)
    assert backend.launcher.built <= 2  # a batch of one is another


def test_many_channels_are_a_product() -> None:
    attrs: Any = {"stride": (1, 1), "padding": ((1, 1),) * 2, "dilation": (1, 1), "groups": 1}
    many = windows_of((2, 8, 9, 9), (16, 8, 3, 3), (9, 9), attrs)
    few = windows_of((2, 8, 9, 9), (8, 1, 3, 3), (9, 9), {**attrs, "groups": 8})
    assert not depthwise.takes(single(many), GPU)
    assert depthwise.takes(single(few), GPU)
    assert not depthwise.takes(single(few), Machine.cpu())
