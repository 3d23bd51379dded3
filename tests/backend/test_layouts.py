"""The memory layout of operands does not matter: to no op, on no device, forward or backward.

Each op of the table is called with inputs, and its gradients with cotangents, that lie in memory in
every way that views can make, at the sizes of its examples and at larger ones.  Judges are NumPy
with dense copies, and the device itself with dense copies.  In a full run every input meets
every layout, in changing company; else, and where a turn takes long, a part of them, which changes
with the commit.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op, nn, optim
from pyrite.autodiff import grad
from pyrite.backend.device import device, device_names, device_problem
from pyrite.errors import PyriteError
from pyrite.extension import KernelScope, TensorArgument, kernel
from pyrite.op import OPS
from pyrite.tensor.creation import tensor
from pyrite.testing import Example, examples
from pyrite.testing.growth import grown, large_examples
from pyrite.testing.layouts import LAYOUTS, Layout
from pyrite.types import Array, DType, TensorType, bfloat16, float16, float32, int8

pytestmark = [
    pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning"),
    # Poison: NaN that reaches a product or a cast of NumPy's.
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

DEVICES = [name for name in device_names() if device_problem(name) is None]
DENSE = LAYOUTS["dense"]

#: What a result may differ by, relative to the greatest of them.
#: Of many units of weights around 1, whose steps multiply any difference until nothing agrees.
RECURRENT = ("rnn", "lstm", "gru")

TOLERANCE = {"float32": 3e-5, "float16": 8e-3, "bfloat16": 6e-2}

#: What a dense copy on the device may differ by from NumPy, so many times that.
CONDITION = 300

#: What a result may differ by from NumPy where that is more: so many times what NumPy's own differs
#: by when each input moves to a neighbouring float.  The second derivative of a norm of a constant
#: row is 0, and up to 2 of a row that is one ulp away, with an eps of 1e-5.  What all n elements
#: share, as the rounding of their mean, moves a sum of them by n, and neighbours by the root of n:
#: so times that root.
ULPS = 4

#: Turns of a test that is sampled, and of one that is not: one for each layout, or for half of them
#: where a turn takes long.  Which half varies as the samples do.
FEW, HALF, ALL = 2, len(LAYOUTS) // 2, len(LAYOUTS)

#: Devices on which nearly all the time is the compiler's, so that they get a quarter of the turns.
SLOW = ("wgpu",)

#: Ops whose gradients at values that are alike are 0/0, and of which rounding makes anything.
SINGULAR = {"std": "the slope of the root of a variance of 0"}

each_device = pytest.mark.parametrize("name", DEVICES)


# ---- cases ----


def of_op(op: str) -> list[Example]:
    return [e for e in examples() if e.op.name == op] + list(large_examples(op))


def turns_of(name: str, full: bool, most: int) -> int:
    return (most // 4 if name in SLOW else most) if full else FEW


def turns(rng: random.Random, count: int) -> Iterator[Callable[[tuple[int, ...]], Layout]]:
    """Give for each turn what chooses a layout: each caller meets every layout in time.

    The caller is told from others by the order of calls within a turn.
    """
    orders: list[list[Layout]] = []

    for turn in range(count):
        calls = iter(range(1000))

        def choose(
            shape: tuple[int, ...], turn: int = turn, calls: Iterator[int] = calls
        ) -> Layout:
            number = next(calls)
            if number == len(orders):
                orders.append(rng.sample(list(LAYOUTS.values()), ALL))
            layout = orders[number][turn]
            return layout if layout.applies(shape) else DENSE

        yield choose


@dataclass(frozen=True)
class Laid:
    """An array and how it lies; other inputs as they are, with no layout."""

    values: Any
    layout: Layout | None

    def on(self, name: str) -> Any:
        return self.values if self.layout is None else self.layout(self.values, name)

    def dense_on(self, name: str) -> Any:
        return self.values if self.layout is None else tensor(self.values, device=name)


@dataclass(frozen=True)
class Case:
    example: Example
    inputs: tuple[Laid, ...]

    def __str__(self) -> str:
        laid = [f"{i.values.shape} {i.layout}" for i in self.inputs if i.layout]
        return f"{self.example.id} of {', '.join(laid)} {dict(self.example.sample.attrs)}"

    def call(self, name: str, *, dense: bool = False) -> tuple[Tensor, ...]:
        inputs = [i.dense_on(name) if dense else i.on(name) for i in self.inputs]
        return self.example.call(inputs, name)


def cases(
    op: str, rng: random.Random, count: int, dtypes: Sequence[DType] = (float32,)
) -> Iterator[tuple[Case, Callable[[tuple[int, ...]], Layout]]]:
    """Give cases of an op, and what chooses further layouts of the same turn."""
    found = of_op(op)
    for choose in turns(rng, count):
        example = rng.choice(found)
        is_chaotic = op.split("_")[0] in RECURRENT
        example = (rng.random() < 0.6 and not is_chaotic and grown(example, rng)) or example
        dtype = rng.choice(dtypes)
        yield Case(example, tuple(laid(a, choose) for a in example.arrays(dtype))), choose


def laid(values: Any, choose: Callable[[tuple[int, ...]], Layout]) -> Laid:
    if not isinstance(values, np.ndarray):
        return Laid(values, None)
    layout = choose(values.shape)
    return Laid(layout.settled(values), layout)


# ---- the judges ----


def outcome(compute: Callable[[], Sequence[Tensor]]) -> list[Array] | None:
    """The arrays that something gives, None where the record refuses such values."""
    try:
        return [t.numpy() for t in compute()]
    except PyriteError:
        return None


def difference(
    got: Array, want: Array, dense: Array, moved: Callable[[], float] = float
) -> str | None:
    """What is wrong with a result, None if nothing is; NumPy's is ``moved`` by an ulp of inputs."""
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return f"is {got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    if want.dtype.kind in "iub":
        return None if np.array_equal(got, want) else f"{np.sum(got != want)} integers differ"
    x, y, z = (a.astype(np.float64) for a in (got, want, dense))
    limit = TOLERANCE.get(want.dtype.name, 1e-12)
    limit *= max(1.0, float(np.abs(y[np.isfinite(y)]).max(initial=0)))
    far = off(z, y)
    if far > CONDITION * limit and far > ULPS * moved():
        return f"the dense copy is {far:.2g} from NumPy's"
    # Values that are alike may be ill conditioned: the dense copy says how much.
    if off(x, y) <= limit + 8 * far or off(x, z) <= limit or off(x, y) <= ULPS * moved():
        return None
    return f"is {off(x, y):.2g} from NumPy's dense copy, {off(x, z):.2g} from the device's"


def off(x: Array, y: Array) -> float:
    """The greatest difference; infinite where only one is finite, or they differ in sign."""
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(x - y))
    return float(np.nan_to_num(apart, nan=np.inf).max(initial=0))


class Faults:
    """What was found wrong; none is asked for at the end, so that one run tells of all."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.judged = 0

    def judge(
        self, case: object, want: Sequence[Array], name: str,
        compute: Callable[[bool], Sequence[Tensor]],
        nudged: Callable[[], list[Array] | None] = lambda: None,
    ) -> None:  # fmt: skip
        """Compare what is computed with dense copies, and without, with what is wanted.

        ``nudged`` gives what is wanted of inputs one ulp away; it is asked where results differ.
        """
        self.judged += 1
        try:
            dense = [t.numpy() for t in compute(True)]
            got = [t.numpy() for t in compute(False)]
        except Exception as error:
            self.found.append(f"{case}: {type(error).__name__}: {str(error)[:300]}")
            return
        for number, parts in enumerate(zip(got, want, dense, strict=True)):

            def moved(number: int = number) -> float:
                of = nudged()
                if of is None:
                    return 0.0
                return off(of[number], want[number]) * math.sqrt(want[number].size)

            told = difference(*parts, moved)
            if told:
                self.found.append(f"{case}: result {number} {told}")

    def require_none(self) -> None:
        assert not self.found, f"{len(self.found)} of {self.judged}:\n" + "\n".join(self.found)


# ---- values ----


@each_device
@pytest.mark.parametrize("op", sorted(OPS))
@pytest.mark.sample(20, by="name")
def test_values_do_not_depend_on_layouts(
    name: str, op: str, rng: random.Random, full: bool
) -> None:
    faults = Faults()
    for case, _ in cases(op, rng, turns_of(name, full, ALL)):
        want = outcome(lambda case=case: case.call("numpy", dense=True))
        if want is None:
            continue

        def beside(case: Case = case) -> Any:
            return outcome(lambda: nudged(case, rng).call("numpy", dense=True))

        faults.judge(case, want, name, lambda dense, c=case: c.call(name, dense=dense), beside)
    faults.require_none()


@each_device
@pytest.mark.parametrize("op", sorted(OPS))
@pytest.mark.sample(8, by="name")
def test_values_of_narrow_types_do_not_depend_on_layouts(
    name: str, op: str, rng: random.Random, full: bool
) -> None:
    has = [d for d in (float16, bfloat16) if supports(name, d)]
    faults = Faults()
    for case, _ in cases(op, rng, FEW, has) if has else ():
        want = outcome(lambda case=case: case.call("numpy", dense=True))
        if want is not None:
            faults.judge(case, want, name, lambda dense, c=case: c.call(name, dense=dense))
    faults.require_none()


@each_device
@pytest.mark.parametrize("op", [n for n in sorted(OPS) if OPS[n].accepts in ("any", "number")])
@pytest.mark.sample(8, by="name")
def test_values_of_bytes_do_not_depend_on_layouts(
    name: str, op: str, rng: random.Random, full: bool
) -> None:
    if not supports(name, int8):
        return
    faults = Faults()
    for case, _ in cases(op, rng, FEW):
        narrow = Case(case.example, tuple(as_bytes(i, rng) for i in case.inputs))
        want = integers(lambda c=narrow: c.call("numpy", dense=True))
        if want is not None:
            faults.judge(narrow, want, name, lambda dense, c=narrow: c.call(name, dense=dense))
    faults.require_none()


def supports(name: str, dtype: DType) -> bool:
    return bool(device(name).backend.root.supports(TensorType((), dtype)))


def as_bytes(x: Laid, rng: random.Random) -> Laid:
    """The same layout of small integers, in place of floats."""
    if x.layout is None or x.values.dtype.kind != "f":
        return x
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    return Laid(x.layout.settled(numbers.integers(-3, 4, x.values.shape).astype(np.int8)), x.layout)


def integers(compute: Callable[[], Sequence[Tensor]]) -> list[Array] | None:
    """The results, None where an op takes no integers, or overflows what it makes of them."""
    try:
        found = [t.numpy() for t in compute()]
    except (PyriteError, ValueError, TypeError, IndexError, OverflowError):
        return None
    return found if all(a.dtype.kind in "iub" for a in found) else None


# ---- gradients ----


@custom_op(
    infer=lambda x, cotangent: x,
    body=lambda x, cotangent: x + 0,
    vjp=lambda g, out, x_type, cotangent: (cotangent, None),
)
def handed(x: Tensor, cotangent: Tensor, /) -> Tensor:
    """Return x, and hand back the cotangent as it lies, whatever the gradient of the result is."""
    ...


def nudged(case: Case, rng: random.Random) -> Case:
    """The case with each float moved to one of its neighbours, or left."""
    numbers = np.random.default_rng(rng.randrange(1 << 30))

    def moved(x: Laid) -> Laid:
        if x.layout is None or x.values.dtype != np.float32:
            return x
        to = numbers.choice(np.array([-np.inf, 0, np.inf], np.float32), x.values.shape)
        values = np.where(to == 0, x.values, np.nextafter(x.values, to)).astype(np.float32)
        return Laid(values, x.layout)

    return Case(case.example, tuple(map(moved, case.inputs)))


def differentiable(case: Case) -> list[int]:
    if case.example.op.name in SINGULAR and any(is_alike(i) for i in case.inputs):
        return []
    return [
        p
        for p, i in enumerate(case.inputs)
        if i.layout is not None
        and i.values.dtype == np.float32
        and i.values.size
        and case.example.is_differentiable(p)
    ]


def chosen(positions: list[int], rng: random.Random) -> list[int]:
    """One of the positions, if there are any: in other turns it is another."""
    return [rng.choice(positions)] if positions else []


def is_alike(x: Laid) -> bool:
    return x.layout is not None and x.layout.settle is not np.asarray


def cotangents_of(
    results: Sequence[Array], choose: Callable[[tuple[int, ...]], Layout]
) -> list[Laid | None]:
    rng = np.random.default_rng(5)
    return [
        laid(rng.uniform(-1, 1, r.shape).astype(r.dtype), choose) if r.dtype.kind == "f" else None
        for r in results
    ]


def gradient(
    case: Case, position: int, cotangents: Sequence[Laid | None], name: str, *, dense: bool
) -> Callable[[Tensor], Tensor]:
    """What gives the gradient of one input, at its values, with cotangents that lie as they say."""
    inputs = [i.dense_on(name) if dense else i.on(name) for i in case.inputs]
    given = [c and (c.dense_on(name) if dense else c.on(name)) for c in cotangents]

    def total(x: Tensor) -> Any:
        found: Any = 0.0
        results = case.example.call([*inputs[:position], x, *inputs[position + 1 :]], name)
        for result, cotangent in zip(results, given, strict=True):
            if cotangent is not None:
                found = found + handed(result, cotangent).sum()
        return found

    return grad(total)


def input_of(case: Case, position: int, name: str, *, dense: bool) -> Tensor:
    of = case.inputs[position]
    found: Tensor = of.dense_on(name) if dense else of.on(name)
    return found


GRADIENTS = [n for n in sorted(OPS) if OPS[n].derivative is not None or OPS[n].is_composite]


@each_device
@pytest.mark.parametrize("op", GRADIENTS)
@pytest.mark.sample(8, by="name")
def test_gradients_do_not_depend_on_layouts(
    name: str, op: str, rng: random.Random, full: bool
) -> None:
    faults = Faults()
    for case, choose in cases(op, rng, turns_of(name, full, HALF)):
        results = outcome(lambda case=case: case.call("numpy", dense=True))
        if results is None:
            continue
        cotangents = cotangents_of(results, choose)
        told = f"{case}, cotangents {[c and c.layout for c in cotangents]}"
        for p in chosen(differentiable(case), rng):

            def compute(
                dense: bool, at: str = name, p: int = p, c: Any = (case, cotangents)
            ) -> Any:
                return [
                    gradient(c[0], p, c[1], at, dense=dense)(input_of(c[0], p, at, dense=dense))
                ]

            def beside(compute: Any = compute, case: Case = case, c: Any = cotangents) -> Any:
                moved = (nudged(case, rng), c)
                return outcome(lambda: compute(True, "numpy", c=moved))

            want = outcome(lambda compute=compute: compute(True, "numpy"))
            if want is not None:
                faults.judge(f"{told}, of input {p}", want, name, compute, beside)
    faults.require_none()


@each_device
@pytest.mark.parametrize("op", GRADIENTS)
@pytest.mark.sample(6, by="name")
def test_second_derivatives_do_not_depend_on_layouts(
    name: str, op: str, rng: random.Random, full: bool
) -> None:
    faults = Faults()
    for case, choose in cases(op, rng, max(1, turns_of(name, full, HALF) // 2)):
        results = outcome(lambda case=case: case.call("numpy", dense=True))
        if results is None or not (positions := chosen(differentiable(case), rng)):
            continue
        (p,) = positions
        cotangents = cotangents_of(results, choose)
        (along,) = cotangents_of([case.inputs[p].values], choose)
        told = f"{case}, cotangents {[c and c.layout for c in cotangents]}, along {along}"

        def compute(
            dense: bool, at: str = name, p: int = p, c: Any = (case, cotangents, along)
        ) -> Any:
            first = gradient(c[0], p, c[1], at, dense=dense)
            second = c[2].dense_on(at) if dense else c[2].on(at)
            return [
                grad(lambda x: handed(first(x), second).sum())(input_of(c[0], p, at, dense=dense))
            ]

        def beside(compute: Any = compute, case: Case = case, c: Any = (cotangents, along)) -> Any:
            moved = (nudged(case, rng), *c)
            return outcome(lambda: compute(True, "numpy", c=moved))

        want = outcome(lambda compute=compute: compute(True, "numpy"))
        if want is not None:
            faults.judge(f"{told}, of input {p}", want, name, compute, beside)
    faults.require_none()


# ---- cotangents as losses make them ----

IMAGES = (3, 16, 10, 10)

#: Functions of images, or of the weight that is their second argument.
FUNCTIONS: dict[str, tuple[tuple[tuple[int, ...], ...], Callable[..., Tensor]]] = {
    "group norm": ((IMAGES, (16,)), lambda x, w: x.group_norm(w, num_groups=4)),
    "instance norm": ((IMAGES, (16,)), lambda x, w: x.group_norm(w, num_groups=16)),
    "batch norm": ((IMAGES, (16,)), lambda x, w: x.batch_norm(w)[0]),
    "layer norm": ((IMAGES, (10,)), lambda x, w: x.layer_norm(w)),
    "softmax": ((IMAGES,), lambda x: x.softmax(axis=1)),
    "average pool": ((IMAGES,), lambda x: x.avg_pool(kernel_size=3, padding=1)),
    "max pool": ((IMAGES,), lambda x: x.max_pool(kernel_size=2)),
    "interpolate": ((IMAGES,), lambda x: x.interpolate(size=(13, 7), mode="bilinear")),
    "unfold": ((IMAGES,), lambda x: x.unfold4d(kernel_size=3)),
    "fold": (((2, 36, 80),), lambda x: x.fold4d(output_size=(10, 12), kernel_size=3)),
    "convolution": ((IMAGES, (8, 16, 3, 3)), lambda x, k: x.conv2d(k)),
    "strided convolution": ((IMAGES, (32, 4, 3, 3)), lambda x, k: x.conv2d(k, groups=4, stride=2)),
    "transposed convolution": ((IMAGES, (16, 4, 3, 3)), lambda x, k: x.conv_transpose2d(k)),
    "product": (((129, 33), (33, 65)), lambda x, y: x @ y),
    "attention": (
        ((2, 4, 33, 16), (2, 4, 40, 16)),
        lambda q, k: q.scaled_dot_product_attention(k, k),
    ),
}

#: Losses, and so cotangents: one value for all, for each row, for each channel; transposed, apart.
LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda y: y.sum(),
    "mean of the last axis": lambda y: (y.mean(-1) ** 2).sum(),
    "mean of the first axis": lambda y: (y.mean(0) ** 2).sum(),
    "global pool": lambda y: (y.mean(tuple(range(2, y.ndim))) ** 2).sum(),
    "of the transpose": lambda y: (y.mT.cumulative_sum(axis=-1) ** 2).mean(),
    "of every second": lambda y: (y[..., ::2].flip(-1) ** 2).sum(),
    "of a stack": lambda y: (pyrite.stack([y, y * y], axis=-1) ** 2).mean(0).sum(),
}


@each_device
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.sample(3, by="name")
def test_gradients_of_losses_are_those_of_numpy(name: str, function: str, loss: str) -> None:
    shapes, of = FUNCTIONS[function]
    rng = np.random.default_rng(3)
    arrays = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    found = grad(lambda *given: LOSSES[loss](of(*given)), tuple(range(len(arrays))))
    want, got = (
        [g.numpy() for g in found(*(tensor(a, device=at) for a in arrays))]
        for at in ("numpy", name)
    )
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5 * max(1.0, float(np.abs(y).max())))


# ---- custom kernels ----


@kernel
def added_kernel(k: KernelScope, x: TensorArgument, y: TensorArgument, out: TensorArgument) -> None:
    """Out = x + 3 y."""
    out[k.at] = x[k.at] + y[k.at] * 3.0


@kernel(workgroup_size=32, grid=lambda x, y, out: (x.shape[0],))
def row_kernel(k: KernelScope, x: TensorArgument, y: TensorArgument, out: TensorArgument) -> None:
    """A workgroup sums the products of a row, each invocation every 32nd."""
    lane, row = k.local_id(), k.workgroup_id()
    with k.for_(0, -(-x.shape[1] // 32), carried=[k.const(0.0, float32)]) as loop:
        i = loop.index * 32 + lane
        loop.yield_(loop.carried[0] + x.get(row, i) * y.get(row, i))
    partial = k.shared(float32, 32)
    partial[lane] = loop.results[0]
    k.barrier()
    for half in (16, 8, 4, 2, 1):
        with k.if_(lane < half):
            partial[lane] = partial[lane] + partial[lane + half]
        k.barrier()
    with k.if_(lane == 0):
        out[row] = partial[0]


@custom_op(infer=lambda x, y: x, kernels=[added_kernel], body=lambda x, y: x + y * 3.0)
def added_in_python(x: Tensor, y: Tensor, /) -> Tensor:
    """X + 3 y."""
    ...


@custom_op(
    infer=lambda x, y: TensorType(x.shape[:1], x.dtype), kernels=[row_kernel],
    body=lambda x, y: (x * y).sum(axis=1),
)  # fmt: skip
def row_products(x: Tensor, y: Tensor, /) -> Tensor:
    """Return the sum of the products of each row."""
    ...


def wgsl_ops() -> list[Callable[..., Any]]:
    """The first in WGSL, where there is wgpu."""
    if "wgpu" not in DEVICES:
        return []
    from pyrite.wgpu import kernel as wgsl_kernel

    made = wgsl_kernel(
        """
        @compute @workgroup_size(workgroup_size_x)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            let i = element(id);
            if (i >= out_size) { return; }
            out[i] = x[i] + y[i] * 3.0;
        }
        """,
        name="added",
    )

    @custom_op(infer=lambda x, y: x, kernels=[made], body=lambda x, y: x + y * 3.0)
    def added_in_wgsl(x: Tensor, y: Tensor, /) -> Tensor:
        """X + 3 y."""
        ...

    return [added_in_wgsl]


CUSTOM = [added_in_python, row_products, *wgsl_ops()]


@each_device
@pytest.mark.parametrize("op", CUSTOM, ids=lambda op: op.__name__)
def test_custom_kernels_read_every_layout(
    name: str, op: Callable[..., Tensor], rng: random.Random, full: bool
) -> None:
    faults = Faults()
    for choose in turns(rng, turns_of(name, full, ALL)):
        numbers = np.random.default_rng(2)
        x, y = (laid(numbers.uniform(-1, 1, (33, 70)).astype(np.float32), choose) for _ in "xy")
        want = [op(x.dense_on("numpy"), y.dense_on("numpy")).numpy()]

        def compute(dense: bool, x: Laid = x, y: Laid = y) -> list[Tensor]:
            return [op(*(i.dense_on(name) if dense else i.on(name) for i in (x, y)))]

        faults.judge(f"{x.layout}, {y.layout}", want, name, compute)
    faults.require_none()


# ---- optimisers ----

OPTIMIZERS: dict[str, Callable[[], optim.Optimizer]] = {
    "sgd": lambda: optim.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "adam": lambda: optim.Adam(0.1, amsgrad=True),
    "adamw": lambda: optim.AdamW(0.1),
    "adagrad": lambda: optim.Adagrad(0.1),
    "rmsprop": lambda: optim.RMSprop(0.1, momentum=0.5, centered=True),
    "adan": lambda: optim.Adan(0.1),
    "lion": lambda: optim.Lion(0.1),
    "muon": lambda: optim.Muon(0.1),
}


class Weights(nn.Module):
    """Two weights that lie as they are given."""

    def __init__(self, *values: Tensor) -> None:
        self.first, self.second = (pyrite.Parameter(v) for v in values)


@each_device
@pytest.mark.parametrize("rule", OPTIMIZERS)
@pytest.mark.sample(2, by="name")
def test_steps_do_not_depend_on_layouts(
    name: str, rule: str, rng: random.Random, full: bool
) -> None:
    faults = Faults()
    for choose in turns(rng, turns_of(name, full, ALL)):
        numbers = np.random.default_rng(2)
        weights = [
            laid(numbers.uniform(-1, 1, shape).astype(np.float32), choose)
            for shape in ((33, 17), (16, 24))
        ]
        slopes = [
            laid(numbers.uniform(-1, 1, w.values.shape).astype(np.float32), choose) for w in weights
        ]

        def compute(dense: bool, at: str = name, given: Any = (weights, slopes)) -> list[Tensor]:
            weights, slopes = (
                [i.dense_on(at) if dense else i.on(at) for i in each] for each in given
            )
            model, optimizer = Weights(*weights), OPTIMIZERS[rule]()
            for _ in range(2):
                gradients = grad(
                    lambda m: handed(m.first, slopes[0]).sum() + handed(m.second, slopes[1]).sum()
                )(model)
                model = optimizer.step(model, gradients)
            return [model.first, model.second]

        want = [t.numpy() for t in compute(True, "numpy")]
        told = f"weights {[w.layout for w in weights]}, gradients {[s.layout for s in slopes]}"
        faults.judge(told, want, name, compute)
    faults.require_none()


# ---- the suite itself ----


def test_most_ops_are_judged() -> None:
    """Else the comparisons above would compare nothing."""
    rng = random.Random("most")
    taken = {
        op
        for op in OPS
        for case, _ in cases(op, rng, FEW)
        if outcome(lambda case=case: case.call("numpy", dense=True)) is not None
    }

    assert len(taken) > 0.9 * len(OPS)


def test_every_input_meets_every_layout_in_a_full_run() -> None:
    met = [choose((4, 5, 6, 7)).name for choose in turns(random.Random(1), ALL)]

    assert sorted(met) == sorted(LAYOUTS)


def test_a_cotangent_is_handed_back_as_it_lies() -> None:
    seen = []

    @custom_op(
        infer=lambda x: x, body=lambda x: x + 0, vjp=lambda g, out, x_type: (seen.append(g) or g,)
    )
    def watched(x: Tensor, /) -> Tensor:
        """Return x, and note its cotangent."""
        ...

    x = tensor(np.ones((3, 4), np.float32), device="numpy")
    cotangent = LAYOUTS["every second"](np.ones((3, 4), np.float32), "numpy")
    grad(lambda x: handed(watched(x), cotangent).sum())(x)

    (g,) = seen
    assert g.primitive().strides == cotangent.primitive().strides
