"""Matrix products and convolutions: templates of `pyrite.kernel.template`, given tensors.

What is decided here is which product an op is (convolutions through windows, a batch of rows as one
matrix), which schedule runs it, and which of the schedule's configs.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.layout import merged, row_major
from pyrite.backend.cube.lowering.elementwise import dense
from pyrite.backend.cube.lowering.registry import lowers
from pyrite.backend.cube.operand import bindings_of
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel
from pyrite.kernel.template import implicit_gemm, split_k
from pyrite.kernel.template import panel_gemm as panel
from pyrite.kernel.template import tiled_gemm as tiled
from pyrite.kernel.template.implicit_gemm import Layout, Windows
from pyrite.kernel.template.operand import Digit, OperandMap
from pyrite.kernel.template.product import Product
from pyrite.op import Attributes, Constant, Op
from pyrite.runtime.protocol import Buffer
from pyrite.types import Number, Shape, TensorType

# ---- what a device is to a template ----

Facts = panel.CpuFacts | tiled.GpuLimits

#: Workgroups that a GPU runs at once: WebGPU does not tell; one each on an H200's 132 processors.
_GPU_WORKGROUPS = 128


_facts: WeakKeyDictionary[Launcher, Facts] = WeakKeyDictionary()


def facts_of(launcher: Launcher) -> Facts:
    """Return what the choice of a schedule needs to know of a device."""
    found = _facts.get(launcher)
    if found is None:
        found = _facts[launcher] = _facts_of(launcher)
    return found


def _facts_of(launcher: Launcher) -> Facts:
    machine, report = launcher.machine, launcher.runtime.report()
    if machine.kind == "cpu":
        has_32 = machine.vector == 16 or platform.machine() in ("aarch64", "arm64")
        return panel.CpuFacts(machine.vector * 4, 32 if has_32 else 16, report["threads"])
    default = tiled.GpuLimits()
    return tiled.GpuLimits(
        report.get("shared_bytes", default.shared_bytes),
        report.get("invocations", default.invocations),
        _GPU_WORKGROUPS,
    )


# ---- from a product to launches ----


@dataclass(frozen=True, slots=True)
class Plan:
    """How a product is run: which schedule, and whether as the transposed product."""

    product: Product
    config: panel.PanelConfig | tiled.TiledConfig
    is_swapped: bool = False

    @property
    def workgroups(self) -> int:
        """How many workgroups run it."""
        if isinstance(self.config, tiled.TiledConfig):
            return tiled.workgroups(self.product, self.config)
        return panel.workgroups(self.product, self.config)

    @property
    def parts(self) -> int:
        """How many partial sums there are of each element."""
        return self.config.split_k if isinstance(self.config, tiled.TiledConfig) else 1

    def build(self, grid: int) -> Kernel:
        """Return the kernel."""
        if isinstance(self.config, tiled.TiledConfig):
            return tiled.tiled_gemm(self.product, self.config, grid=grid)
        return panel.panel_gemm(self.product, self.config, grid=grid)

    def build_sum(self, grid: int) -> Kernel:
        """Return the kernel that adds partial sums."""
        assert isinstance(self.config, tiled.TiledConfig)
        return split_k.split_k(self.product, self.config, grid=grid)


#: Fewer rows than this share too little for a tile.
_DIRECT_ROWS = 5


def candidates(product: Product, facts: Facts) -> list[Plan]:
    """Return the plans that are right for a product on a device."""
    if isinstance(facts, panel.CpuFacts):
        found = [Plan(product, c) for c in panel.candidates(product, facts)]
        turned = product.transposed
        return found + [Plan(turned, c, True) for c in panel.candidates(turned, facts)]
    return [
        Plan(product, panel.direct(product)),
        Plan(product.transposed, panel.direct(product.transposed), True),
        *(Plan(product, c) for c in tiled.candidates(product, facts)),
    ]


def select(product: Product, facts: Facts) -> Plan:
    """Return one of the candidates: lanes along the longer side, tiles where rows share enough."""
    is_swapped = product.n < min(product.m, 8)
    if isinstance(facts, panel.CpuFacts):
        is_swapped = is_swapped or _has_windows_along(product)
    turned = product.transposed if is_swapped else product
    if isinstance(facts, panel.CpuFacts):
        return Plan(turned, panel.select(turned, facts), is_swapped)
    if min(product.m, product.n) < _DIRECT_ROWS:
        return Plan(turned, panel.direct(turned), is_swapped)
    return Plan(product, tiled.select(product, facts))


def _has_windows_along(product: Product) -> bool:
    """Whether y's columns are windows whose elements are neighbours along K.

    As rows of x they are copied by vectors, while as rows of y they would have to be turned.
    """
    y = product.y
    return bool(y.windows) and not y.reach(y.columns, 4) and y.reach(y.rows, 4) is not None


Problem = TypeVar("Problem", bound=Hashable)


def contract(
    launcher: Launcher,
    product_of: Callable[[Problem, Facts], Product],
    problem: Problem,
    x: CubeTensor,
    y: CubeTensor,
    target: CubeTensor,
    *,
    plan: Plan | None = None,
) -> None:
    """Run the product that a problem is, on its operands."""
    facts = facts_of(launcher)
    plan = plan or _plan(product_of, problem, facts)
    left, right = (y, x) if plan.is_swapped else (x, y)
    inputs = [*bindings_of(left), *bindings_of(right)]
    key = ("contract", product_of, problem, plan.config)
    if plan.parts == 1:
        launcher.launch(key, plan.build, [*inputs, *bindings_of(target)], plan.workgroups)
        return
    product = plan.product
    sums = product.batch * product.m * product.n * plan.parts
    partial: Buffer = launcher.runtime.allocate(sums * product.accumulator.itemsize)
    launcher.launch(key, plan.build, [*inputs, partial], plan.workgroups)
    bindings: list[Buffer | Number] = [partial, *bindings_of(target)]
    launcher.launch(("add", *key), plan.build_sum, bindings, split_k.workgroups(product))


@lru_cache(maxsize=4096)
def _plan(product_of: Callable[[Any, Facts], Product], problem: Any, facts: Facts) -> Plan:
    return select(product_of(problem, facts), facts)


def _layout(tensor: CubeTensor) -> Layout:
    """The layout, with what the offset divides by: at most 16, the widest vector."""
    offset = min(tensor.offset & -tensor.offset, 16) if tensor.offset else None
    return Layout(tensor.dtype, tensor.strides, offset)


def _zeros(launcher: Launcher, type: TensorType) -> CubeTensor:
    return dense(launcher, Constant(0, TensorType((), type.dtype)), type)


# ---- matrix products ----

Matmul = tuple[Shape, Layout, Layout]


def matmul_product(problem: Matmul, _: Facts) -> Product:
    """Return the product of matrices of a shape (*batch, M, K, N), from their layouts."""
    shape, x, y = problem
    *batch, m, k, n = shape
    out = row_major((*batch, m, n))
    axes = merged(tuple(batch), [x.strides[:-2], y.strides[:-2], out[:-2]])

    def map(layout: Layout, at: int, rows: int, columns: int) -> OperandMap:
        digits = tuple(Digit(size, step) for size, step in zip(*axes[at], strict=True))
        row, column = layout.strides[-2:]
        return OperandMap(
            layout.dtype, digits, (Digit(rows, row),), (Digit(columns, column),), (), layout.offset
        )

    return Product(map(x, 0, m, k), map(y, 1, k, n), map(Layout(x.dtype, out), 2, m, n))


@lowers("matmul")
def matmul(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """(..., M, K) @ (..., K, N); the batch is more rows where all of it shares one matrix y."""
    x, y = inputs
    (type,) = out
    k = x.shape[-1]
    if type.size == 0:
        return [launcher.empty(type)]
    if k == 0:
        return [_zeros(launcher, type)]
    target = launcher.empty(type)
    batch, (m, n) = type.shape[:-2], type.shape[-2:]
    rows = x.reshaped((x.type.size // k, k)) if len(y.shape) == 2 else None
    if rows is not None:
        batch, m, x = (), x.type.size // k, rows
    x, y = x.broadcast_to((*batch, m, k)), y.broadcast_to((*batch, k, n))
    problem = ((*batch, m, k, n), _layout(x), _layout(y))
    contract(launcher, matmul_product, problem, x, y, target)
    return [target]


# ---- convolutions ----


@dataclass(frozen=True, slots=True)
class Convolution:
    """One of the three products of a convolution, with the layouts of its two inputs."""

    windows: Windows
    x: Layout
    y: Layout


def _result_layout(dtype_of: Layout, shape: Shape) -> Layout:
    return Layout(dtype_of.dtype, row_major(shape))


def _lanes(facts: Facts, rows: int, size: int, itemsize: int) -> int:
    """Return the lanes to which rows of images are filled up: few are in vain.

    Where many rows share what is read, a copy is joined from short pieces.
    """
    width = 4
    if isinstance(facts, panel.CpuFacts) and rows < 6:
        width = facts.vector_bytes // itemsize
    while width > 1 and -(-size // width) * width > 1.34 * size:
        width //= 2
    return width


def forward_product(problem: Convolution, facts: Facts) -> Product:
    """Return the convolution itself."""
    w, x = problem.windows, problem.x
    lanes = _lanes(facts, w.outputs, w.counts[-1], x.dtype.compute.itemsize)
    out = _result_layout(x, (w.batch, w.groups * w.outputs, *w.counts))
    return implicit_gemm.forward(w, x, problem.y, out, lanes)


def input_gradient_product(problem: Convolution, facts: Facts) -> Product:
    """Return its transpose in x."""
    w, g = problem.windows, problem.x
    lanes = _lanes(facts, w.channels, w.sizes[-1], g.dtype.compute.itemsize)
    out = _result_layout(g, (w.batch, w.groups * w.channels, *w.sizes))
    return implicit_gemm.input_gradient(w, g, problem.y, out, lanes)


def weight_gradient_product(problem: Convolution, _: Facts) -> Product:
    """Return its transpose in the weight."""
    w, x = problem.windows, problem.x
    out = _result_layout(x, (w.groups * w.outputs, w.channels, *w.kernel_size))
    return implicit_gemm.weight_gradient(w, x, problem.y, out)


def _windows(x: Shape, weight: Shape, counts: Shape, attrs: Attributes) -> Windows:
    groups: int = attrs["groups"]
    return Windows(
        x[0], groups, weight[1], weight[0] // groups, x[2:], weight[2:], counts, attrs["stride"],
        tuple(before for before, _ in attrs["padding"]), attrs["dilation"],
    )  # fmt: skip


def _convolve(
    launcher: Launcher, product_of: Callable[[Convolution, Facts], Product], w: Windows,
    left: CubeTensor, right: CubeTensor, type: TensorType, is_weight_first: bool,
) -> Sequence[CubeTensor]:  # fmt: skip
    """Run one of the products; ``left`` and ``right`` are the op's inputs in its order."""
    if type.size == 0:
        return [launcher.empty(type)]
    if left.type.size == 0 or right.type.size == 0:
        return [_zeros(launcher, type)]
    target = launcher.empty(type)
    problem = Convolution(w, _layout(left), _layout(right))
    x, y = (right, left) if is_weight_first else (left, right)
    contract(launcher, product_of, problem, x, y, target)
    return [target]


@lowers("convolution")
def convolution(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The weight times the windows of x."""
    x, weight = inputs
    (type,) = out
    w = _windows(x.shape, weight.shape, type.shape[2:], attrs)
    return _convolve(launcher, forward_product, w, x, weight, type, True)


@lowers("convolution_input_gradient")
def convolution_input_gradient(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The weight, transposed, times the windows of g."""
    g, weight = inputs
    (type,) = out
    w = _windows(type.shape, weight.shape, g.shape[2:], attrs)
    return _convolve(launcher, input_gradient_product, w, g, weight, type, True)


@lowers("convolution_weight_gradient")
def convolution_weight_gradient(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """The gradient g times the windows of x, summed over all positions and images."""
    x, g = inputs
    (type,) = out
    w = _windows(x.shape, type.shape, g.shape[2:], attrs)
    # The product's left operand is g.
    return _convolve(launcher, weight_gradient_product, w, x, g, type, True)
