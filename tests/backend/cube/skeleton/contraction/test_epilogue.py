"""What is applied to each sum of a product before it is stored, at every config of a template."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.epilogue import Epilogue
from pyrite.backend.cube.lowering import convolution
from pyrite.backend.cube.skeleton.contraction import PRODUCT, contract, layout_of
from pyrite.backend.cube.skeleton.contraction.matrix_product import matmul_product
from pyrite.backend.cube.skeleton.finish import Around, Biased
from pyrite.backend.cube.skeleton.protocol import Fused, Stage
from pyrite.backend.cube.tensor import CubeTensor, unstored
from pyrite.backend.device import Device
from pyrite.kernel.machine import Machine
from pyrite.kernel.template import direct_config
from pyrite.kernel.template.operand import Digit, OperandMap
from pyrite.kernel.template.polyphase import single
from pyrite.op import OPS, Constant
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.tensor.creation import tensor
from pyrite.types import Array, DType, TensorType, float16, float32, int8

MACHINES = {"v4": Machine.cpu(64, 32), "v3": Machine.cpu(), "gpu": Machine.gpu(workgroups=8)}


@pytest.fixture(scope="module", params=MACHINES)
def backend(request: pytest.FixtureRequest) -> CubeBackend:
    return CubeBackend(InterpreterRuntime(MACHINES[request.param]))


def clipped(k: Any, value: Any, bias: Any, other: Any) -> Any:
    """Return a rule with two sources, which is no sum."""
    return k.maximum(value + bias, other)


def clipped_and_halved(k: Any, value: Any, bias: Any, other: Any, number: Any) -> Any:
    """Return values for two outputs, of which one has a number."""
    return [clipped(k, value, bias, other), k.cast(value * number, float32)]


SOURCES = ("column", "row", "matrix")


def source(backend: CubeBackend, kind: str, m: int, n: int) -> tuple[Array, CubeTensor, OperandMap]:
    """Return values as large as the result, the tensor, which begins at an offset, and its map."""
    shape = {"column": (n,), "row": (m,), "matrix": (m, n)}[kind]
    values = np.random.default_rng(len(kind)).integers(-9, 9, shape).astype(np.float32)
    whole = backend.upload(np.concatenate([np.full((1, *shape[1:]), np.nan, np.float32), values]))
    held = whole.sliced((1, *(0,) * (len(shape) - 1)), shape, (1,) * len(shape))
    strides = {"column": (0, 1), "row": (1, 0), "matrix": (n, 1)}[kind]
    rows, columns = ((Digit(size, s),) for size, s in zip((m, n), strides, strict=True))
    seen = {"column": (1, n), "row": (m, 1), "matrix": (m, n)}[kind]
    map = OperandMap(float32, (), rows, columns, (), layout_of(held).offset)
    return np.broadcast_to(values.reshape(seen), (m, n)), held, map


@pytest.mark.parametrize("first", SOURCES)
@pytest.mark.parametrize("size", [(8, 20, 11), (3, 17, 20), (4, 260, 1)], ids=str)
@pytest.mark.sample(3)
def test_every_config_of_a_product_applies_it(
    backend: CubeBackend, size: tuple[int, int, int], first: str, quarter: Any
) -> None:
    m, k, n = size
    random = np.random.default_rng(0)
    x, y = (random.integers(-3, 4, s).astype(np.float32) for s in ((m, k), (k, n)))
    left, right = backend.upload(x), backend.upload(y)
    product = matmul_product((m, k, n), layout_of(left), layout_of(right))
    (a, of_a, map_a), (b, of_b, map_b) = (source(backend, s, m, n) for s in (first, "matrix"))
    want = np.maximum(x @ y + a, b)
    fused = Fused(epilogue=Stage(clipped, (map_a, map_b)))
    for schedule in quarter({*PRODUCT.candidates(product, backend.launcher.machine)}):
        target = backend.launcher.empty(TensorType((m, n), float32))
        contract(
            backend.launcher, product, left, right, target, schedule=schedule, fused=fused,
            sources=[of_a, of_b],
        )  # fmt: skip
        np.testing.assert_array_equal(backend.download(target), want, str(schedule))


@pytest.mark.parametrize("size", [(8, 20, 11), (3, 17, 20), (4, 260, 1), (33, 7, 40)], ids=str)
@pytest.mark.sample(2)
def test_every_config_of_a_product_writes_several_outputs(
    backend: CubeBackend, size: tuple[int, int, int], quarter: Any
) -> None:
    m, k, n = size
    random = np.random.default_rng(0)
    x, y = (random.integers(-3, 4, s).astype(np.float32) for s in ((m, k), (k, n)))
    left, right = backend.upload(x), backend.upload(y)
    product = matmul_product((m, k, n), layout_of(left), layout_of(right))
    (a, of_a, map_a), (b, of_b, map_b) = (source(backend, s, m, n) for s in ("row", "matrix"))
    want = np.maximum(x @ y + a, b)
    # The first output has its rows turned round, the second one lies transposed, as float16.
    turned = OperandMap(float32, (), (Digit(m, -n),), (Digit(n, 1),), (), 1)
    crossed = OperandMap(float16, (), (Digit(m, 1),), (Digit(n, m),))
    stage = Stage(clipped_and_halved, (map_a, map_b, float32))
    fused = Fused(epilogue=stage, outputs=(turned, crossed))
    for schedule in quarter({*PRODUCT.candidates(product, backend.launcher.machine)}):
        empty = backend.launcher.empty
        rows, across = empty(TensorType((m, n), float32)), empty(TensorType((n, m), float16))
        first = rows.strided((m, n), (-n, 1), (m - 1) * n) if m > 1 else rows
        contract(
            backend.launcher, product, left, right, rows, schedule=schedule, fused=fused,
            sources=[of_a, of_b, 0.5], outputs=[first, across],
        )  # fmt: skip
        np.testing.assert_array_equal(backend.download(rows), want[::-1], str(schedule))
        np.testing.assert_array_equal(backend.download(across), (x @ y).T / 2, str(schedule))


WINDOWS: dict[str, Any] = {
    "stride": (2, 1), "padding": ((1, 1), (2, 0)), "dilation": (1, 2), "groups": 2,
}  # fmt: skip


def test_every_config_of_a_direct_convolution_applies_it(backend: CubeBackend) -> None:
    machine = backend.launcher.machine
    if machine.kind == "gpu":
        pytest.skip("direct convolutions are for processors")
    random = np.random.default_rng(0)
    shapes = ((2, 4, 9, 12), (6, 2, 3, 2), (6,))
    x, weight, bias = (random.integers(-3, 4, s).astype(np.float32) for s in shapes)
    reference: Any = OPS["convolution"].reference
    out = reference(x, weight, **WINDOWS)
    residual = random.integers(-9, 9, out.shape).astype(np.float32)
    want = np.maximum(out + bias.reshape(-1, 1, 1), residual)
    hx, hw, hb, hr = (backend.upload(a) for a in (x, weight, bias, residual))
    sources = [hb.strided(out.shape, (0, 1, 0, 0)), hr]
    stage = Stage(clipped, tuple(convolution.tensor_layout_of(s) for s in sources))
    w = convolution.windows_of(x.shape, weight.shape, out.shape[2:], WINDOWS)
    for config in set(direct_config.candidates(single(w), float32, machine)):
        target = backend.launcher.empty(TensorType(out.shape, float32))
        convolution.convolve_directly(
            backend.launcher, single(w), hw, hx, target, config,
            around=Around(Fused(epilogue=stage), tuple(sources)),
        )  # fmt: skip
        np.testing.assert_array_equal(backend.download(target), want, str(config))


def test_every_config_of_a_direct_convolution_writes_several_outputs(backend: CubeBackend) -> None:
    machine = backend.launcher.machine
    if machine.kind == "gpu":
        pytest.skip("direct convolutions are for processors")
    random = np.random.default_rng(0)
    x, weight = (
        random.integers(-3, 4, s).astype(np.float32) for s in ((2, 4, 9, 12), (6, 2, 3, 2))
    )
    reference: Any = OPS["convolution"].reference
    out = reference(x, weight, **WINDOWS)
    residual = random.integers(-9, 9, out.shape).astype(np.float32)
    hx, hw, hr = (backend.upload(a) for a in (x, weight, residual))
    type = TensorType(out.shape, float32)
    w = convolution.windows_of(x.shape, weight.shape, out.shape[2:], WINDOWS)
    for config in set(direct_config.candidates(single(w), float32, machine)):
        targets = (backend.launcher.empty(type), backend.launcher.empty(type))
        epilogue = Epilogue(
            clipped_and_halved, (hr, hr, Constant(0.5, TensorType((), float32))), targets
        )
        around = convolution.around_directly(backend.launcher, (), epilogue)
        convolution.convolve_directly(
            backend.launcher, single(w), hw, hx, unstored(type), config, around=around
        )
        want = np.maximum(out + residual, residual)
        np.testing.assert_array_equal(backend.download(targets[0]), want, str(config))
        np.testing.assert_array_equal(backend.download(targets[1]), out / 2, str(config))


# ---- the ops that have a bias ----


@pytest.mark.parametrize("dtype", [float32, float16, int8], ids=str)
@pytest.mark.parametrize("lead", [(), (5,), (2, 3)], ids=str)
def test_a_linear_layer_is_one_kernel(
    backend: CubeBackend, lead: tuple[int, ...], dtype: DType
) -> None:
    random = np.random.default_rng(0)
    x, w, b = (random.integers(-3, 4, s).astype(dtype.numpy) for s in ((*lead, 9), (7, 9), (7,)))
    device: Any = Device(backend)
    before = backend.runtime.report()["launches"]
    got = tensor(x, device=device).linear(tensor(w, device=device), tensor(b, device=device))
    np.testing.assert_array_equal(got.numpy(), (x @ w.T + b).astype(dtype.numpy))
    assert backend.runtime.report()["launches"] == before + 1


def test_a_bias_is_added_to_what_is_added_up_again_at_the_border(backend: CubeBackend) -> None:
    random = np.random.default_rng(0)
    shapes = ((2, 4, 9, 12), (6, 2, 3, 2), (6,))
    x, weight, bias = (random.integers(-3, 4, s).astype(np.float32) for s in shapes)
    weight[0, 0, 0, 0] = np.inf
    device: Any = Device(backend)
    inputs = [tensor(a, device=device) for a in (x, weight, bias)]
    with np.errstate(invalid="ignore"):
        reference: Any = OPS["convolution"].reference
        want = reference(x, weight, **WINDOWS) + bias.reshape(-1, 1, 1)
    got = inputs[0].conv2d(*inputs[1:], **{**WINDOWS, "padding": WINDOWS["padding"]}).numpy()
    np.testing.assert_array_equal(got, want)


def test_a_bias_that_is_not_finite_stays_in_its_channel(backend: CubeBackend) -> None:
    device: Any = Device(backend)
    x, weight = np.ones((1, 2, 4, 4), np.float32), np.ones((3, 2, 3, 3), np.float32)
    bias = np.array([1, np.nan, np.inf], np.float32)
    inputs = [tensor(a, device=device) for a in (x, weight, bias)]
    got = inputs[0].conv2d(*inputs[1:], padding=1).numpy()
    assert np.isfinite(got[:, 0]).all()
    assert np.isnan(got[:, 1]).all()
    assert (got[:, 2] == np.inf).all()


def test_no_terms_leave_the_bias(backend: CubeBackend) -> None:
    device: Any = Device(backend)
    empty = [np.zeros((2, 0), np.float32), np.zeros((3, 0), np.float32), np.arange(3.0, dtype="f4")]
    x, weight, bias = (tensor(a, device=device) for a in empty)
    np.testing.assert_array_equal(x.linear(weight, bias).numpy(), [[0, 1, 2], [0, 1, 2]])


def test_a_source_that_moves_nowhere_is_read_once_for_a_vector() -> None:
    backend = CubeBackend(InterpreterRuntime(MACHINES["gpu"]))
    x, y = (backend.upload(np.ones((64, 64), np.float32)) for _ in range(2))
    product = matmul_product((64, 64, 64), layout_of(x), layout_of(y))
    row = OperandMap(float32, (), (Digit(64, 1),), (Digit(64, 0),))
    schedule = PRODUCT.select(product, backend.launcher.machine)
    kernel = PRODUCT.build(product, schedule, Fused(epilogue=Stage(Biased(1), (row,))), 1)
    (bias,) = (b for b in kernel.buffers if b.attr[1] == "source0")
    loads = [n for n in kernel.walk() if n.kind == "load" and n.inputs[0] is bias]
    assert {n.value_type.width for n in loads} == {1}
