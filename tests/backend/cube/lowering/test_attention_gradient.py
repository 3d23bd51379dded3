"""Gradients of attention as kernels: sizes beside tiles, options, layouts, judged by NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.lowering import attention
from pyrite.backend.cube.skeleton.attention import config as choice
from pyrite.backend.cube.skeleton.attention import tile_config
from pyrite.backend.cube.skeleton.attention.config import GradientConfig
from pyrite.backend.cube.skeleton.attention.workgroup import TileConfig
from pyrite.backend.device import Device
from pyrite.kernel.template.product import BEHIND
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing.layouts import LAYOUTS
from pyrite.types import Array, bfloat16, float16, float32, float64

pytest.importorskip("llvmlite")

OP = "_scaled_dot_product_attention"
TOLERANCE = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 2e-5, "float64": 1e-12}
RNG = np.random.default_rng(0)
#: Registers of 16 bytes: tiles of 4 to 12 keys, which meet few queries at once.
SMALL = Machine.cpu(16, 16)
PLAIN = {"is_causal": False, "scale": 0.4, "softcap": None, "dropout_p": 0.0}


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


def inputs(
    heads: tuple[int, ...], keys_heads: tuple[int, ...], queries: int, keys: int, size: int,
    value_size: int, said: Sequence[Any] = (None, None, None), **attrs: Any,
) -> list[Any]:  # fmt: skip
    """All inputs of the backward op, of which results and logsumexp are those of the forward op."""
    q, k, v = (
        normal(*heads, queries, size), normal(*keys_heads, keys, size),
        normal(*keys_heads, keys, value_size),
    )  # fmt: skip
    of = [q, k, v, *said]
    first, *rest = (x if x is None else tensor(x, device="numpy") for x in of)
    results = [x.numpy() for x in getattr(first, OP)(*rest, **{**PLAIN, **attrs})]
    return [normal(*results[0].shape), normal(*results[1].shape), *results, *of]


def gradients(given: Sequence[Any], argnums: Sequence[int], attrs: dict[str, Any]) -> list[Array]:
    first, *rest = given
    found = getattr(first, f"{OP}_backward")(*rest, argnums=tuple(argnums), **{**PLAIN, **attrs})
    return [x.numpy() for x in found]


def agree(
    device: Any, given: Sequence[Any], argnums: Sequence[int] = (0, 1, 2), dtype: Any = float32,
    **attrs: Any,
) -> None:  # fmt: skip
    """Compare with NumPy; floats other than logsumexp are rounded to a dtype first."""
    compute = dtype.compute.numpy
    cast = [
        g.astype(compute if n in (1, 3) else dtype.numpy)
        if isinstance(g, np.ndarray) and g.dtype == np.float32 else g
        for n, g in enumerate(given)
    ]  # fmt: skip
    got, want = (
        gradients([g if g is None else tensor(g, device=on) for g in cast], argnums, attrs)
        for on in (device, "numpy")
    )
    assert_close(got, want)


def assert_close(got: list[Array], want: list[Array]) -> None:
    for x, y in zip(got, want, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        limit = TOLERANCE[x.dtype.name]
        x, y = x.astype(np.float64), y.astype(np.float64)
        np.testing.assert_allclose(x, y, rtol=limit, atol=limit * max(1.0, np.abs(y).max()))


@pytest.mark.sample(2)
@pytest.mark.parametrize("queries", [1, 47, 48, 49, 130])
@pytest.mark.parametrize("keys", [1, 5, 64, 65, 200])
@pytest.mark.parametrize("is_causal", [False, True])
def test_sizes_beside_tiles(queries: int, keys: int, is_causal: bool) -> None:
    agree("cpu", inputs((2,), (2,), queries, keys, 8, 7), is_causal=is_causal)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("heads", "keys_heads"),
    [((), ()), ((2,), (2,)), ((2, 3), (2, 3)), ((2, 6), (2, 2)), ((6,), (1,)), ((5, 4), (5, 4))],
)
@pytest.mark.parametrize("queries", [2, 70])
def test_heads_and_groups(heads: Any, keys_heads: Any, queries: int) -> None:
    scores = (*heads, queries, 40)
    said = [allowed(*scores), normal(*scores), words(2)]
    attrs: dict[str, Any] = {"dropout_p": 0.4, "is_causal": True}
    agree("cpu", inputs(heads, keys_heads, queries, 40, 17, 3, said, **attrs), **attrs)


def options(queries: int, keys: int) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """What may be said of the scores of 6 heads."""
    shape = (6, queries, keys)
    yield [None, None, None], {"is_causal": True, "softcap": 1.5, "scale": 2.0}
    yield [allowed(*shape), normal(*shape), None], {"is_causal": True}
    yield [allowed(1, keys), None, words(2)], {"dropout_p": 0.3, "softcap": 2.0}
    yield [None, normal(6, 1, 1), words(2)], {"dropout_p": 1.0}


@pytest.mark.parametrize("queries", [1, 9])
def test_every_option_leaves_no_operand(small: Device, queries: int) -> None:
    for said, attrs in options(queries, 14):
        agree(small, inputs((6,), (2,), queries, 14, 5, 3, said, **attrs), **attrs)


@pytest.mark.parametrize("argnums", [(0,), (1,), (2,), (2, 0), (0, 1, 2, 4), (4,)])
def test_those_that_are_wanted(small: Device, argnums: tuple[int, ...]) -> None:
    said = [None, normal(3, 1, 9), None]
    agree(small, inputs((3,), (3,), 7, 9, 4, 5, said), argnums)


def configs() -> list[GradientConfig]:
    """Shapes of a small and of a larger processor, in one part or several."""
    return [
        GradientConfig(rows, vectors, 4, blocks * rows, parts)
        for rows, vectors in ((6, 1), (6, 2), (4, 3), (6, 4))
        for blocks, parts in ((1, 1), (4, 1), (2, 3))
    ]


@pytest.mark.sample(2)
@pytest.mark.parametrize("config", configs(), ids=str)
def test_every_config(config: GradientConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "select_gradient", lambda problem, machine: config)
    with_config(SMALL, 2 if config.parts == 1 else 3)


@pytest.mark.sample(2)
@pytest.mark.parametrize("config", tile_config.CONFIGS, ids=str)
def test_every_config_of_a_gpu(config: TileConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_config, "select", lambda found, *_: config)
    with_config(Machine.gpu(1 << 16, buffers=16), 3)


@pytest.mark.parametrize(
    ("heads", "keys_heads", "parts"),
    [((), (), 1), ((2, 3), (2, 3), 2), ((2, 4), (2, 2), 4), ((4,), (1,), 0)],
)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("kept", [1 << 27, 8000])
def test_gradients_of_queries_by_a_product(
    heads: Any, keys_heads: Any, parts: int, is_causal: bool, kept: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A GPU that is full keeps the cotangents of scores: all at once, or of a few heads."""
    monkeypatch.setattr(attention, "_TILE", 1)
    monkeypatch.setattr(attention, "_KEPT", kept)
    product = attention.multiply_into
    products = []

    def noted(*of: Any, is_lower: bool) -> None:
        products.append(of)
        product(*of, is_lower=is_lower)

    monkeypatch.setattr(attention, "multiply_into", noted)
    machine = Machine.gpu(1 << 15, buffers=16, workgroups=16)
    fresh = Device(CubeBackend(InterpreterRuntime(machine)))
    said = [allowed(18, 31), None, None]
    given = inputs(heads, keys_heads, 18, 31, 5, 7, said, is_causal=is_causal)
    agree(fresh, given, is_causal=is_causal)
    assert len(products) == (parts if kept == 8000 else 1)


@pytest.mark.parametrize("dropout_p", [0.0, 0.3])
@pytest.mark.parametrize("kept", [1 << 27, 8000])
@pytest.mark.parametrize(
    ("heads", "parts"), [((), 1), ((2, 3), 2), ((3, 5), 6)], ids=["one", "two", "six"]
)
def test_all_gradients_are_products_where_heads_are_long(
    heads: Any, parts: int, kept: int, dropout_p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draws of a part of the heads are those of the same heads among all."""
    products = long_heads(monkeypatch, kept)
    machine = Machine.gpu(1 << 15, buffers=16, workgroups=16 if dropout_p else 2)
    fresh = Device(CubeBackend(InterpreterRuntime(machine)))
    said = [allowed(18, 31), None, words(2) if dropout_p else None]
    given = inputs(heads, heads, 18, 31, 5, 7, said, dropout_p=dropout_p)
    agree(fresh, given, dropout_p=dropout_p)
    each = 1 if dropout_p else 3  # what draws keeps the cotangents alone
    assert len(products) == each * (parts if kept == 8000 else 1)


@pytest.mark.parametrize("argnums", [(0, 1), (0, 2), (1, 2), (0,), (2, 0, 1)])
def test_products_are_made_of_the_gradients_that_are_wanted(
    argnums: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    products = long_heads(monkeypatch)
    fresh = Device(CubeBackend(InterpreterRuntime(Machine.gpu(1 << 15, workgroups=2))))
    agree(fresh, inputs((3,), (3,), 7, 9, 4, 5), argnums)
    is_kept = 2 in argnums and 0 in argnums
    assert len(products) == (len(argnums) if is_kept else int(argnums == (0, 1)))


@pytest.mark.parametrize(
    "sizes", [(1, 1), (5, 64), (64, 65), (257, 3), (300, 70)], ids=lambda n: f"{n[0]}x{n[1]}"
)
@pytest.mark.parametrize("dtype", [float16, bfloat16, float32], ids=lambda d: d.name)
def test_what_is_kept_of_scores_of_any_sizes(
    sizes: tuple[int, int], dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_heads(monkeypatch)
    fresh = Device(CubeBackend(InterpreterRuntime(Machine.gpu(1 << 15, workgroups=2))))
    agree(fresh, inputs((2,), (2,), *sizes, 6, 3), dtype=dtype)


@pytest.mark.sample(2)
@pytest.mark.parametrize("config", tile_config.CONFIGS, ids=str)
def test_every_config_of_what_is_kept(config: TileConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    products = long_heads(monkeypatch)
    monkeypatch.setattr(tile_config, "select", lambda found, *_: config)
    fresh = Device(CubeBackend(InterpreterRuntime(Machine.gpu(1 << 16, buffers=16, workgroups=2))))
    agree(fresh, inputs((2,), (2,), 18, 31, 5, 7, [allowed(18, 31), None, None]))
    assert len(products) == 3


def long_heads(monkeypatch: pytest.MonkeyPatch, kept: int = 1 << 27) -> list[Any]:
    """Have all heads taken for long ones, and return a list of the products that come."""
    products: list[Any] = []
    product = attention.multiply_into

    def noted(*of: Any, **more: Any) -> None:
        products.append(of)
        product(*of, **more)

    for name, value in (("_TILE", 1), ("_LONG", 1), ("_KEPT", kept), ("multiply_into", noted)):
        monkeypatch.setattr(attention, name, value)
    return products


@pytest.mark.parametrize(("queries", "keys"), [(230, 250), (250, 210)])
def test_what_lies_far_above_the_diagonal_is_neither_written_nor_read(
    queries: int, keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "_TILE", 1)
    assert queries > BEHIND
    fresh = Device(CubeBackend(InterpreterRuntime(Machine.gpu(1 << 16, buffers=16, workgroups=2))))
    given = inputs((), (), queries, keys, 4, 4, is_causal=True)
    agree(fresh, given, is_causal=True)


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda d: d.name)
def test_gradients_of_queries_by_a_product_of_narrow_floats(
    dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "_TILE", 1)
    fresh = Device(CubeBackend(InterpreterRuntime(Machine.gpu(1 << 15, buffers=16, workgroups=2))))
    given = inputs((2, 2), (2, 2), 20, 36, 12, 8, [None, None, words(2)], dropout_p=0.3)
    agree(fresh, given, dtype=dtype, dropout_p=0.3)


def with_config(machine: Machine, kernels: int) -> None:
    """Compare tiles that are whole, and parts, with a row without a key."""
    fresh = Device(CubeBackend(InterpreterRuntime(machine)))
    said = [allowed(18, 31), None, None]
    agree(fresh, inputs((2,), (2,), 18, 31, 5, 7, said, is_causal=True), is_causal=True)
    assert fresh.backend.launcher.built == kernels


def test_the_parts_of_few_heads_are_the_same_for_any_number_of_threads() -> None:
    found = []
    given = inputs((2,), (2,), 40, 300, 8, 8)
    for threads in (1, 3):
        device = Device(CubeBackend(CpuRuntime(threads=threads)))
        found.append(gradients([g if g is None else tensor(g, device=device) for g in given],
                               (0, 1, 2), {}))  # fmt: skip
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_words_of_a_draw_in_vectors_of_two() -> None:
    """A vector of float64 in 16 bytes: its first key may lie in the midst of a counter."""
    device = Device(CubeBackend(InterpreterRuntime(SMALL)))
    given = inputs((6,), (3,), 13, 35, 5, 6, [None, None, words(2)], dropout_p=0.5)
    agree(device, given, dtype=float64, dropout_p=0.5)


@pytest.mark.parametrize("dtype", [float64, float16, bfloat16], ids=lambda d: d.name)
def test_all_dtypes(dtype: Any) -> None:
    said = [allowed(6, 20, 50), normal(20, 50), words(2)]
    attrs: dict[str, Any] = {"dropout_p": 0.3, "softcap": 2.0}
    given = inputs((6,), (3,), 20, 50, 12, 9, said, **attrs)
    agree("cpu", given, dtype=dtype, **attrs)


@pytest.mark.sample(2)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=str)
def test_operands_and_cotangents_lie_anyhow(layout: Any) -> None:
    attrs: dict[str, Any] = {"dropout_p": 0.2, "is_causal": True}
    said = [allowed(6, 9, 33), normal(6, 9, 33), words(2)]
    arrays = [layout.settled(a) for a in inputs((2, 6), (2, 2), 9, 33, 6, 5, said, **attrs)]
    laid = [
        layout(a, "cpu") if layout.applies(a.shape) else tensor(a, device="cpu") for a in arrays
    ]
    want = gradients([tensor(a, device="numpy") for a in arrays], (0, 1, 2), attrs)
    assert_close(gradients(laid, (0, 1, 2), attrs), want)


def test_a_cotangent_that_is_one_number() -> None:
    """That of a sum, whose elements share one place, on all axes."""
    q, k, v = normal(2, 70, 8), normal(2, 50, 8), normal(2, 50, 4)

    def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return q.scaled_dot_product_attention(k, v, is_causal=True).sum()

    got, want = (
        [g.numpy() for g in grad(loss, (0, 1, 2))(*(tensor(x, device=on) for x in (q, k, v)))]
        for on in ("cpu", "numpy")
    )
    assert_close(got, want)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("which", [4, 5, 6, 0])
def test_what_is_not_finite(which: int, value: float) -> None:
    with np.errstate(all="ignore"):
        given = inputs((), (), 5, 70, 4, 4, [allowed(5, 70), None, None])
        given[which][3, 1] = value
        agree("cpu", given)


def differences(loss: Any, arrays: list[Array], step: float = 1e-6) -> list[Array]:
    """Return the gradients by central differences, element by element."""
    found = []
    for n, array in enumerate(arrays):
        slope = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = [a.copy() for a in arrays]
                moved[n][place] += sign * step
                ends.append(float(loss(*(tensor(a, device="cpu") for a in moved)).item()))
            slope[place] = (ends[0] - ends[1]) / (2 * step)
        found.append(slope)
    return found


def test_gradients_are_those_of_differences_and_so_are_second_ones() -> None:
    arrays = [RNG.standard_normal(s) for s in ((4, 3, 2), (2, 5, 2), (2, 5, 3))]
    mask = tensor(allowed(3, 5), device="cpu")
    draw = tensor(words(2), device="cpu")

    def loss(*inputs: Tensor) -> Any:
        out = inputs[0].scaled_dot_product_attention(
            *inputs[1:], mask, softcap=2.0, dropout_p=0.3, dropout_key=draw
        )
        return (out**3).sum()

    def slope(*inputs: Tensor) -> Any:
        return sum((g**2).sum() for g in grad(loss, (0, 1, 2))(*inputs))

    for function, tolerance in ((loss, 1e-7), (slope, 1e-5)):
        found = grad(function, (0, 1, 2))(*(tensor(a, device="cpu") for a in arrays))
        for got, want in zip(found, differences(function, arrays), strict=True):
            np.testing.assert_allclose(got.numpy(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("machine", "kernels"), [(SMALL, 2), (Machine.gpu(buffers=16), 3)])
def test_gradients_are_few_kernels_for_many_lengths(machine: Machine, kernels: int) -> None:
    backend = CubeBackend(InterpreterRuntime(machine))
    device = Device(backend)
    for queries, keys in ((20, 36), (24, 40), (28, 52), (20, 60)):
        said = [allowed(queries, keys), None, None]
        agree(device, inputs((3, 3), (3, 3), queries, keys, 4, 4, said), is_causal=True)
    assert backend.launcher.built == kernels
