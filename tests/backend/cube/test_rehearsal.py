"""Rehearsals: a size that comes finds its kernels, and gets the results it would have had."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.cube import CubeBackend, rehearsal
from pyrite.backend.cube import ahead as module
from pyrite.backend.cube.rehearsal import (
    gaps_of,
    kind_of,
    order_of,
    resized,
    resized_shape,
)
from pyrite.backend.cube.resizings import resizings, short_resizings
from pyrite.backend.cube.tensor import CubeTensor, unstored
from pyrite.backend.device import Device
from pyrite.config import config
from pyrite.kernel.machine import Machine
from pyrite.op import OPS
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.types import TensorType, float32


@pytest.fixture(autouse=True)
def _on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "ahead", True)
    monkeypatch.setattr(module, "PAUSE", 0.0)


Call = Callable[..., pyrite.Tensor]

#: Ops whose kernels differ by classes of sizes, with the shapes that come one after the other.
CASES: dict[str, tuple[Call, list[tuple[tuple[int, ...], ...]]]] = {
    "product": (
        lambda x, y: x @ y,
        [((5, 9), (9, 7)), ((1, 9), (9, 7)), ((33, 40), (40, 19)), ((3, 6), (6, 65))],
    ),
    "sum": (lambda x: x.sum(axis=-1), [((5, 9),), ((1, 9),), ((40, 3),), ((2, 300),)]),
    "softmax": (lambda x: x.softmax(), [((5, 9),), ((1, 9),), ((40, 17),), ((2, 130),)]),
    "layer norm": (
        lambda x, w: x.layer_norm(w, w),
        [((5, 9), (9,)), ((40, 17), (17,)), ((1, 9), (9,)), ((3, 130), (130,))],
    ),
    "take": (
        lambda x, i: x.take(i.astype("int32"), axis=0),
        [((5, 9), (4,)), ((9, 6), (3,)), ((40, 28), (20,)), ((6, 8), (3,))],
    ),
    "elementwise": (
        lambda x, y: (x + y).exp(),
        [((5, 9), (9,)), ((1, 9), (9,)), ((30, 64), (64,))],
    ),
    "pool": (
        lambda x: x.avg_pool(kernel_size=2, padding=1),
        [((1, 2, 6, 7),), ((3, 2, 7, 6),), ((2, 2, 8, 8),)],
    ),
    "stretched": (
        lambda x, y: x.broadcast_to((3, *x.shape)) * y,
        [((5, 16), (3, 5, 16)), ((4, 9), (3, 4, 9)), ((2, 48), (3, 2, 48))],
    ),
    "additions at indices": (
        lambda x, more: x.at[pyrite.arange(2, device=x.device)].add(more),
        [((5, 9), (2, 9)), ((8, 16), (2, 16)), ((7, 11), (2, 11))],
    ),
    "band": (lambda x: x.tril(1), [((5, 9),), ((12, 7),), ((40, 33),)]),
    "windows": (
        lambda x: x.unfold4d(3, padding=1),
        [((2, 3, 9, 10),), ((4, 3, 8, 21),), ((5, 3, 16, 16),)],
    ),
    "slices": (
        lambda x, more: x.at[1 : 1 + more.shape[0], 2:].set(more),
        [((9, 10), (3, 8)), ((20, 7), (6, 5)), ((12, 66), (5, 64))],
    ),
    "rolled": (lambda x: x.roll(3, -1), [((5, 9),), ((4, 16),), ((3, 70),), ((9, 23),)]),
    "scattered": (
        lambda x, i, more: x.scatter(0, i.astype("int32"), more, reduction="add"),
        [((9, 5), (3, 5), (3, 5)), ((40, 6), (7, 6), (7, 6)), ((6, 30), (20, 30), (20, 30))],
    ),
    "transposed convolution": (
        lambda x, w, b: x.conv_transpose2d(w, b, stride=2),
        [((3, 2, 4, 4), (2, 3, 2, 2), (3,)), ((2, 2, 5, 7), (2, 3, 2, 2), (3,))],
    ),
    "gradient of patches": (
        lambda x, w: pyrite.grad(lambda x: x.conv2d(w, stride=8).square().sum())(x),
        [
            ((2, 2, 17, 25), (6, 2, 8, 8)), ((3, 2, 9, 17), (6, 2, 8, 8)),
            ((2, 2, 20, 14), (6, 2, 8, 8)),
        ],
    ),
}  # fmt: skip


#: On GPUs these make kernels for tiles, or wait for what others write.
OF_PROCESSORS = {
    "product",
    "sum",
    "take",
    "transposed convolution",
    "gradient of patches",
    "rolled",
}
ON = [
    *[(name, Machine.cpu(16, 32)) for name in CASES],
    *[(name, Machine.gpu()) for name in CASES if name not in OF_PROCESSORS],
]


@pytest.mark.sample(10)
@pytest.mark.parametrize(("name", "machine"), ON, ids=[f"{n} {m.kind}" for n, m in ON])
def test_other_sizes_find_their_kernels(name: str, machine: Machine) -> None:
    call, sizes = CASES[name]
    backend = CubeBackend(InterpreterRuntime(machine))
    device = Device(backend)
    random = np.random.default_rng(0)
    built = []
    for shapes in sizes:
        arrays = [random.integers(0, 3, shape).astype("float32") for shape in shapes]
        before = backend.launcher.kernels
        found, wanted = (
            call(*(pyrite.tensor(a, device=on) for a in arrays)) for on in (device, "numpy")
        )
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
        built.append(backend.launcher.kernels - before)
        backend.launcher.ahead.finish()
    backend.launcher.ahead.stop()

    first, *others = built
    assert first > 0
    assert others == [0] * len(others)


def test_a_gpu_s_rows_of_all_lengths_find_their_kernels() -> None:
    """Their lanes, registers and vectors differ by magnitudes and by multiples of 2 and 4."""
    backend = CubeBackend(InterpreterRuntime())
    pyrite.tensor(np.ones((5, 9), np.float32), device=Device(backend)).softmax().numpy()
    backend.launcher.ahead.finish()
    before = backend.launcher.kernels

    for length in (241, 17, 581, 66, 130, 44, 100, 300, 64, 512):
        x = pyrite.tensor(np.ones((2, length), np.float32), device=Device(backend))
        np.testing.assert_allclose(x.softmax().numpy(), np.full((2, length), 1 / length), rtol=1e-5)
    built = backend.launcher.kernels - before
    backend.launcher.ahead.stop()

    assert built == 0


def test_no_size_of_a_rehearsal_comes_first() -> None:
    """The kernels with built-in sizes, and so the order of sums, are those without rehearsals."""
    built = []
    for is_ahead in (True, False):
        config.ahead = is_ahead
        backend = CubeBackend(InterpreterRuntime(Machine.cpu(16, 32)))
        device = Device(backend)
        compiled: list[str] = []
        for sizes in ((9, 10), (1, 10), (12, 7)):
            x = pyrite.ones((2, 2, *sizes), device=device)
            weight = pyrite.ones((4, 2, 3, 3), device=device)
            x.conv2d(weight, None, padding=1, stride=2).numpy()
            compiled.append(str(sorted(map(str, backend.launcher._firsts.young.items()))))
            backend.launcher.ahead.finish()
        backend.launcher.ahead.stop()
        built.append(compiled)

    assert built[0] == built[1]


def test_an_application_s_body_is_run_by_no_other_thread() -> None:
    @pyrite.composite()
    def halved_in_a_test(x: pyrite.Tensor) -> pyrite.Tensor:
        return x * 0.5

    given = [unstored(TensorType((3, 4), float32))]
    own = halved_in_a_test.op  # type: ignore[attr-defined]

    assert kind_of(OPS["softmax"], given, {"axis": -1}) is not None
    assert kind_of(own, given, {}) is None


@pytest.mark.parametrize(
    ("strides", "order", "gaps"),
    [
        ((4, 1), (0, 1), (0, 0, 0)), ((1, 3), (1, 0), (0, 0, 0)), ((0, 1), (-1, 1), (0, 0, 0)),
        ((1, 0), (-2, 0), (0, 0, 0)), ((0, 0), (-1, -2), (0, 0, 0)), ((8, 1), (0, 1), (0, 4, 0)),
        ((0, 2), (-1, 1), (0, 0, 1)), ((2, 8), (1, 0), (1, 0, 1)), ((24, 3), (0, 1), (0, 4, 2)),
    ],
)  # fmt: skip
def test_layouts_keep_the_order_of_their_axes_and_the_gaps_behind_them(
    strides: tuple[int, int], order: tuple[int, ...], gaps: tuple[int, ...]
) -> None:
    x = CubeTensor(None, TensorType((3, 4), float32), strides)  # type: ignore[arg-type]
    other = resized(x, (5, 7))

    for shape, of in (((3, 4), strides), ((5, 7), other.strides)):
        assert (order_of(shape, of), gaps_of(shape, of)) == (order, gaps)


def test_what_lies_turned_round_is_not_rehearsed() -> None:
    x = CubeTensor(None, TensorType((3, 4), float32), (-4, 1), 8)  # type: ignore[arg-type]

    assert kind_of(OPS["exp"], [x], {}) is None


def test_calls_whose_shapes_are_among_the_attributes_are_of_one_kind() -> None:
    op, kinds = OPS["slice_update"], set()
    for m, n, k in ((9, 7, 3), (40, 6, 5)):
        given = [unstored(TensorType(shape, float32)) for shape in ((m, n), (k, 2))]
        attrs = {"shape": (m, n), "start": (0, 1), "size": (k, 2), "step": (1, 1)}
        kinds.add(kind_of(op, given, attrs))

    assert len(kinds) == 1


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "changes"),
    [
        (
            "slice_update", [(9, 300), (2, 3)],
            {"shape": (9, 300), "start": (0, 3), "size": (2, 3), "step": (1, 1)},
            {"start": (0, 7)},
        ),
        (
            "convolution_input_gradient", [(2, 8, 5, 6), (8, 3, 3, 3)],
            {"sizes": (10, 12), "stride": (2, 2), "padding": ((1, 1), (1, 1)),
             "dilation": (1, 1), "groups": 1},
            {"sizes": (9, 11)},
        ),
        ("random_bits", [], {"shape": (4, 6)}, {"shape": (100, 3)}),
    ],
)  # fmt: skip
def test_sizes_and_places_among_the_attributes_make_no_other_kind(
    name: str, shapes: Sequence[Sequence[int]], attrs: dict[str, Any], changes: dict[str, Any]
) -> None:
    given = [unstored(TensorType(tuple(shape), float32)) for shape in shapes]
    kind = kind_of(OPS[name], given, attrs)
    assert kind is not None
    assert kind_of(OPS[name], given, {**attrs, **changes}) == kind
    assert kind_of(OPS[name], given, {**attrs, **dict.fromkeys(changes, (0, 1))}) != kind


def test_a_size_that_is_a_number_of_the_attributes_by_chance_makes_no_other_kind() -> None:
    op = OPS["convolution_input_gradient"]
    attrs = {"sizes": (10, 12), "stride": (2, 2), "padding": ((1, 1), (1, 1)), "groups": 1}
    kinds = {
        kind_of(op, [unstored(TensorType((batch, 8, 5, 6), float32))], attrs) for batch in (2, 4)
    }
    assert len(kinds) == 1


@pytest.mark.parametrize("start", [5, 30, 200])
def test_places_of_a_second_update_compile_nothing(start: int) -> None:
    backend = CubeBackend(InterpreterRuntime(Machine.cpu()))
    cache = pyrite.tensor(np.zeros((2, 256, 8), "float32"), device=Device(backend))
    for n in (2, start):
        before = backend.launcher.kernels
        cache = cache.at[:, n : n + 3].set(float(n))
        found = backend.launcher.kernels
        backend.launcher.ahead.finish()
    backend.launcher.ahead.stop()
    want = np.zeros((2, 256, 8), "float32")
    want[:, 2:5], want[:, start : start + 3] = 2, start
    np.testing.assert_array_equal(cache.numpy(), want)
    assert found == before


def test_sizes_that_kernels_have_built_in_stay() -> None:
    x = unstored(TensorType((1, 4, 9, 32), float32))

    assert all(32 not in others for others in resizings([x], {32}))
    assert any(others.get(1, 1) > 1 for others in resizings([x], {32}))


def test_a_batch_of_one_becomes_several_where_a_length_alone_differs() -> None:
    x = unstored(TensorType((1, 4, 9, 32), float32))

    found = [others for others in resizings([x], {32}) if others.keys() == {1, 9}]

    assert any(others[1] in (2, 3) and others[9] > 64 for others in found)


def test_each_size_meets_every_magnitude_and_multiple() -> None:
    x, weight = (unstored(TensorType(shape, float32)) for shape in ((3, 7, 50), (20, 50)))
    wanted = {(of, bits) for of in (1, 2, 4) for bits in range(3, 11)}

    for size in (7, 50):
        met = [others[size] for others in resizings([x, weight], ()) if size in others]
        assert wanted <= {(n & -n, n.bit_length()) for n in met}
    # Those of the first operand alone, too: a model's weights stay.
    alone = [others[7] for others in resizings([x, weight], ()) if others.keys() == {3, 7}]
    assert wanted <= {(n & -n, n.bit_length()) for n in alone}


def test_mixtures_come_in_batches_of_one_too() -> None:
    x = unstored(TensorType((3, 9, 32), float32))

    assert any(
        others[3] == 1 < others[9] != 9 for others in resizings([x], {32}) if len(others) > 1
    )


def test_equal_sizes_remain_equal() -> None:
    x, y = (unstored(TensorType(shape, float32)) for shape in ((5, 9), (9, 5)))

    for others in resizings([x, y], ()):
        assert set(others) <= {5, 9}


def test_each_size_differs_alone_too_also_in_a_batch_of_one() -> None:
    x = unstored(TensorType((3, 9, 32), float32))

    found = [*resizings([x], {32})]
    alone = [others[9] for others in found if others.keys() == {9}]
    of_one = [others[9] for others in found if others.keys() == {3, 9} and others[3] == 1]
    for lengths in (alone, of_one):
        assert {n.bit_length() for n in lengths} >= set(range(3, 11))


def test_sizes_are_short_together_where_they_are_free() -> None:
    x, weight = (unstored(TensorType(shape, float32)) for shape in ((5, 9, 32), (32,)))

    both = [(others[5], others[9]) for others in short_resizings([x, weight], [5, 9, 32])]
    assert len(set(both)) > 100
    assert all(2 <= n <= 32 for sizes in both for n in sizes)
    # Of one that is free alone there are no mixtures; of weights' there are where no others are.
    assert not [*short_resizings([x, weight], [5])]
    assert all(others.keys() == {9, 32} for others in short_resizings([x, weight], [9, 32]))


@pytest.mark.parametrize(("machine"), [Machine.cpu(16, 32), Machine.gpu(32768, 1024)])
def test_a_layer_over_sequences_is_rehearsed_at_lengths_and_batches_together(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its states have the batch too, and no other size of it changes alone."""
    shapes: set[tuple[int, ...]] = set()
    run = rehearsal._run
    monkeypatch.setattr(
        rehearsal, "_run", lambda *given: (shapes.add(given[3][0].shape), run(*given))[1]
    )
    backend = CubeBackend(InterpreterRuntime(machine))
    device = Device(backend)
    x, state = pyrite.ones((6, 3, 8), device=device), pyrite.ones((3, 8), device=device)
    weight, bias = pyrite.ones((8, 8), device=device), pyrite.ones((8,), device=device)
    x._rnn(weight, weight, bias, bias, state)
    backend.launcher.ahead.finish()
    backend.launcher.ahead.stop()

    assert len({shape for shape in shapes if shape[0] != 6 and shape[1] != 3}) > 50


def test_the_words_of_a_draw_are_two_at_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else most of dropout's rehearsals ask for a key of another length, which is an error."""
    shapes: list[tuple[int, ...]] = []

    def note(
        launcher: object, choose: object, op: object, inputs: Sequence[Any], _: object
    ) -> None:
        shapes.append(inputs[-1].shape)

    monkeypatch.setattr(rehearsal, "_run", note)
    backend = CubeBackend(InterpreterRuntime(Machine.cpu(16, 32)))
    device = Device(backend)
    q = pyrite.ones((5, 3, 17, 4), device=device)
    key = pyrite.tensor(np.array([1, 2], np.uint32), device=device)
    q._scaled_dot_product_attention(q, q, None, None, key, dropout_p=0.5)
    backend.launcher.ahead.finish()
    backend.launcher.ahead.stop()

    assert set(shapes) == {(2,)}


def test_a_batch_changes_alone_where_heads_are_as_many() -> None:
    x, mask = (unstored(TensorType(shape, float32)) for shape in ((4, 4, 9, 32), (4, 9)))
    found = [*resizings([x, mask], {32})]

    shapes = {resized_shape(x.shape, others) for others in found}
    assert {(n, 4, 9, 32) for n in (1, 3, 16)} <= shapes
    assert any(batch == 1 < heads != 4 and length != 9 for batch, heads, length, _ in shapes)
    assert all(resized_shape((1, 9), others)[0] == 1 for others in found if 1 not in others)
