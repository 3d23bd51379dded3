"""`pyrite.explain`: kernels with their ops, lines and times."""

from __future__ import annotations

import gc
import json
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import pyrite
from pyrite.backend.explanation import listeners, report
from pyrite.backend.explanation.launched import takers
from pyrite.backend.explanation.operations import peak_operations
from pyrite.kernel import KernelBuilder
from pyrite.runtime.protocol import BundledLaunch
from pyrite.types import float32

X = np.random.default_rng(3).standard_normal((9, 33), dtype=np.float32)


def here(text: str) -> str:
    """Return the line of this file that ends with a comment."""
    with open(__file__) as source:
        lines = source.read().splitlines()
    return f"{__file__}:{next(n for n, line in enumerate(lines, 1) if line.endswith(text))}"


def test_a_kernel_has_the_ops_and_lines_that_it_computes() -> None:
    device = pyrite.fusion("cpu", after=0)
    x = pyrite.tensor(X, device=device)
    with pyrite.explain() as found:
        y = x * 2 + 1  # first
        y = y.tanh()  # second
        product = y @ y.mT  # product
        product.numpy()
    tanh, matmul = found.kernels
    assert tanh.ops == ("multiply", "add", "tanh")
    assert tanh.lines == (here("# first"), here("# second"))
    assert matmul.lines == (here("# product"),)
    assert matmul.launches >= 1
    assert tanh.nbytes == 2 * X.nbytes
    assert 0 < tanh.seconds <= found.seconds
    assert found.syncs == 1
    assert not found.fallbacks
    assert "tanh" in tanh.source


def test_a_device_without_fusion_is_explained_op_by_op() -> None:
    x = pyrite.tensor(X, device="cpu")
    with pyrite.explain() as found:
        (x + 1).exp().numpy()  # plain
    assert [use.ops for use in found.kernels] == [("add",), ("exp",)]
    assert {use.lines for use in found.kernels} == {(here("# plain"),)}


def test_kernels_of_a_compiled_step_are_told_in_the_order_of_its_program() -> None:
    device = pyrite.fusion("cpu", after=0)

    @pyrite.compile
    def step(x: pyrite.Tensor, y: pyrite.Tensor) -> pyrite.Tensor:
        return ((x @ y).softmax(1) @ y.mT).sort()[0].cumsum(0)

    # The last op takes the least time, and the first one the most.
    x, y = (
        pyrite.tensor(np.ones(shape, np.float32), device=device) for shape in ((7, 300), (300, 40))
    )
    told = []
    for _ in range(7):
        with pyrite.explain() as found:
            step(x, y).numpy()
        told.append([(use.name, use.ops, use.taken_by) for use in found.kernels])
        ran = [(one.kernel.name, one.ops, one.taken_by) for one in found.launched]
        assert told[-1] == [*dict.fromkeys(ran)]
    assert told[-1] == told[-2]
    ops = [name for _, of, _ in told[-1] for name in of]
    assert (ops[0], ops[-1]) == ("matmul", "cumulative_sum")


def test_what_a_border_of_a_convolution_mends_is_not_counted_where_nothing_is_mended() -> None:
    g = pyrite.ones((2, 3, 9, 9), device="cpu")
    weight = pyrite.ones((3, 4, 3, 3), device="cpu")
    with pyrite.explain() as found:
        g.conv_transpose2d(weight).numpy()
    (border,) = [use for use in found.kernels if use.name == "convolution_border"]
    # It asks whether a weight is finite, by bits.
    assert border.operations == 0


def test_runs_of_a_kernel_are_added_up_and_values_are_the_same() -> None:
    device = pyrite.fusion("cpu", after=0)
    x = pyrite.tensor(X, device=device)
    expected = (x.exp() * 3).numpy()
    with pyrite.explain() as found:
        for _ in range(4):
            np.testing.assert_array_equal((x.exp() * 3).numpy(), expected)
    (use,) = found.kernels
    assert use.launches == len(found.launched) == 4


def test_blocks_may_be_nested_and_end_by_an_error() -> None:
    x = pyrite.tensor(X, device=pyrite.fusion("cpu", after=0))

    def fail() -> None:
        with pyrite.explain() as block:
            inner.append(block)
            x.exp().numpy()
            raise ZeroDivisionError

    inner: list[pyrite.Explanation] = []
    with pyrite.explain() as outer:
        with pytest.raises(ZeroDivisionError):
            fail()
        x.sin().numpy()
    x.cos().numpy()
    assert [use.ops for use in inner[0].kernels] == [("exp",)]
    assert [use.ops for use in outer.kernels] == [("exp",), ("sin",)]
    assert not listeners


def test_another_thread_is_seen() -> None:
    x = pyrite.tensor(X, device=pyrite.fusion("cpu", after=0))
    with pyrite.explain() as found:
        thread = threading.Thread(target=lambda: x.exp().numpy())
        thread.start()
        thread.join()
    assert [use.ops for use in found.kernels] == [("exp",)]


def test_it_is_a_table_json_and_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    x = pyrite.tensor(X, device=pyrite.fusion("cpu", after=0))
    with pyrite.explain() as found:
        (x.exp() @ x.mT).numpy()
    text = str(found)
    assert max(map(len, text.splitlines())) <= 100
    assert "matmul" in text
    assert text.splitlines()[-1].endswith("1 reads that waited")
    kernels = json.loads(found.to_json())["kernels"]
    assert {tuple(kernel["ops"]) for kernel in kernels} == {use.ops for use in found.kernels}
    events = json.loads(found.chrome_trace())["traceEvents"]
    assert len(events) == len(found.launched)
    assert events[0]["ts"] == 0
    assert all(event["dur"] > 0 for event in events)
    assert str(pyrite.Explanation()).splitlines()[-1].startswith("0 launches")


def test_it_says_why_fusion_ended_and_what_was_new() -> None:
    device = pyrite.fusion("cpu", after=0)
    x = pyrite.tensor(X, device=device)

    def run() -> tuple[pyrite.Tensor, pyrite.Tensor]:
        scaled = x * 0.25
        return scaled, scaled.tanh() @ x.mT

    with pyrite.explain() as found:
        for _ in range(3):
            scaled, product = run()
            product.numpy()
    del scaled
    assert (found.plans, found.hits) == (1, 2)
    products = {use.name for use in found.kernels if "matmul" in use.ops}
    (first,) = [use for use in found.kernels if "tanh" in use.ops]
    assert set(first.taken_by) <= {*products, "held"}
    assert set(first.taken_by) & products
    assert [use for use in found.kernels if use.taken_by == ("held",)]
    assert all(use.share > 0 for use in found.kernels)
    assert "target triple" in first.device_source
    facts = json.loads(found.to_json())
    assert (facts["plans"], facts["hits"]) == (1, 2)
    assert {tuple(kernel["taken_by"]) for kernel in facts["kernels"]} == {
        use.taken_by for use in found.kernels
    }
    assert "written for" in str(found)


def test_what_a_device_ran_before_is_not_taken_off_when_it_goes() -> None:
    device = pyrite.fusion("cpu", after=0)
    x = pyrite.tensor(X, device=device)
    for _ in range(4):
        (x * 0.25 + 1).numpy()
    with pyrite.explain() as found:
        (x * 0.25 + 1).numpy()
        del x, device
        gc.collect()
    assert (found.plans, found.hits) == (0, 1)


@pytest.mark.parametrize("name", ["cpu", "wgpu"])
def test_times_are_of_the_devices_own_clock_where_it_has_one(name: str) -> None:
    x = pyrite.tensor(X, device=pyrite.fusion(name, after=0))
    expected = np.exp(X) * 3
    with pyrite.explain() as found:
        for _ in range(2):
            np.testing.assert_allclose((x.exp() * 3).numpy(), expected, rtol=1e-5)
    (use,) = found.kernels
    assert use.has_device_time == (name == "wgpu")
    assert use.launches == 2
    assert use.seconds > 0
    assert ("@compute" in use.device_source) == (name == "wgpu")


@pytest.mark.parametrize("name", ["cpu", "wgpu"])
def test_a_kernel_is_told_beside_the_roof_that_is_its_own(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of a machine that makes ten operations for each byte; those that are measured vary.
    monkeypatch.setattr(report, "copy_bandwidth", lambda runtime: 1e10)
    monkeypatch.setattr(report, "peak_operations", lambda runtime: 1e11)
    x = pyrite.ones((161, 257), device=name)
    y = pyrite.ones((257, 130), device=name)
    with pyrite.explain() as found:
        (x @ y).numpy()
        (x + 1).numpy()
    # A product may have a second kernel, which adds up pieces.
    uses = sorted(found.kernels, key=lambda use: use.operations)
    by_op = {use.ops[0]: use for use in uses}
    product, added = by_op["matmul"], by_op["add"]
    assert product.roof == "operations"
    assert added.roof == "memory"
    # The templates also multiply what fills up a tile.
    assert 1 <= product.operations / (2 * 161 * 257 * 130) < 1.6
    assert added.operations == pytest.approx(161 * 257, rel=0.05)
    assert product.share == pytest.approx(product.operations_per_second / 1e11)
    assert added.share == pytest.approx(added.bytes_per_second / 1e10)
    assert "GF/s" in str(found)
    assert "GB/s" in str(found)
    kernels = json.loads(found.to_json())["kernels"]
    assert {kernel["roof"] for kernel in kernels} == {"memory", "operations"}
    assert all(0 < use.operations for use in uses)


@pytest.mark.parametrize("name", ["cpu", "wgpu"])
def test_the_peak_of_a_device_is_measured_once(name: str) -> None:
    runtime = pyrite.device(name).backend.root.runtime
    assert peak_operations(runtime) == peak_operations(runtime) > 1e6


def test_what_is_written_anew_is_another_value() -> None:
    """Memory serves one value after the other: who reads the second does not take the first."""

    def step(name: str, reads: list[int], writes: list[int]) -> BundledLaunch:
        b = KernelBuilder(name)
        for n in reads:
            b.buffer(f"x{n}", float32, "read")
        for n in writes:
            b.buffer(f"y{n}", float32, "write")
        executable = SimpleNamespace(kernel=b.build())
        return BundledLaunch(executable, tuple([*reads, *writes]), (1,))

    steps = [step("a", [0], [5]), step("b", [5], [6]), step("c", [6], [5]), step("d", [5], [7])]
    assert takers(steps, {5, 7}, 0) == ("b",)
    assert takers(steps, {5, 7}, 2) == ("d", "held")
    assert takers(steps, {5, 7}, 3) == ("held",)
    assert takers(steps, {5}, 3) == ()
