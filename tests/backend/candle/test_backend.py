"""What the conformance suite cannot know of the Candle backend: transfer, carriers, fallbacks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import pyrite
from pyrite.cli.digits import DigitNet
from pyrite.errors import DeviceError, DTypeError, IndexRangeError, SyncError
from pyrite.op import OPS
from pyrite.testing import Example, examples
from pyrite.types import DTYPES, FLOATS, DType, bool_, float32, int32, int64, uint8, uint32

candle = pytest.importorskip("candle")

from pyrite.backend.candle import Candle, gather, pooling  # noqa: E402 - needs candle
from pyrite.backend.candle.tensor import CARRIERS, joined, zeros  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::pyrite.FallbackWarning")

HELD = list(CARRIERS)
NOT_HELD = [dtype for dtype in DTYPES if dtype not in CARRIERS]


def newly(before: dict[tuple[str, str], int]) -> set[str]:
    return {
        op for (name, op), n in pyrite.fallbacks().items()
        if name == "candle" and n > before.get((name, op), 0)
    }  # fmt: skip


# ---- names ----


@pytest.mark.parametrize("name", ["candle:0", "candle:cpu", "candle:"])
def test_candle_is_one_device(name: str) -> None:
    assert pyrite.device("candle").name == "candle"
    with pytest.raises(DeviceError, match=r"device requires one of .*, candle, got"):
        pyrite.device(name)


def test_a_missing_package_is_one_line_with_the_command_that_gets_it() -> None:
    program = (
        "import sys; sys.modules['candle'] = None\n"
        "from pyrite.backend import device_problem\n"
        "print(device_problem('candle'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.count("\n") == 1
    assert "pip install 'pyrite[candle]'" in done.stdout


def test_importing_pyrite_does_not_import_candle() -> None:
    program = "import pyrite, sys; print('candle' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n"


# ---- transfer ----


@pytest.mark.parametrize("dtype", HELD, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0,), (2, 0, 3)], ids=str)
def test_values_come_back_bit_for_bit(dtype: DType, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    count = int(np.prod(shape))
    words = rng.integers(0, 256, count * dtype.itemsize, np.uint8)
    array = (words % 2 if dtype is bool_ else words).view(dtype.numpy).reshape(shape)
    back = pyrite.tensor(array, device="candle").numpy()
    assert (back.shape, back.dtype) == (shape, array.dtype)
    assert back.tobytes() == array.tobytes()
    assert not back.flags.writeable


@pytest.mark.parametrize("value", [1 + 2**-52, 5e-324, -0.0, float("inf"), 1e308])
def test_doubles_do_not_become_singles_on_the_way(value: float) -> None:
    x = pyrite.tensor(np.array([value]), device="candle")
    both = [
        x.numpy(),
        (x + -0.0).numpy(),
        pyrite.full((1,), value, device="candle", dtype="float64").numpy(),
    ]
    for found in both:
        assert found.tobytes() == np.array([value]).tobytes()


def test_an_uploaded_array_is_copied() -> None:
    array = np.ones(2)
    x = pyrite.tensor(array, device="candle")
    array[0] = 5
    assert x.tolist() == [1, 1]


def test_the_tensor_of_candle_is_there_to_be_used() -> None:
    x = pyrite.tensor([[1, 2]], device="candle") * 2
    assert isinstance(x.primitive(), candle.Tensor)
    assert x.primitive().values() == [[2, 4]]


# ---- dtypes ----


@pytest.mark.parametrize("dtype", NOT_HELD, ids=lambda d: d.name)
def test_a_dtype_that_candle_lacks_is_an_error_that_names_those_it_has(dtype: DType) -> None:
    with pytest.raises(DTypeError, match=f"one of .*, int32, .* got {dtype.name}; cast it"):
        pyrite.zeros((2,), dtype=dtype, device="candle")
    with pytest.raises(DTypeError, match=f"one of .*, got {dtype.name}"):
        pyrite.ones((2,), device="candle").astype(dtype)


def test_int32_keeps_its_range_in_a_wider_carrier() -> None:
    most = np.iinfo(np.int32).max
    x = pyrite.tensor([most, -most - 1, 7], device="candle")
    assert (x + 1).tolist() == [-most - 1, -most, 8]
    assert (x * x).tolist() == [1, 0, 49]
    assert (-x).tolist() == [-most, -most - 1, -7]
    assert x.abs().tolist() == [most, -most - 1, 7]
    assert x.sum().item() == 6
    assert x.prod().item() == np.prod(np.array([most, -most - 1, 7], np.int32), dtype=np.int32)
    assert x.cumulative_sum(0).tolist() == [most, -1, 6]
    assert pyrite.tensor([3e9, -3e9], device="candle").astype("int32").tolist() == [most, -most - 1]


def test_truth_is_0_or_1_in_its_carrier() -> None:
    x = pyrite.tensor([3.0, 0.0, float("nan")], device="candle").astype("bool")
    for found in (
        x,
        x | x,
        x & x,
        ~x,
        x ^ ~x,
        x.any(0, keepdims=True),
        pyrite.tensor([2], device="candle").astype("bool"),
    ):
        assert set(np.ravel(found.primitive().values())) <= {0, 1}
    assert (x.sum().item(), x.astype("int64").tolist()) == (2, [1, 0, 1])


@pytest.mark.parametrize("dtype", [uint8, uint32, int32, int64], ids=lambda d: d.name)
def test_products_of_integers_wrap_around_exactly(dtype: DType) -> None:
    rng, info = np.random.default_rng(2), np.iinfo(dtype.numpy)
    x, y = (rng.integers(info.min, info.max, s, dtype.numpy, True) for s in ((9, 300), (300, 5)))
    got = pyrite.tensor(x, device="candle") @ pyrite.tensor(y, device="candle")
    np.testing.assert_array_equal(got.numpy(), np.matmul(x, y))


# ---- accuracy ----


@pytest.mark.parametrize("axis", [0, 1, None])
def test_long_sums_of_singles_are_as_exact_as_those_of_numpy(axis: int | None) -> None:
    x = np.random.default_rng(3).uniform(0, 1, (1000, 1000)).astype(np.float32)
    got = pyrite.tensor(x, device="candle").sum(axis).numpy()
    np.testing.assert_allclose(got, x.astype(np.float64).sum(axis), rtol=1e-6)


@pytest.mark.parametrize(
    "op", ["expm1", "log1p", "sinh", "asinh", "atanh", "erf", "tanh", "atan", "asin"]
)
def test_functions_near_zero_keep_their_digits(op: str) -> None:
    x = np.concatenate([10.0 ** -np.arange(1, 18), -(10.0 ** -np.arange(1, 18))])
    got, want = (getattr(pyrite.tensor(x, device=d), op)().numpy() for d in ("candle", "numpy"))
    np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize("op", ["sinh", "cosh", "asinh", "acosh", "exp", "log1p", "erf", "tanh"])
def test_functions_of_large_numbers_do_not_overflow_early(op: str) -> None:
    x = np.array([25.0, 300.0, 709.5, 710.4, 1e10, 1e200, np.inf])
    got, want = (getattr(pyrite.tensor(x, device=d), op)().numpy() for d in ("candle", "numpy"))
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_rounding_is_exact_up_to_the_largest_halves() -> None:
    for dtype, whole in (("float32", 2.0**23), ("float64", 2.0**52)):
        x = np.array([whole - 0.5, whole - 1.5, whole + 1, 2.5, 3.5, -0.5, 2.0**62, 1e30], dtype)
        for op in ("floor", "ceil", "trunc", "round"):
            got, want = (getattr(pyrite.tensor(x, device=d), op)() for d in ("candle", "numpy"))
            np.testing.assert_array_equal(got.numpy(), want.numpy())
            np.testing.assert_array_equal(np.signbit(got.numpy()), np.signbit(want.numpy()))


@pytest.mark.parametrize("op", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("where", range(4))
def test_nan_is_the_extreme_wherever_it_stands(op: str, where: int) -> None:
    x = np.array([[1.0, -np.inf, np.inf, 3.0]] * 2)
    x[1, where] = np.nan
    got, want = (getattr(pyrite.tensor(x, device=d), op)(1).numpy() for d in ("candle", "numpy"))
    np.testing.assert_array_equal(got, want)


# ---- indices ----


def test_an_index_outside_its_axis_is_one_clear_error() -> None:
    weight = pyrite.ones((3, 2), device="candle")
    with pytest.raises(
        IndexRangeError, match="embedding requires -3 <= index < 3 on axis 0, got index 7"
    ):
        weight.embedding(pyrite.tensor([0, 7], device="candle"))


def test_what_is_added_at_an_index_stays_there_also_when_it_is_infinite() -> None:
    values = [np.inf, 1.0, -np.inf, np.inf, np.nan, 2.0]
    found = []
    for device in ("candle", "numpy"):
        at = pyrite.tensor([0, 0, 1, 1, 2, 3], device=device)
        x = pyrite.zeros((5,), device=device)
        found.append(
            x.scatter(0, at, pyrite.tensor(values, device=device), reduction="add").numpy()
        )
    np.testing.assert_array_equal(*found)


def test_the_last_of_several_writes_to_one_place_wins() -> None:
    rng, want = np.random.default_rng(0), np.zeros(7, np.float32)
    at, values = rng.integers(0, 7, 500), np.arange(500, dtype=np.float32)
    for place, value in zip(at, values, strict=True):
        want[place] = value
    x = pyrite.zeros((7,), device="candle")
    got = x.scatter(0, *(pyrite.tensor(a, device="candle") for a in (at, values)))
    np.testing.assert_array_equal(got.numpy(), want)


# ---- fallbacks ----


def calls(op: str) -> Iterator[tuple[Example, list[object]]]:
    """The examples of an op in floats, and in int32."""
    for example in (e for e in examples() if e.op.name == op):
        arrays = example.arrays(float32)
        yield example, arrays
        if example.op.accepts in ("any", "number", "signed", "integer", "logical"):
            yield (
                example,
                [
                    a.astype(np.int32) if isinstance(a, np.ndarray) and a.dtype == np.float32 else a
                    for a in arrays
                ],
            )


@pytest.mark.parametrize("op", sorted(Candle.falls_back))
def test_what_is_declared_to_fall_back_does_for_some_input(
    op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (gather, pooling):
        monkeypatch.setattr(module, "MOST_COMPARISONS", 0)  # nothing is small
    before = pyrite.fallbacks()
    for example, arrays in calls(op):
        on = [pyrite.tensor(a, device="candle") if isinstance(a, np.ndarray) else a for a in arrays]
        example.call(on, "candle")
    assert op in newly(before)


def test_a_fallback_waits_and_so_is_refused_where_nothing_may() -> None:
    x = pyrite.ones((2,), device="candle")
    with pyrite.no_sync(), pytest.raises(SyncError, match="NumPy computes it for candle"):
        x.lgamma()


def test_a_fallback_warns_once_and_names_the_op(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import pyrite\n"
        "x = pyrite.ones((2,), device='candle')\n"
        "x.lgamma(), x.lgamma()\n"
        "print(pyrite.fallbacks())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "{('candle', 'lgamma'): 2}\n"
    assert done.stderr.count("FallbackWarning: lgamma has no implementation on candle") == 1


def test_most_of_the_op_table_is_native_or_made_of_what_is() -> None:
    assert len(Candle.falls_back) < 0.2 * len(OPS)
    assert not set(Candle.falls_back) & {
        "matmul", "convolution", "linear", "sum", "mean", "max", "exp", "tanh", "gelu", "softmax",
    }  # fmt: skip


# ---- training ----


def train(device: str, steps: int) -> list[float]:
    pyrite.seed(0)
    model, rng, losses = DigitNet().to(device), np.random.default_rng(0), []
    optimizer = pyrite.optim.AdamW(3e-3)
    step = pyrite.value_and_grad(lambda m, x, y: m(x).cross_entropy(y))
    for _ in range(steps):
        x = pyrite.tensor(rng.random((16, 1, 8, 8), np.float32), device=device)
        y = pyrite.tensor(rng.integers(0, 10, 16), device=device)
        loss, grads = step(model, x, y)
        model = optimizer.step(model, grads)
        losses.append(float(loss))
    return losses


def test_a_training_step_of_the_digits_network_leaves_only_random_words_to_numpy() -> None:
    before = pyrite.fallbacks()
    train("candle", 2)
    assert newly(before) == {"random_bits"}  # of the dropout


def test_the_digits_network_trains_as_on_numpy() -> None:
    np.testing.assert_allclose(train("candle", 5), train("numpy", 5), rtol=1e-4)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_second_derivatives_are_those_of_numpy(dtype: DType) -> None:
    def penalty(x: pyrite.Tensor) -> pyrite.Tensor:
        return (pyrite.grad(lambda x: (x @ x).gelu().sum())(x) ** 2).sum()

    array = np.random.default_rng(1).uniform(-1, 1, (3, 3)).astype(dtype.numpy)
    got, want = (
        pyrite.grad(penalty)(pyrite.tensor(array, device=d)).numpy().astype(np.float64)
        for d in ("candle", "numpy")
    )
    tolerance = {"float64": 1e-11, "float32": 1e-4, "float16": 3e-2, "bfloat16": 0.2}[dtype.name]
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(want).max())


# ---- without elements ----


def test_a_product_over_axes_of_which_one_is_empty_is_1() -> None:
    x = pyrite.zeros((3, 0), device="candle")
    assert x.prod().item() == 1
    assert x.prod(axis=0).shape == (0,)
    assert x.prod(axis=1).tolist() == [1, 1, 1]


def test_joined_parts_without_elements_keep_their_sizes() -> None:
    assert joined([zeros((2, 0), float32), zeros((3, 0), float32)], 0).shape == (5, 0)
