"""The suite that every backend passes: each op of the table on each device, judged by NumPy.

A new backend adds nothing here: its names come from `device_names`.  Fallbacks to the reference are
errors but for the ops that the backend's class says may (`Backend.falls_back`), so what else passes
was computed by the device itself.  Dtypes that a device lacks are skipped.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.backend.device import device, device_names, device_problem
from pyrite.backend.fallback import fallbacks
from pyrite.backend.protocol import Backend, unknown_implementations
from pyrite.op import OPS, Op
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing import Example, examples, samples_of
from pyrite.types import (
    FLOATS,
    INTEGERS,
    DType,
    TensorType,
    bool_,
    float32,
    float64,
)

PROBLEMS = {name: device_problem(name) for name in device_names() if name != "numpy"}
WORKING = [name for name, problem in PROBLEMS.items() if problem is None]
EXAMPLES = list(examples())

#: What a result may differ by, relative to its magnitude or to the greatest around it.
TOLERANCE = {"float64": 1e-12, "float32": 4e-6, "float16": 8e-3, "bfloat16": 6e-2}

each_device = pytest.mark.parametrize("name", WORKING)
#: Each op on two of the devices, by examples; which varies with the commit.
twice_an_op = pytest.mark.sample(2, by="example.op")
#: Each op on one of the devices, which varies as the example does.
somewhere = pytest.mark.sample(1, by="example.op")


pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")


@pytest.fixture(autouse=True)
def _only_declared_ops_fall_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Undoing monkeypatch comes after: a test may declare more for itself.
    before = fallbacks()
    yield
    fell = {key for key, count in fallbacks().items() if count > before.get(key, 0)}
    assert not {(name, op) for name, op in fell if op not in class_of(name).falls_back}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_device_that_works_here_is_judged(name: str) -> None:
    if PROBLEMS[name] is not None:
        pytest.skip(f"device does not work here: {PROBLEMS[name]}")
    assert (tensor([1, 2], device=name) + 1).sum().item() == 5


def test_what_is_installed_works() -> None:
    """Else a fault in a backend would look like a machine without that device, and skip all."""
    expected = {"cpu"} if find_spec("llvmlite") else set()
    expected |= {"torch:cpu"} if find_spec("torch") else set()
    expected |= {"candle"} if find_spec("candle") else set()
    if find_spec("wgpu") and list(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*")):
        expected.add("wgpu")

    assert {name: PROBLEMS[name] for name in expected if PROBLEMS[name]} == {}


# ---- values ----


@each_device
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.id)
@twice_an_op
def test_the_values_of_floats_are_those_of_numpy(
    name: str, example: Example, rng: random.Random, full: bool
) -> None:
    others = [dtype for dtype in FLOATS if dtype is not float32]
    for dtype in [float32, *(others if full else [rng.choice(others)])]:
        arrays = example.arrays(dtype)
        if dtype is not float32 and not any(is_of(a, dtype) for a in arrays):
            continue
        if not has(name, dtype):
            continue
        got, want = run(example, arrays, name), run(example, arrays, "numpy")
        for g, w in zip(got, want, strict=True):
            assert (g.shape, g.dtype) == (w.shape, w.dtype)
            assert_close(g.numpy(), w.numpy(), TOLERANCE[dtype.name])


@each_device
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.id)
@somewhere
def test_the_strides_of_the_inputs_do_not_matter(name: str, example: Example) -> None:
    arrays = example.arrays(float32)
    got = example.call([strided(a, name) for a in arrays], name)
    for g, w in zip(got, run(example, arrays, name), strict=True):
        assert_close(g.numpy(), w.numpy(), TOLERANCE["float32"])


WHOLE = [bool_, *INTEGERS]


def whole_cases() -> Iterator[Any]:
    """Give the first example of each op in every dtype, and each further one in one, in turns."""
    for example in EXAMPLES:
        has_floats = any(getattr(a, "dtype", None) == np.float64 for a in example.arrays())
        if example.op.accepts == "float" or not has_floats:
            continue
        further = [WHOLE[example.number % len(WHOLE)]]
        for dtype in further if example.number else WHOLE:
            yield pytest.param(example, dtype, id=f"{example.id}-{dtype.name}")


@each_device
@pytest.mark.parametrize(("example", "dtype"), [*whole_cases()])
@pytest.mark.sample(30, by="dtype")
def test_integers_and_bools_are_exact(name: str, dtype: DType, example: Example) -> None:
    require(name, dtype)
    arrays = [as_integers(a, dtype, low=-3, high=4) for a in example.arrays(float64)]
    try:
        want = run(example, arrays, "numpy")
    except (TypeError, ValueError, IndexError) as error:
        with pytest.raises(type(error)):
            run(example, arrays, name)
        return
    for g, w in zip(run(example, arrays, name), want, strict=True):
        assert g.dtype is w.dtype
        if w.dtype.is_float:
            assert_close(g.numpy(), w.numpy(), TOLERANCE["float32"])
        else:
            np.testing.assert_array_equal(g.numpy(), w.numpy())


ELEMENTWISE = sorted(name for name, op in OPS.items() if op.is_elementwise)


@each_device
@pytest.mark.parametrize("op", [OPS[n] for n in ELEMENTWISE], ids=lambda op: op.name)
def test_special_floats_and_the_sign_of_zero_are_those_of_numpy(name: str, op: Op) -> None:
    special = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan])
    if op.accepts not in ("any", "number", "float", "signed"):
        return
    if op.name in ("where", "dropout", "full"):
        return
    for dtype in filter(lambda dtype: has(name, dtype), (float32, float64)):
        columns = list(zip(*itertools.product(special, repeat=len(op.inputs)), strict=True))
        arrays = [np.array(column, dtype.numpy) for column in columns]
        (got,), (want,) = (call(op, arrays, where) for where in (name, "numpy"))
        assert_close(got.numpy(), want.numpy(), TOLERANCE[dtype.name])
        # PyTorch's GELU of -0.0 is 0.0 on processors without AVX-512: README.md.
        if want.dtype.is_float and (name, op.name) != ("torch:cpu", "gelu"):
            is_zero = (want.numpy() == 0) & (got.numpy() == 0)
            np.testing.assert_array_equal(
                np.signbit(got.numpy())[is_zero], np.signbit(want.numpy())[is_zero]
            )


@each_device
@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
@pytest.mark.parametrize("op", [OPS[n] for n in ELEMENTWISE], ids=lambda op: op.name)
@pytest.mark.sample(2, by=("name", "op"))
def test_the_bounds_of_integers_are_those_of_numpy(name: str, op: Op, dtype: DType) -> None:
    if op.accepts in ("float", "bool") or op.name in ("where", "full"):
        return
    if op.accepts == "signed" and dtype.kind == "uint":
        return
    require(name, dtype)
    least, greatest = int(dtype.lowest), int(dtype.highest)
    numbers = sorted({least, least + 1, 0, 1, 2, 7, greatest // 2 + 1, greatest - 1, greatest})
    if least < 0:
        numbers += [-1, -7]
    columns = list(zip(*itertools.product(numbers, repeat=len(op.inputs)), strict=True))
    arrays = [np.array(column, dtype.numpy) for column in columns]
    (got,), (want,) = (call(op, arrays, where) for where in (name, "numpy"))
    np.testing.assert_array_equal(got.numpy(), want.numpy())


@each_device
@pytest.mark.parametrize("to", [bool_, *INTEGERS, *FLOATS], ids=lambda d: d.name)
@pytest.mark.parametrize("of", [bool_, *INTEGERS, *FLOATS], ids=lambda d: d.name)
@pytest.mark.sample(4, by=("name", "of"))
def test_casts_saturate_wrap_and_round_as_numpy_does(name: str, of: DType, to: DType) -> None:
    require(name, of, to)
    if of.is_float:
        powers = [2.0**n for n in (7, 8, 15, 16, 31, 32, 63, 64)]
        values = [0.0, -0.0, 0.7, -0.7, 2.5, np.nan, np.inf, *powers, *(-p for p in powers)]
    else:
        values = [int(of.lowest), 0, 1, int(of.highest), int(of.highest) // 2 + 1]
    with np.errstate(all="ignore"):
        array = np.array(values).astype(of.numpy)
    got, want = (tensor(array, device=where).astype(to).numpy() for where in (name, "numpy"))
    # To float16 NumPy rounds once, and a device may round to float32 on the way.
    assert_close(got, want, 1e-3 if to.is_float and to.itemsize == 2 else 0.0)


# ---- gradients ----


@each_device
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.id)
@somewhere
def test_first_gradients_are_those_of_numpy(name: str, example: Example) -> None:
    arrays = example.arrays(float64)
    for position in differentiable_positions(example, arrays):
        got, want = (gradient(example, arrays, position, where) for where in (name, "numpy"))
        assert_close(got, want, 1e-9)


def differentiable_positions(example: Example, arrays: list[Any]) -> list[int]:
    return [
        p
        for p, a in enumerate(arrays)
        if example.is_differentiable(p) and is_of(a, float64) and a.size
    ]


def gradient(example: Example, arrays: list[Any], position: int, name: str) -> Any:
    """The gradient of a sum in which each element of each float result has its own weight."""
    inputs = on(arrays, name)

    def total(x: Tensor) -> Any:
        rng, found = np.random.default_rng(5), 0.0
        for result in example.call([*inputs[:position], x, *inputs[position + 1 :]], name):
            if result.dtype.is_float:
                weight = tensor(rng.uniform(-1, 1, result.shape), device=name)
                found = found + (result * weight).sum()
        return found

    return grad(total)(inputs[position]).numpy()


# ---- native implementations ----


@each_device
def test_every_native_implementation_names_an_op(name: str) -> None:
    assert unknown_implementations(class_of(name)) == []


@each_device
def test_every_op_that_is_declared_to_fall_back_is_one(name: str) -> None:
    assert sorted(set(class_of(name).falls_back) - set(OPS)) == []


def implemented() -> Iterator[Any]:
    for name in WORKING:
        for op in sorted(device(name).backend.root._implementations):
            yield pytest.param(name, op, id=f"{name}-{op}")


@pytest.mark.parametrize(("name", "op"), list(implemented()))
def test_removing_an_implementation_changes_speed_only(
    name: str, op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = class_of(name)
    found = [(e, e.arrays(float32)) for e in EXAMPLES if e.op.name == op]
    native = [run(e, arrays, name) for e, arrays in found]
    rest = {n: method for n, method in backend._implementations.items() if n != op}
    monkeypatch.setattr(backend, "_implementations", rest)
    monkeypatch.setattr(backend, "falls_back", dict.fromkeys(OPS, "for this test"))
    for (example, arrays), before in zip(found, native, strict=True):
        for g, w in zip(run(example, arrays, name), before, strict=True):
            assert g.dtype is w.dtype
            assert_close(g.numpy(), w.numpy(), TOLERANCE["float32"])


# ---- what the tests share ----


def class_of(name: str) -> type[Backend]:
    return type(device(name).backend.root)


def has(name: str, dtype: DType) -> bool:
    return device(name).backend.root.supports(TensorType((), dtype))


def require(name: str, *dtypes: DType) -> None:
    for dtype in dtypes:
        if not has(name, dtype):
            pytest.skip(f"{name} has no {dtype.name}")


def is_of(a: Any, dtype: DType) -> bool:
    return isinstance(a, np.ndarray) and a.dtype == dtype.numpy


def on(arrays: list[Any], name: str) -> list[Any]:
    return [tensor(a, device=name) if isinstance(a, np.ndarray) else a for a in arrays]


def run(example: Example, arrays: list[Any], name: str) -> tuple[Tensor, ...]:
    return example.call(on(arrays, name), name)


def call(op: Op, arrays: list[Any], name: str) -> tuple[Tensor, ...]:
    """Execute an op with the attributes of its first sample."""
    return Example(op, 0, samples_of(op)[0]).call(on(arrays, name), name)


def strided(a: Any, name: str) -> Any:
    """The same values in column-major order, every second of twice as many."""
    if not isinstance(a, np.ndarray):
        return a
    if a.ndim == 0:
        return tensor(a, device=name)
    twice = np.repeat(a.T, 2, axis=-1)
    moved = tensor(np.ascontiguousarray(twice), device=name)
    return moved[..., ::2].permute_dims(tuple(reversed(range(a.ndim))))


def as_integers(a: Any, dtype: DType, *, low: int, high: int) -> Any:
    """A float array as one of a few small integers of a dtype; other inputs as they are."""
    if not is_of(a, float64):
        return a
    rng = np.random.default_rng(a.size)
    first = 0 if dtype.kind in ("uint", "bool") else low
    return rng.integers(first, 2 if dtype.is_bool else high, a.shape).astype(dtype.numpy)


def assert_close(got: Any, want: Any, tolerance: float) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind in "iub" and want.dtype != np.dtype("bfloat16"):
        np.testing.assert_array_equal(got, want)
        return
    wide_got, wide_want = got.astype(np.float64), want.astype(np.float64)
    finite = np.abs(wide_want[np.isfinite(wide_want)])
    scale = max(1.0, float(finite.max(initial=0))) if tolerance else 0.0
    np.testing.assert_allclose(
        wide_got, wide_want, rtol=tolerance, atol=tolerance * min(scale, 1e3)
    )
