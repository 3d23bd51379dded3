"""Every config of a pool is right for every form of windows, and says the same as NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.skeleton.along import AlongConfig, candidates
from pyrite.backend.cube.skeleton.fold import KernelFold
from pyrite.backend.cube.skeleton.window.axis import counted, covering, sliding
from pyrite.backend.cube.skeleton.window.pool import PoolFold, pool, widest
from pyrite.backend.device import Device
from pyrite.config import config
from pyrite.errors import DeviceError
from pyrite.op import OPS
from pyrite.op.rule import WindowFold
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import TensorType, float32, int32

#: Sizes, and the arguments of a pool of them.
POOLS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((37,), {"kernel_size": 3, "stride": 1, "padding": 1}),
    ((40,), {"kernel_size": 2, "stride": 2}),
    ((41,), {"kernel_size": 3, "stride": 3, "padding": ((1, 0),), "ceil_mode": True}),
    ((45,), {"kernel_size": 4, "stride": 5}),
    ((60,), {"kernel_size": 11, "stride": 2, "padding": 5}),
    ((7, 38), {"kernel_size": (2, 3), "stride": (1, 2), "padding": 1, "ceil_mode": True}),
    ((3, 4, 19), {"kernel_size": 2, "stride": 1, "padding": (0, 1, 1)}),
]
CPU = Machine("cpu", 16, (1,), 2**31 - 1)
CONFIGS = [AlongConfig(1, width, row) for width in (1, 4, 16) for row in (True, False)]


def handles(x: Tensor) -> tuple[CubeBackend, Any]:
    """The backend of a tensor, and its handle."""
    backend = x._backend
    assert isinstance(backend, CubeBackend)
    return backend, x._handle


def with_special_values(shape: tuple[int, ...]) -> Any:
    """Few different numbers, infinities, zeros of both signs and NaNs."""
    values = np.array([-np.inf, -np.inf, np.inf, np.nan, 0.0, -0.0, 1.0, -1.0], np.float32)
    return np.random.default_rng(len(shape)).choice(values, shape)


@pytest.mark.parametrize("setting", CONFIGS, ids=str)
@pytest.mark.parametrize(("sizes", "arguments"), POOLS)
def test_every_candidate_finds_the_first_maximum(
    interpreter: Device, sizes: tuple[int, ...], arguments: dict[str, Any], setting: AlongConfig
) -> None:
    array = with_special_values((2, 2, *sizes))
    fitting = (1, 2) if min(sizes) > 4 else (1,)
    for dilation in fitting:
        given = {"dilation": dilation, **arguments}
        values, places = tensor(array).max_pool_with_indices(**given)
        got = pooled_maximum(tensor(array, device=interpreter), setting, values, given)

        np.testing.assert_array_equal(got[0], values.numpy())
        np.testing.assert_array_equal(got[1], places.numpy())


def pooled_maximum(
    x: Tensor, setting: AlongConfig, like: Tensor, arguments: dict[str, Any]
) -> list[Any]:
    backend, handle = handles(x)
    windows = canonical("max_pool_with_indices", x, arguments)
    axes = sliding(
        x.shape[2:], like.shape[2:], windows["kernel_size"], windows["stride"],
        windows["padding"], windows["dilation"],
    )  # fmt: skip
    assert setting in candidates(like.shape, CPU, widest=widest(axes))
    types = (TensorType(like.shape, float32), TensorType(like.shape, int32))
    targets = [backend.launcher.empty(type) for type in types]
    bounds = tuple((0, n) for n in x.shape[2:])
    fold = pool_fold("max_pool_with_indices", bounds, float32, int32)
    pool(backend.launcher, fold, axes, handle, targets, setting)
    return [backend.download(t) for t in targets]


def pool_fold(op: str, bounds: Any, *results: Any) -> PoolFold:
    """The fold of an op for pools."""
    rule = OPS[op].rule
    assert isinstance(rule, WindowFold)
    bound = (rule.in_order or rule.fold).of(float32, results, {"first": 0}, 0)
    neutral = None if rule.neutral is None else rule.neutral(float32)
    return PoolFold(KernelFold(op, bound), float32, bounds, neutral)


def canonical(op: str, x: Tensor, arguments: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a call in their one form."""
    record = OPS[op]
    assert record.canonical is not None
    return dict(record.canonical(x._type, **{**record.attributes, **arguments}))


@pytest.mark.parametrize("counts_padding", [True, False])
@pytest.mark.parametrize("setting", CONFIGS, ids=str)
@pytest.mark.parametrize(("sizes", "arguments"), POOLS)
def test_every_candidate_finds_the_mean(
    interpreter: Device, sizes: tuple[int, ...], arguments: dict[str, Any], setting: AlongConfig,
    counts_padding: bool,
) -> None:  # fmt: skip
    array = np.random.default_rng(0).normal(size=(2, 2, *sizes)).astype(np.float32)
    want = tensor(array).avg_pool(**arguments, count_include_pad=counts_padding).numpy()
    x = tensor(array, device=interpreter)
    backend, handle = handles(x)
    windows = canonical("avg_pool", x, arguments)
    padding = windows["padding"]
    axes = sliding(sizes, want.shape[2:], windows["kernel_size"], windows["stride"], padding)
    bounds = counted(sizes, padding, count_include_pad=counts_padding)
    target = backend.launcher.empty(TensorType(want.shape, float32))
    fold = pool_fold("avg_pool", bounds, float32)
    pool(backend.launcher, fold, axes, handle, [target], setting)

    np.testing.assert_allclose(backend.download(target), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("counts", [(1, 1), (3, 7), (5, 4), (2, 11)])
def test_adaptive_windows_are_those_of_numpy(interpreter: Device, counts: tuple[int, int]) -> None:
    array = with_special_values((2, 1, 5, 9))
    got = tensor(array, device=interpreter).adaptive_max_pool_with_indices(counts)
    want = tensor(array).adaptive_max_pool_with_indices(counts)

    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g.numpy(), w.numpy())


def test_more_adaptive_windows_than_indices_can_tell_apart_are_refused() -> None:
    with pytest.raises(DeviceError, match="requires output_size <= 46340 along each axis"):
        covering("adaptive_max_pool", (100_000,), (50_000,))


@pytest.mark.parametrize("axes", [(0, 1, 3, 2), (2, 3, 0, 1), (3, 1, 2, 0)])
def test_the_layout_of_an_image_does_not_matter(interpreter: Device, axes: tuple[int, ...]) -> None:
    array = np.random.default_rng(3).normal(size=(3, 4, 5, 6)).astype(np.float32)
    turned, want = (tensor(array, device=d).permute_dims(axes) for d in (interpreter, "numpy"))

    np.testing.assert_array_equal(
        turned.flip(3).max_pool(2).numpy(), want.flip(3).max_pool(2).numpy()
    )


def test_a_window_that_is_the_whole_image_has_its_mean(
    interpreter: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "strict", True)
    array = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    x = tensor(array, device=interpreter)

    np.testing.assert_allclose(x.adaptive_avg_pool(1).numpy(), array.mean((2, 3), keepdims=True))
