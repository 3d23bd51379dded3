"""Derivatives of kernels in Python, judged by differences in float64."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device, device_problem
from pyrite.errors import GradientError, KernelError
from pyrite.extension import kernel
from pyrite.extension.derivative.rules import MATHEMATICS
from pyrite.testing import check_gradients
from pyrite.types import TensorType

RNG = np.random.default_rng(3)


@pytest.fixture(params=["numpy", "cpu", "wgpu"])
def where(request: pytest.FixtureRequest) -> Device:
    if problem := device_problem(request.param):
        pytest.skip(problem)
    return pyrite.device(request.param)


def op_of(made: Any, infer: Callable[..., Any] = lambda x, *_: x) -> Callable[..., Any]:
    """The op of a kernel of one to three inputs."""
    count = len(made.parameters) - 1

    def one(x: Tensor, /) -> Any:
        """Of one."""

    def two(x: Tensor, y: Tensor, /) -> Any:
        """Of two."""

    return custom_op(infer=infer, kernels=[made])((one, two)[count - 1])


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


# ---- what a kernel is made of ----


@kernel(differentiable=True)
def branches(k: Any, x: Any, y: Any, out: Any) -> None:
    i, j = k.at
    a = x[i, j]
    if a > 0.3:
        b = a * y[j]
        if y[j] < 0.0:
            b = b - a
    elif a > -0.3:
        b = 0.0
    else:
        b = -a / (2.0 + y[j] * y[j])
    out[i, j] = b * a if b > 0.0 and a > 0.0 else b + 2.0 * a


@kernel(differentiable=True, fill={"out": 0})
def filled(k: Any, x: Any, y: Any, out: Any) -> None:
    i, j = k.at
    if x[i, j] <= 0.0:
        return
    out[i, j] = x[i, j] * y[j]


@kernel(differentiable=True)
def product(k: Any, x: Any, y: Any, out: Any) -> None:
    i, j = k.at
    total = 0.0
    for n in range(x.shape[1]):
        total += x[i, n] * y[n] * (n + 1)
    out[i, j] = total * x[i, j]


@kernel(differentiable=True)
def recurrence(k: Any, x: Any, y: Any, out: Any) -> None:
    i, j = k.at
    p, q = x[i, j], y[j]
    for n in range(x.shape[1] - 1, -1, -1):
        p, q = p * 0.5 + q / (1.0 + x[i, n] * x[i, n]), p * y[n] / (1.0 + p * p)
        if p > 0.4:
            q = q + 0.1 * k.math.sqrt(p)
    out[i, j] = p + q


@kernel(differentiable=True)
def nested(k: Any, x: Any, y: Any, out: Any) -> None:
    i, j = k.at
    total = y[j]
    for n in range(0, x.shape[1], 2):
        part = 1.0
        for m in range(n, x.shape[1]):
            part *= 1.0 + 0.1 * x[i, m] / (1.0 + total * total)
        total += part * 0.2 * x[i, n]
    out[i, j] = total


@kernel(differentiable=True)
def borders(k: Any, x: Any, y: Any, out: Any) -> None:
    i, j = k.at
    total = y.get(j + 1, border="clamp") * x.get(i - 1, j, border="wrap")
    for n in k.static((-1, 1)):
        total = total + x.get(i, j + n, border="mirror") * 0.5 + x.get(i + n, j, border=y[j])
    out[i, j] = max(total, min(x[i, j], 2.0)) + abs(x[i, j])


@kernel(differentiable=True)
def written_over(k: Any, x: Any, y: Any, out: Any) -> None:
    i, j = k.at
    out[i, j] = x[i, j] * 3.0
    for n in range(y.shape[0]):
        if n < 2:
            out[i, j] = x[i, j] * y[n]


@kernel(differentiable=True, inout={"out": "x"})
def kept(k: Any, x: Any, y: Any, out: Any) -> None:
    i, j = k.at
    if x[i, j] < 0.2:
        out[i, j] = x[i, j] * y[j]


@kernel(differentiable=True)
def vectors(k: Any, x: Any, y: Any, out: Any) -> None:
    i, j = k.at
    v = k.make([x[i, j], y[j]]) * k.splat(x[i, 0], 2)
    out[i, j] = v[0] * v[1] + k.fma(v[1], x[i, j], y[0])


@kernel(differentiable=True, fill={"out": 0})
def scattered(k: Any, x: Any, y: Any, out: Any) -> None:
    i, j = k.at
    target = (i * 3 + j) % x.shape[0]
    out.atomic("add", (target, j), x[i, j] * y[j])
    out.atomic("add", (target, 0), y[j] * y[j])


@kernel(
    differentiable=True, workgroup_size=4, grid=lambda x, y, out: (-(-x.shape[0] // 4), x.shape[1])
)
def by_grid(k: Any, x: Any, y: Any, out: Any) -> None:
    i, j = k.global_id(0), k.workgroup_id(1)
    if i >= x.shape[0]:
        return
    out[i, j] = x[i, j] * x[i, j] * y[j]


KERNELS = [
    branches, filled, product, recurrence, nested, borders, written_over, kept, vectors, scattered,
    by_grid,
]  # fmt: skip

VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "dense": lambda x: x,
    "reversed": lambda x: x[..., ::-1],
    "transposed": lambda x: x.mT if x.ndim > 1 else x[::-1],
    "strided": lambda x: x[..., ::2],
    "broadcast": lambda x: x[..., :1].broadcast_to(x.shape),
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("made", KERNELS, ids=lambda k: k.name)
def test_derivatives_are_those_of_differences(made: Any, view: str) -> None:
    op, cut = op_of(made), VIEWS[view]

    def function(x: Tensor, y: Tensor) -> Tensor:
        # The cotangent is a view as well.
        x, y = cut(x), cut(y)
        return cut(op(x, y[: x.shape[1]])) * 1.0

    size = 5 if view != "strided" else 9
    # A kernel that fills leaves a bend at 0.3: values are far from it.
    x = np.sign(normal(size, size)) * RNG.uniform(0.5, 1.5, (size, size))
    check_gradients(function, x, RNG.uniform(0.5, 1.5, size), device="cpu")


@pytest.mark.sample(1)
@pytest.mark.parametrize("made", [recurrence, nested], ids=lambda k: k.name)
@pytest.mark.parametrize("size", [3, 7])
def test_loops_of_a_size_that_is_not_built_in(made: Any, size: int) -> None:
    # The first size is built in: then what rounds carry is kept, and else computed anew.
    op = op_of(made)
    for n in (2, size):
        check_gradients(op, normal(n, n), normal(n), device="cpu")


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("made", [k for k in KERNELS if k is not filled], ids=lambda k: k.name)
def test_devices_and_dtypes_agree(where: Device, dtype: str, made: Any) -> None:
    if made is scattered and dtype != "float32":
        pytest.skip("atomics are of 32 bits and more")
    op = op_of(made)
    x, y = (RNG.integers(-6, 6, s).astype(np.float32) / 4 + 0.125 for s in ((4, 4), (4,)))
    w = RNG.integers(-4, 4, (4, 4)).astype(np.float32)

    def gradients(device: Any, dtype: Any) -> list[Any]:
        both = [pyrite.tensor(a, dtype=dtype, device=device) for a in (x, y)]
        weight = pyrite.tensor(w, dtype=dtype, device=device)
        loss = lambda both: (op(*both) * weight).sum()  # noqa: E731
        found = pyrite.grad(loss)(both)
        assert [g.dtype for g in found] == [t.dtype for t in both]
        return [g.numpy().astype(np.float64) for g in found]

    tolerance = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}[dtype]
    for got, want in zip(gradients(where, dtype), gradients("cpu", "float64"), strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (3, 0)])
def test_sizes_of_0_and_1(where: Device, shape: tuple[int, int]) -> None:
    op = op_of(branches)
    x, y = pyrite.ones(shape, device=where), pyrite.ones(shape[1:], device=where)

    found = pyrite.grad(lambda x, y: op(x, y).sum())(x, y)
    of_y = pyrite.grad(lambda y: op(x, y).sum())(y)

    # a > 0.3 and y > 0: out = (a y) a
    assert found.tolist() == np.full(shape, 2.0).tolist()
    assert of_y.tolist() == np.full(shape[1:], float(shape[0])).tolist()


DOMAINS = {
    "acosh": (1.5, 2.5), "log": (0.5, 2), "log2": (0.5, 2), "log10": (0.5, 2), "rsqrt": (0.5, 2),
    "sqrt": (0.5, 2), "lgamma": (0.5, 3), "digamma": (0.5, 3), "pow": (0.5, 2),
    "floor_divide": (1.1, 1.9), "remainder": (1.1, 1.9), "truncated_remainder": (1.1, 1.9),
}  # fmt: skip
BINARY = (
    "minimum", "maximum", "copysign", "floor_divide", "remainder", "truncated_remainder", "pow",
    "hypot", "atan2",
)  # fmt: skip


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", MATHEMATICS)
def test_every_rule_of_the_mathematics_is_right(name: str) -> None:
    @kernel(differentiable=True)
    def unary(k: Any, x: Any, out: Any) -> None:
        out[k.at] = getattr(k.math, name)(x[k.at])

    @kernel(differentiable=True)
    def binary(k: Any, x: Any, y: Any, out: Any) -> None:
        out[k.at] = getattr(k.math, name)(x[k.at], y[k.at])

    low, high = DOMAINS.get(name, (0.1, 0.9))
    x = RNG.uniform(low, high, 6)
    if name in BINARY:
        other = np.where(np.arange(6) % 2, 0.37, 2.0) if "divide" in name else x[::-1] + 0.05
        check_gradients(op_of(binary), x, other, device="cpu")
    else:
        check_gradients(
            op_of(unary), x if name in DOMAINS else x * (-1) ** np.arange(6), device="cpu"
        )


def test_equal_operands_share_the_gradient_as_tensors_do(where: Device) -> None:
    @kernel(differentiable=True)
    def extremes(k: Any, x: Any, y: Any, out: Any) -> None:
        out[k.at] = max(x[k.at], y[k.at]) + 10.0 * k.math.minimum(x[k.at], y[k.at])

    x = pyrite.tensor([1.0, 2.0, 3.0], device=where)
    got = pyrite.grad(lambda x, y: op_of(extremes)(x, y).sum())(x, x[::-1])

    assert got.tolist() == [10.0, 5.5, 1.0]


def test_several_outputs_numbers_and_indices_from_a_tensor(where: Device) -> None:
    @kernel(differentiable=True, fill={"count": 0})
    def gathered(
        k: Any, x: Any, at: Any, out: Any, square: Any, count: Any, *, scale: float
    ) -> None:
        (i,) = k.at
        v = x[at[i]] * scale
        out[i] = v
        square[i] = v * v
        count.atomic("add", (), 1)

    @custom_op(
        infer=lambda x, at, *, scale: (
            TensorType(at.shape, x.dtype), TensorType(at.shape, x.dtype),
            TensorType((), pyrite.int32),
        ),
        kernels=[gathered],
    )  # fmt: skip
    def gather(x: Tensor, at: Tensor, /, *, scale: float) -> Any:
        """Elements and their squares."""
        ...

    x = pyrite.tensor([1.0, 2.0, 3.0], device=where)
    at = pyrite.tensor([2, 0, 2, 2], dtype="int32", device=where)

    def loss(x: Tensor, scale: float) -> Tensor:
        out, square, _ = gather(x, at, scale=scale)
        return out.sum() + square.sum()

    for scale in (0.5, 2.0):
        got = pyrite.grad(lambda x: loss(x, scale))(x)  # noqa: B023
        # scale + 2 x scale^2, as often as it is read
        want = [n * (scale + 2 * v * scale**2) for v, n in ((1.0, 1), (2.0, 0), (3.0, 3))]
        assert got.tolist() == want
    # One of the outputs alone is used.
    assert pyrite.grad(lambda x: gather(x, at, scale=3.0)[0].sum())(x).tolist() == [3.0, 0.0, 9.0]


def test_a_grid_of_its_own_is_asked_at_every_call(where: Device) -> None:
    @kernel(differentiable=True, workgroup_size=4, grid=lambda x, out, *, rows: (rows, 1))
    def first_rows(k: Any, x: Any, out: Any, *, rows: Any) -> None:
        i = k.workgroup_id(0)
        if k.local_id(0) < x.shape[1]:
            out[i, k.local_id(0)] = x[i, k.local_id(0)] * x[i, k.local_id(0)] * rows

    @custom_op(infer=lambda x, *, rows: TensorType((rows, x.shape[1]), x.dtype),
               kernels=[first_rows])  # fmt: skip
    def op(x: Tensor, /, *, rows: int) -> Any:
        """Squares of the first rows, times how many they are."""

    x = pyrite.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], device=where)
    for rows in (2, 2, 3, 1, 2):
        found = pyrite.grad(lambda x, rows=rows: op(x, rows=rows).sum())(x)
        want = x.numpy() * 2 * rows * (np.arange(3) < rows)[:, None]
        assert found.tolist() == want.tolist()


def test_an_input_may_be_left_out(where: Device) -> None:
    @kernel(differentiable=True)
    def scaled(k: Any, x: Any, y: Any, out: Any) -> None:
        out[k.at] = x[k.at] * x[k.at] if y is None else x[k.at] * y[k.at]

    @custom_op(infer=lambda x, y: x, kernels=[scaled])
    def op(x: Tensor, y: Tensor | None = None, /) -> Tensor:
        """Squared or scaled."""
        ...

    x = pyrite.tensor([1.0, 2.0], device=where)

    assert pyrite.grad(lambda x: op(x).sum())(x).tolist() == [2.0, 4.0]
    assert pyrite.grad(lambda x: op(x, x * 3.0).sum())(x).tolist() == [6.0, 12.0]


def test_a_step_of_training_goes_through_a_kernel(where: Device) -> None:
    op = op_of(product)
    x, y = (
        pyrite.tensor(normal(4, 4), dtype="float32", device=where),
        pyrite.ones((4,), device=where),
    )
    loss = lambda y: (op(x, y) ** 2).mean()  # noqa: E731
    before = loss(y).item()

    for _ in range(3):
        y = y - 0.001 * pyrite.grad(loss)(y)

    assert loss(y).item() < before


# ---- what has no derivative ----


def built(k: Any, x: Any, out: Any) -> None:
    with k.while_([x[k.at]]) as loop:  # refused
        loop.condition(loop.carried[0] < 1.0)
        loop.yield_(loop.carried[0] * 2.0)
    out[k.at] = loop.results[0]


def bits(k: Any, x: Any, out: Any) -> None:
    out[k.at] = k.bitcast(k.bitcast(x[k.at], "int32") + 1, "float32")  # refused


def private(k: Any, x: Any, out: Any) -> None:
    memory = k.private("float32", 4)  # refused
    memory[0] = x[k.at]
    out[k.at] = memory[0]


def a_read(k: Any, x: Any, out: Any) -> None:
    out[k.at] = out[k.at] + x[k.at]  # refused


def an_extreme(k: Any, x: Any, out: Any) -> None:
    out.atomic("max", k.at, x[k.at])  # refused


def both(k: Any, x: Any, out: Any) -> None:
    out[k.at] = x[k.at]
    out.atomic("add", 0, x[k.at])  # refused


def a_function(k: Any, x: Any, out: Any) -> None:
    out[k.at] = k.math.trigamma(x[k.at])  # refused


def appended(k: Any, x: Any, out: Any) -> None:
    out.atomic("add", int(out.atomic("add", 0, 0.0)), x[k.at])  # refused


REFUSED: dict[Callable[..., None], str] = {
    built: "a loop that is not counted; write it in Python: while condition",
    bits: "the bits of a float", private: "private memory", a_read: "a read of output out",
    an_extreme: "the atomic 'max'; use 'add'", both: "out written and added to",
    a_function: "functions with a derivative to be differentiated, got k.math.trigamma",
    appended: "AtomicResult",
}  # fmt: skip


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_has_no_derivative_is_named_at_its_line(function: Callable[..., None]) -> None:
    op = op_of(kernel(function, differentiable=True, fill={"out": 0}))  # type: ignore[call-overload]
    x = pyrite.ones((3,), device="cpu") * 0.5

    op(x).tolist()  # It runs.
    with pytest.raises(KernelError, match=re.escape(REFUSED[function])) as raised:
        pyrite.grad(lambda x: op(x).sum())(x)

    source = Path(__file__).read_text().splitlines()
    location = raised.value.location
    assert location is not None
    assert "# refused" in source[int(location.rpartition(":")[2]) - 1]


def test_a_second_derivative_is_refused() -> None:
    op = op_of(branches)
    x, y = pyrite.ones((2, 2), device="cpu"), pyrite.ones((2,), device="cpu")
    first = pyrite.grad(lambda x: op(x, y).sum())

    with pytest.raises(GradientError, match="branches_vjp requires a derivative rule"):
        pyrite.grad(lambda x: first(x).sum())(x)


def test_checks_and_prints_are_those_of_the_kernel_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @kernel(differentiable=True)
    def told(k: Any, x: Any, out: Any) -> None:
        print("x", x[k.at])
        assert x[k.at] > 0.0
        out[k.at] = x[k.at] * x[k.at]

    x = pyrite.tensor([2.0], device="cpu")

    assert pyrite.grad(lambda x: op_of(told)(x).sum())(x).tolist() == [4.0]
    assert capsys.readouterr().out == "x 2.0\n"
