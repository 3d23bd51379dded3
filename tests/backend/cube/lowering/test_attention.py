"""Attention as one kernel: sizes beside tiles, every option, layout and dtype, judged by NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.autodiff import grad
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.skeleton.attention import config as choice
from pyrite.backend.cube.skeleton.attention import tile_config
from pyrite.backend.cube.skeleton.attention.config import LaneConfig
from pyrite.backend.cube.skeleton.attention.workgroup import TileConfig
from pyrite.backend.device import Device
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing.layouts import LAYOUTS
from pyrite.types import Array, bfloat16, float16, float32, float64

OP = "_scaled_dot_product_attention"
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 3e-6, "float64": 1e-12}
RNG = np.random.default_rng(0)

#: Registers of 16 bytes: tiles of 4, 8 and 12 queries, which meet 32 keys or more at once.
SMALL = Machine.cpu(16, 16)


pytest.importorskip("llvmlite")


@pytest.fixture(scope="module", params=["cpu", "gpu"])
def small(request: pytest.FixtureRequest) -> Device:
    """The interpreter, which checks every access, as a processor of short vectors or a GPU."""
    machine = SMALL if request.param == "cpu" else Machine.gpu()
    return Device(CubeBackend(InterpreterRuntime(machine)))


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def allowed(*shape: int) -> Array:
    """A mask of which some rows have no key."""
    mask = RNG.random(shape) < 0.6
    mask[..., 0, :] = False
    return mask


def words(*shape: int) -> Array:
    return RNG.integers(0, 2**32, shape, dtype=np.uint32)


Heads = tuple[tuple[int, ...], tuple[int, ...]]


def inputs(heads: Heads, queries: int, keys: int, size: int, value_size: int) -> list[Any]:
    """Query, key and value; the heads of queries and of keys are given with their batch."""
    of_queries, of_keys = heads
    return [
        normal(*of_queries, queries, size), normal(*of_keys, keys, size),
        normal(*of_keys, keys, value_size),
    ]  # fmt: skip


def attend(given: list[Any], **attrs: Any) -> list[Array]:
    first, *rest = given
    return [x.numpy() for x in getattr(first, OP)(*rest, **attrs)]


def agree(device: Any, given: list[Any], dtype: Any = float32, **attrs: Any) -> None:
    """Compare with NumPy; arrays of floats are rounded to a dtype first."""
    cast = [
        g.astype(dtype.numpy) if isinstance(g, np.ndarray) and g.dtype == np.float32 else g
        for g in given
    ]
    got, want = (
        attend([g if g is None else tensor(g, device=on) for g in cast], **attrs)
        for on in (device, "numpy")
    )
    assert_close(got, want)


def assert_close(got: list[Array], want: list[Array]) -> None:
    for x, y in zip(got, want, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        limit = TOLERANCE[x.dtype.name]
        np.testing.assert_allclose(
            x.astype(np.float64), y.astype(np.float64), rtol=limit, atol=limit
        )


ONE: Heads = ((), ())
TWO: Heads = ((2,), (2,))
BATCH: Heads = ((2, 3), (2, 3))
GROUPED: Heads = ((2, 6), (2, 2))


@pytest.mark.sample(3)
@pytest.mark.parametrize("queries", [1, 3, 64, 65, 130])
@pytest.mark.parametrize("keys", [1, 5, 96, 97, 200])
@pytest.mark.parametrize("is_causal", [False, True])
def test_sizes_beside_tiles(queries: int, keys: int, is_causal: bool) -> None:
    agree("cpu", [*inputs(TWO, queries, keys, 8, 7), None, None, None], is_causal=is_causal)


@pytest.mark.sample(2)
@pytest.mark.parametrize("heads", [ONE, TWO, BATCH, GROUPED, ((6,), (1,))])
@pytest.mark.parametrize("queries", [2, 70])
def test_heads_and_groups(heads: Heads, queries: int) -> None:
    given = inputs(heads, queries, 40, 16, 3)
    scores = (*heads[0], queries, 40)
    agree("cpu", [*given, None, None, None])
    agree("cpu", [*given, allowed(*scores), normal(*scores), None], is_causal=True)
    agree("cpu", [*given, allowed(queries, 40), normal(40), words(2)], dropout_p=0.4)


def options(queries: int, keys: int) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """What may be said of the scores of 6 heads."""
    shape = (6, queries, keys)
    yield [None, None, None], {}
    yield [None, None, None], {"is_causal": True, "softcap": 1.5, "scale": 2.0}
    yield [allowed(*shape), normal(*shape), None], {}
    yield [allowed(queries, keys), normal(6, 1, 1), None], {"is_causal": True}
    yield [allowed(1, keys), normal(6, 1, keys), words(2)], {"dropout_p": 0.3}
    yield [None, None, words(2)], {"dropout_p": 1.0, "is_causal": True}
    yield [None, None, words(2)], {"dropout_p": 0.0}


@pytest.mark.parametrize("queries", [1, 13])
def test_every_option_leaves_no_operand(small: Device, queries: int) -> None:
    given = inputs(((6,), (2,)), queries, 29, 5, 6)
    for said, attrs in options(queries, 29):
        agree(small, [*given, *said], **attrs)


def configs() -> list[LaneConfig]:
    """Those of the interpreter's processor, and shapes of a larger one."""
    return [
        LaneConfig(rows, vectors, 4, blocks * rows)
        for rows, vectors in ((6, 1), (6, 2), (4, 3), (6, 4))
        for blocks in (1, 8)
    ]


@pytest.mark.sample(2)
@pytest.mark.parametrize("config", configs(), ids=str)
def test_every_config(config: LaneConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "select", lambda problem, machine: config)
    with_config(SMALL)


@pytest.mark.sample(2)
@pytest.mark.parametrize("config", tile_config.CONFIGS, ids=str)
def test_every_config_of_a_gpu(config: TileConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_config, "select", lambda found, *_: config)
    with_config(Machine.gpu(1 << 16))


def test_a_gpu_that_is_not_filled_has_more_invocations_for_a_tile() -> None:
    machine = Machine.gpu(48 << 10, 1024)
    few, many = (tile_config.select(tile_config.CONFIGS, 128, n, machine) for n in (32, 96))
    assert (few.rows, few.threads) == (64, 256)
    assert (many.rows, many.threads) == (64, 128)
    assert tile_config.select(tile_config.CONFIGS, 3, 1, machine).rows == 16


def with_config(machine: Machine) -> None:
    """Compare tiles that are whole, and parts, with a row without a key."""
    fresh = Device(CubeBackend(InterpreterRuntime(machine)))
    given = [*inputs(TWO, 18, 71, 5, 7), allowed(18, 71), None, None]
    agree(fresh, given, is_causal=False)
    assert fresh.backend.launcher.built == 1


@pytest.mark.parametrize("machine", [SMALL, Machine.gpu()], ids=lambda m: m.kind)
def test_words_of_scores_are_drawn_in_the_kernel_itself(machine: Machine) -> None:
    fresh = Device(CubeBackend(InterpreterRuntime(machine)))
    agree(fresh, [*inputs(TWO, 18, 37, 5, 7), None, None, words(2)], dropout_p=0.3)
    assert fresh.backend.launcher.built == 1


def test_words_of_a_draw_in_vectors_of_two() -> None:
    """A vector of float64 in 16 bytes: its first key may lie in the midst of a counter."""
    device = Device(CubeBackend(InterpreterRuntime(SMALL)))
    given = [*inputs(((6,), (3,)), 13, 35, 5, 6), None, None, words(2)]
    agree(device, given, float64, dropout_p=0.5)


@pytest.mark.parametrize("dtype", [float64, float16, bfloat16], ids=lambda d: d.name)
def test_all_dtypes(dtype: Any) -> None:
    said = [allowed(6, 20, 50), normal(20, 50), words(2)]
    agree("cpu", [*inputs(((6,), (3,)), 20, 50, 12, 9), *said], dtype, dropout_p=0.3, softcap=2.0)


@pytest.mark.sample(3)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=str)
def test_operands_lie_anyhow(layout: Any) -> None:
    arrays = [*inputs(GROUPED, 9, 33, 6, 5), allowed(6, 9, 33), normal(6, 9, 33)]
    arrays.append(words(2))
    settled = [layout.settled(a) for a in arrays]
    laid = [layout(a, "cpu") if layout.applies(a.shape) else tensor(a, device="cpu")
            for a in settled]  # fmt: skip
    attrs = {"dropout_p": 0.2, "is_causal": True}
    want = attend([tensor(a, device="numpy") for a in settled], **attrs)
    assert_close(attend(laid, **attrs), want)


def broadcast(*shape: int) -> Tensor:
    """Return elements that share one place along the last axis but one."""
    *heads, _, columns = shape
    return tensor(normal(*heads, 1, columns), device="cpu").broadcast_to(shape)


def test_rows_that_are_one_row() -> None:
    q, k, v = broadcast(3, 70, 8), broadcast(3, 20, 8), broadcast(3, 20, 4)
    want = attend([tensor(x.numpy(), device="numpy") for x in (q, k, v)] + [None] * 3)
    assert_close(attend([q, k, v, None, None, None]), want)


def test_the_running_maximum_rises_and_falls_over_many_blocks() -> None:
    """Scores grow along the keys, or fall, by far more than the range of float32's exponents."""
    for sign in (1.0, -1.0):
        q = np.full((70, 1), sign, np.float32)
        k = np.linspace(-300, 300, 500, dtype=np.float32)[:, None]
        agree("cpu", [q, k, normal(500, 3), None, None, None], scale=1.0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_what_is_not_finite(which: int, value: float) -> None:
    given = inputs(ONE, 5, 120, 4, 4)
    given[which][3, 1] = value
    with np.errstate(all="ignore"):
        agree("cpu", [*given, allowed(5, 120), None, None])
        if which < 2:
            agree("cpu", [*given, None, None, None], is_causal=True)


def test_a_bias_of_infinities() -> None:
    bias = np.zeros((4, 100), np.float32)
    bias[0], bias[1, 50], bias[2, 7:] = -np.inf, np.inf, -np.inf
    with np.errstate(all="ignore"):
        agree("cpu", [*inputs(ONE, 4, 100, 4, 4), None, bias, None])


@pytest.mark.parametrize("machine", [SMALL, Machine.gpu()], ids=lambda m: m.kind)
def test_attention_is_one_kernel_for_many_lengths(machine: Machine) -> None:
    backend = CubeBackend(InterpreterRuntime(machine))
    device = Device(backend)
    for queries, keys in ((20, 36), (24, 40), (28, 52), (20, 60)):
        given = inputs(BATCH, queries, keys, 4, 4)
        agree(device, [*given, allowed(queries, keys), None, None], is_causal=True)
    assert backend.launcher.built == 1


@pytest.mark.parametrize("heads", [1, 3])
def test_heads_that_were_cut_from_features_are_joined_without_copies(heads: int) -> None:
    given = [normal(2, 20, heads * 4) for _ in range(4)]

    def mixed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.reshape((2, 20, heads, 4)).swapaxes(1, 2) for x in (q, k, v))
        found: Tensor = q.scaled_dot_product_attention(k, v, is_causal=True)
        return found.swapaxes(1, 2).reshape((2, 20, heads * 4))

    def results(on: str) -> list[Array]:
        *inputs, g = (tensor(x, device=on) for x in given)
        found = [mixed(*inputs), *grad(lambda *x: (mixed(*x) * g).sum(), (0, 1, 2))(*inputs)]
        return [x.numpy() for x in found]

    with pyrite.explain() as seen:
        got = results("cpu")
    # Attention twice, two of the loss, three of its gradient, and of attention's two and a copy:
    # gradients of queries, to which each tile adds, lie by heads.  Equal kernels share a name.
    assert len(seen.launched) <= 10, [x.kernel.name for x in seen.launched]
    for found, want in zip(got, results("numpy"), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_a_head_for_which_no_tile_can_be_kept_runs_by_the_body() -> None:
    agree("cpu", [*inputs(ONE, 3, 5, 3000, 2), None, None, None])
