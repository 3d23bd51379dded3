"""A composite's body is its kernel: it computes what the ops of the body compute one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.body import graph_of
from pyrite.backend.cube.recording_launcher import RecordingLauncher
from pyrite.backend.device import Device, device, device_names, device_problem
from pyrite.config import config
from pyrite.op import OPS, Constant
from pyrite.tensor.creation import tensor
from pyrite.testing import Example, examples, samples_of
from pyrite.types import (
    Array,
    DType,
    TensorType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    promote_scalar,
)

NAMES = [n for n in ("cpu", "wgpu") if n in device_names() and device_problem(n) is None]
FLOATS = (float32, float16, bfloat16, float64)
#: What a result may differ by from NumPy's ops one by one, relative to the greatest.
TOLERANCE = {"float64": 1e-12, "float32": 4e-6, "float16": 8e-3, "bfloat16": 6e-2}


@pytest.fixture
def by_body(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No kernels but those of rules and bodies."""
    monkeypatch.setattr(config, "rules_only", True)
    return


@pytest.fixture(scope="session", params=NAMES)
def place(request: pytest.FixtureRequest) -> Device:
    """A device on which nothing is recorded yet."""
    backend = device(request.param).backend.root
    assert isinstance(backend, CubeBackend)
    return Device(CubeBackend(backend.runtime))


def given_to(example: Example, dtype: DType, device: Device) -> list[Any]:
    """Return the inputs of an example on a device."""
    arrays = example.arrays(dtype)
    return [tensor(a, device=device) if isinstance(a, np.ndarray) else a for a in arrays]


def is_classed(example: Example, dtype: DType = float32) -> bool:
    """Whether kernels are made of the body of an example."""
    inputs = [
        i._handle if isinstance(i, Tensor) else i for i in given_to(example, dtype, device("cpu"))
    ]
    inputs = [
        Constant(i, TensorType((), promote_scalar("", bool_, i)))
        if isinstance(i, bool | int | float) else i
        for i in inputs
    ]  # fmt: skip
    op = example.op
    types = [i.type if isinstance(i, Constant) else i and i.type for i in inputs]
    attrs = {**op.attributes, **example.sample.attrs}
    attrs = dict(op.canonical(*types, **attrs)) if op.canonical else attrs
    return graph_of(op, inputs, attrs) is not None


CASES = [e for e in examples() if e.op.body is not None]


@pytest.mark.sample(1, by="example.op")
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("example", CASES, ids=lambda e: e.id)
def test_a_body_computes_what_its_ops_compute(
    place: Device, example: Example, dtype: DType, by_body: None
) -> None:
    backend = place.backend
    assert isinstance(backend, CubeBackend)
    if dtype in backend.runtime.lacking:
        pytest.skip(f"no {dtype.name} there")
    op = example.op
    got = example.call(given_to(example, dtype, place), place)
    judge = device("numpy")
    body = op.body
    assert body is not None
    want = example.call(given_to(example, dtype, judge), judge)

    for x, y in zip(got, want, strict=True):
        assert x._type == y._type
        a, b = x.numpy().astype(np.float64), y.numpy().astype(np.float64)
        limit = TOLERANCE[dtype.name] * np.abs(b).max(initial=1e-3)
        np.testing.assert_allclose(a, b, rtol=0, atol=limit)


def test_most_composites_are_of_ops_that_have_a_class() -> None:
    """Views, folds and elementwise ops alone, or with gathers, scans and moves by their rules."""
    if "cpu" not in NAMES:
        pytest.skip("no cpu here")
    classed = {op.name for op in OPS.values() if op.body is not None and samples_of(op)} & {
        e.op.name for e in CASES if e.op.body is not None and is_classed(e)
    }

    assert len(classed) >= 80, sorted(classed)


# ---- of an application ----


@custom_op(
    infer=lambda x, w, **_: x,
    body=lambda x, w, *, axis: (
        (x - x.mean(axis, keepdims=True)) * w / (x.square().sum(axis, keepdims=True) + 1)
    ),
)
def weighed(x: Tensor, w: Tensor, /, *, axis: int = -1) -> Tensor: ...


def kernels_of(call: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many kernels a call launches."""
    count = 0

    def counted(launch: Any) -> Any:
        def counting(*args: Any, **options: Any) -> None:
            nonlocal count
            count += 1
            launch(*args, **options)

        return counting

    for name in ("launch", "launch_for"):
        monkeypatch.setattr(RecordingLauncher, name, counted(getattr(RecordingLauncher, name)))
    call()
    return count


def test_a_composite_of_an_application_is_one_kernel(
    place: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(33, 20)).astype(np.float32), rng.normal(size=20).astype(np.float32)
    given = [tensor(a, device=place) for a in (x, w)]
    found: list[Tensor] = []

    assert kernels_of(lambda: found.append(weighed(*given)), monkeypatch) == 1
    want = (x - x.mean(-1, keepdims=True)) * w / (np.square(x).sum(-1, keepdims=True) + 1)
    np.testing.assert_allclose(found[0].numpy(), want, rtol=1e-5, atol=1e-6)


def test_a_composite_may_be_declared_again(place: Device) -> None:
    for factor in (2.0, 3.0):

        @pyrite.composite()
        def scaled_in_a_cell(x: Tensor, /) -> Tensor:
            return x * factor  # noqa: B023 - called in this turn

        assert scaled_in_a_cell(tensor([1.0], device=place)).item() == factor


_SCALE = 2.0


def test_what_a_body_reads_is_part_of_its_kernel(place: Device) -> None:
    @pyrite.composite()
    def scaled_by_a_global(x: Tensor, /) -> Tensor:
        return (x * _SCALE).sum(-1)

    global _SCALE
    x = tensor([1.0, 2.0], device=place)
    for scale in (2.0, 5.0, 2.0):
        _SCALE = scale
        assert scaled_by_a_global(x).item() == 3.0 * scale


def test_the_step_of_an_applications_optimiser_is_one_kernel(
    place: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    @custom_op(
        infer=lambda p, *_: (p, p),
        body=lambda p, g, m, rate: (
            p - rate * (m * 0.9 + g).sign() * (1 - rate), m * 0.9 + g * 0.1
        ),
    )  # fmt: skip
    def signed_step(p: Tensor, g: Tensor, m: Tensor, rate: float, /) -> tuple[Tensor, Tensor]: ...

    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=1000).astype(np.float32) for _ in range(3)]
    p, g, m = arrays
    given = [tensor(a, device=place) for a in arrays]
    found: list[Any] = []

    assert kernels_of(lambda: found.extend(signed_step(*given, 0.25)), monkeypatch) == 1
    assert kernels_of(lambda: signed_step(*given, 0.5), monkeypatch) == 0
    np.testing.assert_allclose(
        found[0].numpy(), p - 0.25 * np.sign(m * 0.9 + g) * 0.75, rtol=1e-6, atol=1e-6
    )
    np.testing.assert_allclose(found[1].numpy(), m * 0.9 + g * 0.1, rtol=1e-6, atol=1e-6)


# ---- of nobody ----

SHAPES = [(4, 7), (3, 1, 5), (33, 64), (2, 3, 16), (1, 1), (5, 1000), (17, 129), (64, 3, 4)]
MAPS = ["exp", "tanh", "abs", "square", "negative", "sigmoid"]
FOLDS = ["sum", "mean", "max", "min"]
MEETS = ["add", "subtract", "multiply", "maximum"]


@dataclass(frozen=True)
class Program:
    """Steps of a random body: a name, and which of the values so far it takes."""

    steps: tuple[tuple[str, int, int], ...]
    axes: tuple[int, ...]
    results: tuple[int, ...]

    def run(self, x: Any, w: Any, k: Any) -> list[Any]:
        """Return the results, with the functions of ``k``."""
        values = [x, w]
        for name, i, j in self.steps:
            a, b = values[i % len(values)], values[j % len(values)]
            values.append(k(name, a, b, self.axes))
        return [values[-1], *(values[i % len(values)] for i in self.results)]


def with_tensors(name: str, a: Any, b: Any, axes: tuple[int, ...]) -> Any:
    """Apply a step to tensors."""
    if name in FOLDS:
        return getattr(a, name)(axes, keepdims=True)
    return getattr(a, name)(b) if name in MEETS else getattr(a, name)()


def with_arrays(name: str, a: Array, b: Array, axes: tuple[int, ...]) -> Any:
    """Apply a step to arrays."""
    if name in FOLDS:
        return getattr(np, name)(a, axis=axes, keepdims=True)
    if name == "sigmoid":
        return 1 / (1 + np.exp(-a))
    return getattr(np, name)(a, b) if name in MEETS else getattr(np, name)(a)


@st.composite
def programs(draw: st.DrawFn) -> tuple[Program, tuple[int, ...]]:
    """Give a random body and the shape of its first input."""
    shape = draw(st.sampled_from(SHAPES))
    step = st.tuples(
        st.sampled_from(MAPS + FOLDS * 2 + MEETS * 2), st.integers(0, 20), st.integers(0, 20)
    )
    axes = draw(st.sampled_from([(len(shape) - 1,), (0,), tuple(range(1, len(shape)))]))
    steps = tuple(draw(st.lists(step, min_size=2, max_size=9)))
    return Program(steps, axes, tuple(draw(st.lists(st.integers(0, 20), max_size=2)))), shape


@settings(max_examples=25)
@given(programs(), st.booleans())
def test_a_random_body_is_that_of_numpy(
    place: Device, drawn: tuple[Program, tuple[int, ...]], turned: bool
) -> None:
    program, shape = drawn
    rng = np.random.default_rng(3)
    x, w = rng.uniform(-1, 1, shape), rng.uniform(-1, 1, (1,) * (len(shape) - 1) + shape[-1:])
    with np.errstate(all="ignore"):
        want = program.run(x, w, with_arrays)
    if not all(np.abs(a).max() < 1e6 for a in want):
        return

    @custom_op(
        body=lambda x, w: tuple(program.run(x, w, with_tensors)),
        infer=lambda x, w: tuple(TensorType(a.shape, float32) for a in want),
    )
    def drawn_op(x: Tensor, w: Tensor, /) -> Sequence[Tensor]: ...

    given = tensor(x.astype(np.float32), device=place)
    if turned:
        turned_axes = tuple(reversed(range(x.ndim)))
        flipped = np.ascontiguousarray(x.T).astype(np.float32)
        given = tensor(flipped, device=place).permute_dims(turned_axes)
    found = drawn_op(given, tensor(w.astype(np.float32), device=place))
    for got, array in zip(found if isinstance(found, tuple) else (found,), want, strict=True):
        limit = 3e-5 * max(1.0, np.abs(array).max())
        np.testing.assert_allclose(got.numpy(), array, rtol=0, atol=limit)
