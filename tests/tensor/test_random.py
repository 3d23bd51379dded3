"""Random numbers: known bits, moments, and independence of everything but seed, stream and draw."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.device import device_names, device_problem
from pyrite.errors import ArgumentError, DTypeError
from pyrite.philox import philox4x32
from pyrite.tensor.creation import ones, tensor, zeros
from pyrite.tensor.random import (
    bernoulli,
    bernoulli_like,
    categorical,
    multinomial,
    normal,
    normal_like,
    permutation,
    randint,
    randint_like,
    random_bits,
    shuffle,
    uniform,
    uniform_like,
)
from pyrite.tensor.stream import random_state, random_stream, replaying_draws, set_random_state

N = 20_000


def drawn(function: Any, *args: Any, seed: int = 0, **kwargs: Any) -> np.ndarray:
    with random_stream(seed):
        return np.asarray(function(*args, **kwargs))


# ---- words ----


def test_words_are_those_of_philox_at_the_counter_of_stream_and_draw() -> None:
    with random_stream(5 + (7 << 32)):
        random_bits((2,))
        second = random_bits((6,)).numpy()
    counters = np.array([[0, 0, 1, 0], [1, 0, 1, 0]], np.uint32)
    np.testing.assert_array_equal(second, philox4x32(counters, (5, 7)).reshape(-1)[:6])


def test_a_draw_does_not_depend_on_its_shape_or_on_how_much_was_drawn_before() -> None:
    with random_stream(3):
        random_bits((1,))
        short = random_bits((3,)).numpy()
    with random_stream(3):
        random_bits((1000,))
        long = random_bits((3, 5)).numpy()
    np.testing.assert_array_equal(short, long.reshape(-1)[:3])


@pytest.mark.parametrize("shape", [(), (1,), (0,), (5,), (3, 7), (1, 1), (2, 3, 40)])
def test_words_are_the_same_on_a_processor_whatever_the_shape(shape: tuple[int, ...]) -> None:
    if problem := device_problem("cpu"):
        pytest.skip(problem)

    expected, found = (drawn(random_bits, shape, device=device) for device in ("numpy", "cpu"))

    assert found.shape == shape
    np.testing.assert_array_equal(found, expected)


def test_seeds_and_stream_names_give_other_numbers() -> None:
    def first(seed: int, name: str = "") -> int:
        with random_stream(seed, name):
            return int(random_bits(()).item())

    assert len({first(0), first(1), first(1 << 32), first(0, "a"), first(0, "b")}) == 5


def test_threads_draw_from_streams_of_their_own_name() -> None:
    found: dict[str, list[list[int]]] = {"a": [], "b": []}

    def work(name: str) -> None:
        found[name].append(random_bits((4,)).tolist())

    for _ in range(2):
        pyrite.seed(11)
        threads = [threading.Thread(target=work, args=(n,), name=n) for n in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    pyrite.seed(0)
    assert found["a"][0] == found["a"][1]
    assert found["b"][0] == found["b"][1]
    assert found["a"][0] != found["b"][0]


def test_a_saved_state_draws_the_same_again() -> None:
    with random_stream(9):
        uniform((3,))
        state = random_state()
        first = uniform((3,)).tolist()
        uniform((2,))
        set_random_state(state)
        assert uniform((3,)).tolist() == first


def test_replayed_draws_repeat_and_leave_the_stream_where_it_was() -> None:
    with random_stream(4), replaying_draws() as replay:
        first, second = uniform((2,)).tolist(), uniform((2,)).tolist()
        with replay():
            assert [uniform((2,)).tolist(), uniform((2,)).tolist()] == [first, second]
        assert uniform((2,)).tolist() not in (first, second)


# ---- distributions ----


@pytest.mark.parametrize(("dtype", "digits"), [("float32", 24), ("float16", 11), ("bfloat16", 8)])
def test_unit_values_are_the_highest_bits_of_a_word(dtype: str, digits: int) -> None:
    bits = drawn(random_bits, (N,))
    unit = drawn(uniform, (N,), dtype=dtype).astype(np.float64)
    np.testing.assert_array_equal(unit, (bits >> (32 - digits)) * 2.0**-digits)
    assert unit.max() < 1


def test_unit_values_of_float64_have_53_bits_of_two_words() -> None:
    high, low = drawn(random_bits, (N, 2)).T.astype(np.uint64)
    unit = drawn(uniform, (N,), dtype="float64")
    exact = ((high << 32 | low) >> 11) * 2.0**-53
    np.testing.assert_array_equal(unit, exact)


def test_uniform_has_the_moments_of_its_interval() -> None:
    values = drawn(uniform, (N,), -3, 5)
    assert values.min() >= -3
    assert values.max() <= 5
    assert values.mean() == pytest.approx(1, abs=0.1)
    assert values.var() == pytest.approx(64 / 12, rel=0.05)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_normal_has_the_moments_of_the_normal_distribution(dtype: str) -> None:
    values = drawn(normal, (N,), dtype=dtype).astype(np.float64)
    assert np.isfinite(values).all()
    assert values.mean() == pytest.approx(0, abs=0.03)
    assert values.std() == pytest.approx(1, abs=0.03)
    assert (values**3).mean() == pytest.approx(0, abs=0.1)
    assert (values**4).mean() == pytest.approx(3, abs=0.3)
    assert np.mean(np.abs(values) < 1) == pytest.approx(math.erf(math.sqrt(0.5)), abs=0.02)


def test_normal_is_box_muller_of_two_draws() -> None:
    with random_stream(2):
        u, v = (uniform((100,)).numpy().astype(np.float64) for _ in range(2))
    expected = 3 * np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * np.pi * v) + 1
    np.testing.assert_allclose(drawn(normal, (100,), 1, 3, seed=2), expected, atol=1e-5)


def test_randint_covers_its_range_evenly() -> None:
    values = drawn(randint, -2, 4, (N,))
    assert values.dtype == np.int32
    counts = np.bincount(values + 2)
    assert len(counts) == 6
    np.testing.assert_allclose(counts, N / 6, rtol=0.1)
    np.testing.assert_array_equal(values, drawn(random_bits, (N,)).astype(np.int64) % 6 - 2)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64"])
def test_randint_reaches_the_bounds_of_the_dtype(dtype: str) -> None:
    info = np.iinfo(dtype)
    low = max(int(info.min), -(1 << 31))
    high = min(int(info.max) + 1, low + (1 << 32))
    values = drawn(randint, low, high, (N,), dtype=dtype)
    assert values.dtype == dtype
    spread = high - low
    assert values.min() < low + spread / 50
    assert values.max() > high - spread / 50


def test_bernoulli_is_a_comparison_of_integers() -> None:
    bits = drawn(random_bits, (N,))
    np.testing.assert_array_equal(drawn(bernoulli, 0.3, (N,)), bits < round(0.3 * 2**32))
    assert drawn(bernoulli, 0.0, (N,)).sum() == 0
    assert drawn(bernoulli, 1.0, (N,)).sum() == N


def test_bernoulli_takes_a_tensor_of_probabilities() -> None:
    p = tensor(np.repeat(np.float32([0, 0.25, 1, 2, -1, np.nan]), 4000).reshape(6, 4000))
    rates = drawn(bernoulli, p).mean(1)
    assert rates.tolist() == [0, pytest.approx(0.25, abs=0.03), 1, 1, 0, 0]


def test_permutation_holds_each_number_once_in_every_order() -> None:
    assert sorted(drawn(permutation, 100).tolist()) == list(range(100))
    orders = {tuple(drawn(permutation, 3, seed=s).tolist()) for s in range(100)}
    assert len(orders) == 6
    assert drawn(permutation, 0).shape == (0,)


def test_shuffle_moves_whole_slices() -> None:
    x = tensor(np.arange(12).reshape(3, 4))
    with random_stream(1):
        rows, columns = shuffle(x), shuffle(x, axis=1)
    assert sorted(rows.tolist()) == x.tolist()
    np.testing.assert_array_equal(np.sort(columns.numpy(), 1), x.numpy())
    assert (columns[1] - columns[0]).tolist() == [4] * 4


def test_categorical_draws_in_proportion() -> None:
    logits = tensor(np.log([[1.0, 2.0, 5.0, 0.5]])).broadcast_to((N, 4))
    counts = np.bincount(drawn(categorical, logits), minlength=4) / N
    np.testing.assert_allclose(counts, np.array([1, 2, 5, 0.5]) / 8.5, atol=0.015)
    assert drawn(categorical, logits[:2].T, axis=0).shape == (2,)


def test_a_class_without_probability_is_never_drawn() -> None:
    logits = tensor([-math.inf, 0.0, -math.inf]).broadcast_to((1000, 3))
    assert set(drawn(categorical, logits).tolist()) == {1}


def test_multinomial_without_replacement_draws_each_class_once() -> None:
    probabilities = tensor([1.0, 2.0, 0.0, 4.0])
    draws = drawn(multinomial, probabilities.broadcast_to((500, 4)), 3)
    assert draws.shape == (500, 3)
    assert {tuple(sorted(d)) for d in draws.tolist()} == {(0, 1, 3)}
    assert np.mean(draws[:, 0] == 3) == pytest.approx(4 / 7, abs=0.08)
    again = drawn(multinomial, probabilities, N, replacement=True)
    np.testing.assert_allclose(np.bincount(again) / N, np.array([1, 2, 0, 4]) / 7, atol=0.015)


def test_like_functions_take_shape_and_dtype() -> None:
    x = zeros((2, 3), dtype="float16")
    for made in (uniform_like(x), normal_like(x), randint_like(x.astype("int8"), 0, 3)):
        assert made.shape == (2, 3)
    assert uniform_like(x).dtype is normal_like(x).dtype is pyrite.float16
    assert randint_like(x.astype("int8"), 0, 3).dtype is pyrite.int8
    assert bernoulli_like(x, 1.0).numpy().all()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: uniform((2,), dtype="int32"), DTypeError, "require a float dtype, got int32"),
        (lambda: normal((2,), std=-1), ArgumentError, "normal requires std >= 0, got -1"),
        (lambda: randint(3, 3), ArgumentError, "randint requires 0 < high - low"),
        (lambda: randint(0, 300, dtype="int8"), ArgumentError, "for int8, got 0 and 300"),
        (lambda: randint(0, 3, dtype="float32"), DTypeError, "requires an integer dtype"),
        (lambda: bernoulli(1.5), ArgumentError, "bernoulli requires 0 <= p <= 1, got 1.5"),
        (lambda: multinomial(ones((3,)), 4), ArgumentError, "requires num_samples <= 3"),
        (lambda: pyrite.seed(-1), ArgumentError, r"seed requires 0 <= seed < 2\*\*64, got -1"),
    ],
)
def test_arguments_out_of_range_are_errors(call: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("bad", [[-1.0, 2.0], [np.nan, 1.0], [0.0, 0.0], [np.inf, 1.0]])
@pytest.mark.parametrize("name", [n for n in device_names() if device_problem(n) is None])
@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_refuses_what_are_no_weights(
    bad: list[float], name: str, replacement: bool
) -> None:
    weights = tensor([[1.0, 2.0], bad], dtype="float32", device=name)
    with pytest.raises(ArgumentError, match="multinomial requires finite") as caught:
        multinomial(weights, 1, replacement=replacement)
    assert (caught.value.location or "").startswith(__file__)


def test_multinomial_of_no_rows_draws_nothing() -> None:
    assert multinomial(tensor(np.ones((0, 3), np.float32)), 2).shape == (0, 2)
