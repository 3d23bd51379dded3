"""Contractions: templates of `pyrite.kernel.template`, given tensors.

A lowering says which `Product` an op is; what is decided here is which schedule runs it on a
device, and which of the schedule's configs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import bindings_of
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Kernel
from pyrite.kernel.machine import Machine
from pyrite.kernel.template import dot_product as dot
from pyrite.kernel.template import panel_config as panel
from pyrite.kernel.template import split_k
from pyrite.kernel.template import tiled_gemm as tiled
from pyrite.kernel.template.implicit_gemm import Layout
from pyrite.kernel.template.panel_gemm import panel_gemm
from pyrite.kernel.template.product import Product
from pyrite.runtime.protocol import Buffer
from pyrite.types import Number

# ---- from a product to launches ----


@dataclass(frozen=True, slots=True)
class Plan:
    """How a product is run: which schedule, and whether as the transposed product."""

    product: Product
    config: panel.PanelConfig | dot.DotConfig | tiled.TiledConfig
    is_swapped: bool = False

    @property
    def workgroups(self) -> int:
        """How many workgroups run it."""
        if isinstance(self.config, tiled.TiledConfig):
            return tiled.workgroups(self.product, self.config)
        if isinstance(self.config, dot.DotConfig):
            return dot.workgroups(self.product, self.config)
        return panel.workgroups(self.product, self.config)

    @property
    def parts(self) -> int:
        """How many partial sums there are of each element."""
        return self.config.split_k if isinstance(self.config, tiled.TiledConfig) else 1

    def build(self, grid: int) -> Kernel:
        """Return the kernel."""
        if isinstance(self.config, tiled.TiledConfig):
            return tiled.tiled_gemm(self.product, self.config, grid=grid)
        if isinstance(self.config, dot.DotConfig):
            return dot.dot_product(self.product, self.config, grid=grid)
        return panel_gemm(self.product, self.config, grid=grid)

    def build_sum(self, grid: int) -> Kernel:
        """Return the kernel that adds partial sums."""
        return split_k.split_k(self.product, self.parts, grid=grid)


#: Fewer rows than this share too little for a tile.
_DIRECT_ROWS = 5

#: An invocation sums no more terms than this; longer sums are cut in parts, which run at once.  And
#: they have to be: Mesa's llvmpipe silently ends all loops of an invocation after 65535 rounds.
_DIRECT_TERMS = (1 << 16) - 1


def candidates(product: Product, machine: Machine) -> list[Plan]:
    """Return the plans that are right for a product on a device."""
    if machine.kind == "cpu":
        found: list[Plan] = []
        for of, is_swapped in ((product, False), (product.transposed, True)):
            found += [Plan(of, c, is_swapped) for c in panel.candidates(of, machine)]
            found += [Plan(of, c, is_swapped) for c in dot.candidates(of, machine)]
        return found
    return [
        Plan(product, panel.direct(product)),
        Plan(product.transposed, panel.direct(product.transposed), True),
        *(Plan(product, c) for c in tiled.candidates(product, machine)),
    ]


def select(product: Product, machine: Machine) -> Plan:
    """Return one of the candidates: lanes along the longer side, tiles where rows share enough."""
    is_swapped = product.n < min(product.m, 8)
    if machine.kind == "cpu":
        is_swapped = is_swapped or _has_windows_along(product)
    turned = product.transposed if is_swapped else product
    if machine.kind == "cpu":
        config = dot.select(turned, machine) or panel.select(turned, machine)
        return Plan(turned, config, is_swapped)
    if min(product.m, product.n) < _DIRECT_ROWS and product.k <= _DIRECT_TERMS:
        return Plan(turned, panel.direct(turned), is_swapped)
    return Plan(product, tiled.select(product, machine))


def _has_windows_along(product: Product) -> bool:
    """Whether y's columns are windows whose elements are neighbours along K.

    As rows of x they are copied by vectors, while as rows of y they would have to be turned.
    """
    y = product.y
    return bool(y.windows) and not y.reach(y.columns, 4) and y.reach(y.rows, 4) is not None


Problem = TypeVar("Problem", bound=Hashable)


def contract(
    launcher: Launcher,
    product_of: Callable[[Problem, Machine], Product],
    problem: Problem,
    x: CubeTensor,
    y: CubeTensor,
    target: CubeTensor,
    *,
    plan: Plan | None = None,
) -> None:
    """Run the product that a problem is, on its operands."""
    machine = launcher.machine
    plan = plan or _plan(product_of, problem, machine)
    left, right = (y, x) if plan.is_swapped else (x, y)
    inputs = [*bindings_of(left), *bindings_of(right)]
    key = ("contract", product_of, problem, plan.config)
    if plan.parts == 1:
        launcher.launch(key, plan.build, [*inputs, *bindings_of(target)], plan.workgroups)
        return
    product = plan.product
    sums = product.batch * product.m * product.n * plan.parts
    partial = launcher.allocate(sums * product.accumulator.itemsize)
    launcher.launch(key, plan.build, [*inputs, partial], plan.workgroups)
    bindings: list[Buffer | Number] = [partial, *bindings_of(target)]
    launcher.launch(("add", *key), plan.build_sum, bindings, split_k.workgroups(product))


@lru_cache(maxsize=4096)
def _plan(product_of: Callable[[Any, Machine], Product], problem: Any, machine: Machine) -> Plan:
    return select(product_of(problem, machine), machine)


def layout_of(tensor: CubeTensor) -> Layout:
    """Return the layout, with what the offset divides by: at most 16, the widest vector."""
    offset = min(tensor.offset & -tensor.offset, 16) if tensor.offset else None
    return Layout(tensor.dtype, tensor.strides, offset)
