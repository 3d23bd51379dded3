"""What is proved of an index holds, and what is not held is not proved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.kernel import Kernel, KernelBuilder, Memory
from pyrite.kernel.bounds import Unproved, addresses, unproved
from pyrite.kernel.bounds.interval import Interval
from pyrite.kernel.interpret.access import Access
from pyrite.kernel.ir import Node, vector
from pyrite.kernel.machine import Machine
from pyrite.testing import Example, examples
from pyrite.testing.guarded import VIEWS, View
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.testing.proofs import MACHINES, ProvingRuntime
from pyrite.testing.strays import COUNT, reading, writing
from pyrite.types import Array, Number, float32, int32, uint32

Touched = dict[Node, list[int]]


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> Touched:
    """The least and the greatest element that each access of the interpreter touches."""
    found: Touched = {}
    check = Access.check_bounds

    def note(self: Any, node: Node, memory: Any, index: Array, mask: Array | None) -> None:
        check(self, node, memory, index, mask)
        inside = index if mask is None else index[np.broadcast_to(mask, index.shape)]
        if inside.size:
            low, high = found.get(node, [1 << 62, -1])
            found[node] = [min(low, int(inside.min())), max(high, int(inside.max()))]

    monkeypatch.setattr(Access, "check_bounds", note)
    return found


def numbers(kernel: Kernel, values: Any) -> dict[Node, Number]:
    pairs = zip(kernel.parameters, values, strict=True)
    return {p: v for p, v in pairs if not isinstance(v, np.ndarray)}


@pytest.mark.parametrize("example", examples_of_kernels(), ids=lambda e: e.kernel.name)
def test_no_access_leaves_where_it_is_said_to_stay(
    example: KernelExample, touched: Touched
) -> None:
    example.check(example.kernel)

    said = addresses(example.kernel, example.workgroups, numbers(example.kernel, example.values))
    assert {node for node, _ in said} >= set(touched)
    for node, where in said:
        if node in touched:
            assert Interval(*touched[node]).is_inside(where)


class Watching(ProvingRuntime):
    """Compares what is said of each launch with what it touched."""

    def __init__(self, machine: Machine, touched: Touched) -> None:
        super().__init__(machine)
        self.touched = touched

    def launch(self, executable: Any, bindings: Any, grid: Any) -> None:
        self.touched.clear()
        super().launch(executable, bindings, grid)
        pairs = zip(executable.kernel.parameters, bindings, strict=True)
        given = {p: b for p, b in pairs if p.kind == "argument"}
        for node, where in addresses(executable.kernel, grid, given) if 0 not in grid else ():
            if node in self.touched:
                assert Interval(*self.touched[node]).is_inside(where), executable.kernel.name


def views() -> Iterator[Any]:
    """Give the first example of each op with every view, each further one with one, in turns."""
    for example in examples():
        for view in (VIEWS[example.number % len(VIEWS)],) if example.number else VIEWS:
            yield pytest.param(example, view, id=f"{example.id}-{view.__name__}")


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize(("example", "view"), [*views()])
@pytest.mark.sample(60, by="name")
def test_what_is_proved_of_an_ops_kernels_holds(
    name: str, view: View, example: Example, touched: Touched
) -> None:
    """And only kernels that are listed, each with its reason, have accesses that are not proved."""
    runtime = Watching(MACHINES[name], touched)
    device: Any = Device(CubeBackend(runtime))
    inputs = [view(a, device) if isinstance(a, np.ndarray) else a for a in example.arrays(float32)]

    for result in example.call(inputs, device):
        result.numpy()

    assert set(runtime.unproved) <= set(UNPROVED)


#: Kernels of which the analysis does not see that they stay inside, and why they do.
UNPROVED = {
    **dict.fromkeys(
        ("copy", "equal", "grid_sample", "rnnt_loss", "rnnt_loss_backward"),
        "as pool: a vector's last lanes are masked by places that are not seen to be its index; on "
        "a GPU rnnt_loss folds by a tree besides",
    ),
    "argwhere": "it writes where a scan has counted to, which is less than the count of all",
    "move": "as pool",
    "overlap": "the windows over an element are counted from both ends at once",
    "panel_gemm": "the last panel is masked by what is left of a carried count",
    "pool": "windows that the padding cuts are read by lanes that a mask of other places allows",
    "resample": "indices come from a table, which the lowering made for these sizes",
    "scatter_tiles": "a rank is the number of smaller words of a tile",
    "sort_bitonic": "partners are found by xor, inside of a power of two",
    "sort_rank": "a rank is the number of smaller elements",
    "taps": "as overlap",
    **dict.fromkeys(
        (
            "tiled attention",
            "tiled attention gradient of keys",
            "tiled attention gradient of queries",
        ),
        "vectors of a turned tile are exchanged by xor, inside of a power of two",
    ),
    **dict.fromkeys(
        # Reductions, and composites that are folds on a GPU.
        (
            *("all", "any", "max", "min", "prod", "sum", "mean", "avg_pool", "count_nonzero"),
            *("cov", "logsumexp", "max_abs", "scaled_dot_product_attention", "std", "var"),
            *("is_nonzero", "max_of_numbers"),
            *("affine_grid", "ctc_loss", "ctc_loss_backward", "var_mean"),
            "gru",
            "lstm",
            "rnn",
        ),
        "a tree halves shared memory, and reads the other half only below the half",
    ),
}


@pytest.mark.parametrize("by", [-1, 1, 7])
def test_a_stray_is_not_proved_and_its_line_is_shown(by: int) -> None:
    (read,), (written,) = [found_of(kernel(by), COUNT) for kernel in (reading, writing)]

    assert "load x" in read.line
    assert "store y" in written.line
    assert read.found == written.found == Interval(by, COUNT - 1 + by)
    assert not found_of(reading(0), COUNT)


def found_of(kernel: Kernel, workgroups: int, **sizes: int) -> list[Unproved]:
    """What is not proved where buffers have `COUNT` elements, or those sizes."""
    extents = {p: Interval(0, sizes.get(p.attr[1], COUNT) - 1) for p in kernel.buffers}
    return unproved(kernel, (workgroups,), {}, extents)


def builder() -> tuple[KernelBuilder, Memory, Memory]:
    b = KernelBuilder("k", workgroup_size=8)
    return b, b.buffer("x", float32, "read"), b.buffer("y", float32, "write")


def test_a_mask_proves_as_much_as_it_says() -> None:
    b, x, y = builder()
    i = b.global_id()
    y.store(i, x.load(i, mask=i < 20), mask=i < 20)

    assert not found_of(b.build(), 3, x=20, y=20)
    assert len(found_of(b.build(), 3, x=19, y=19)) == 2
    assert not found_of(b.build(), 2, x=16, y=16)


def test_coordinates_are_bounded_each_by_its_axis() -> None:
    b, x, y = builder()
    i = b.global_id()
    with b.if_(i < 20):
        y[i] = x[(i // 4) * 8 + i % 4]

    assert not found_of(b.build(), 3, x=36, y=20)
    assert len(found_of(b.build(), 3, x=35, y=20)) == 1


@pytest.mark.parametrize("bound", [89, 90, 91])
def test_a_mask_of_lanes_bounds_a_vector(bound: int) -> None:
    b, x, y = builder()
    start = b.global_id() * 4
    inside = b.splat(start, 4) + b.const((0, 1, 2, 3), vector(int32, 4)) < bound
    y.store(start, x.load(start, width=4, mask=inside), mask=inside)

    assert bool(found_of(b.build(), 3, x=90, y=90)) == (bound > 90)


@pytest.mark.parametrize("step", [3, 4])
def test_a_counter_ends_where_its_step_leads(step: int) -> None:
    b, x, y = builder()
    with b.for_(0, 24, step=step) as loop:
        y.store(loop.index, x.load(loop.index, width=4))

    assert bool(found_of(b.build(), 1, x=24, y=24)) == (step == 3)


def test_a_carried_value_is_known_if_it_grows_evenly_and_else_may_be_anything() -> None:
    b, x, y = builder()
    zero = b.const(0, int32)
    with b.for_(0, 5, carried=[zero, b.const(1, int32)]) as loop:
        even, power = loop.carried
        y[even] = x[power]
        loop.yield_(even + 2, power * 2)

    assert [one.line.split()[0] for one in found_of(b.build(), 1, x=17, y=11)] == ["%3:"]


def test_what_was_loaded_is_bounded_by_conditions_alone() -> None:
    b = KernelBuilder("gather")
    x, at = b.buffer("x", float32, "read"), b.buffer("at", int32, "read")
    y = b.buffer("y", float32, "write")
    i = b.global_id()
    index = at[i]
    y[i] = x.load(index, mask=(index >= 0) & (index < 7), other=0.0)

    assert not found_of(b.build(), COUNT, x=7)
    assert len(found_of(b.build(), COUNT, x=6)) == 1


@pytest.mark.parametrize(("size", "most"), [(7, 6), (7, 7), (-1, 7)])
def test_a_comparison_without_the_sign_bounds_an_index_at_both_ends(size: int, most: int) -> None:
    b = KernelBuilder("gather")
    x, at = b.buffer("x", float32, "read"), b.buffer("at", int32, "read")
    y, n = b.buffer("y", float32, "write"), b.scalar("n", int32)
    i = b.global_id()
    index = at[i]
    inside = b.bitcast(index, uint32) < b.cast(n, uint32)
    y[i] = x.load(index, mask=inside, other=0.0)
    kernel = b.build()

    extents = {p: Interval(0, COUNT - 1) for p in kernel.buffers} | {
        p: Interval(0, most - 1) for p in kernel.buffers if p.attr[1] == "x"
    }
    found = unproved(kernel, (COUNT,), {node(kernel, "n"): size}, extents)

    # Below -1 without its sign is all but one number.
    assert bool(found) == (size < 0 or most < size)


def node(kernel: Kernel, name: str) -> Node:
    return next(p for p in kernel.parameters if p.attr[1] == name)


def test_arithmetic_that_may_overflow_proves_nothing() -> None:
    b, x, y = builder()
    i = b.global_id()
    y[i] = x.load(i, mask=i * 200_000_000 < 10)

    assert found_of(b.build(), 3, x=8, y=24)
