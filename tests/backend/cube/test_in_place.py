"""Results that take the memory of operands: where that is right, and that values stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.backend.cube.block import Use
from pyrite.backend.cube.in_place import Overwriting, in_place, overwritable
from pyrite.backend.cube.program import CubeProgram
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.config import config
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.types import DType, float32, float64, int32

# ---- kernels ----


def kernel(write: Callable[[KernelBuilder, Any, Any], None], out: DType = float32) -> Kernel:
    b = KernelBuilder("test")
    write(b, b.buffer("x", float32, "read"), b.buffer("y", out, "write"))
    return b.build()


def double(b: KernelBuilder, x: Any, y: Any) -> None:
    i = b.global_id()
    y[i] = x[i] * 2.0


def twice(b: KernelBuilder, x: Any, y: Any) -> None:
    i = b.global_id()
    with b.if_(i < 5):
        y[i] = x[i] * x[i]


def neighbour(b: KernelBuilder, x: Any, y: Any) -> None:
    i = b.global_id()
    y[i] = x[i] + x[i + 1]


def after(b: KernelBuilder, x: Any, y: Any) -> None:
    i = b.global_id()
    y[i] = x[i]
    y[i] = x[i] * 2.0


def apart(b: KernelBuilder, x: Any, y: Any) -> None:
    i = b.global_id()
    value = x[i]
    with b.if_(value > 0.0):
        y[i] = value


def wide(b: KernelBuilder, x: Any, y: Any) -> None:
    i = b.global_id()
    value = x.load(i * 4, width=4)
    y[i * 4] = value[0] + value[1]


def test_a_result_may_lie_over_what_is_read_at_the_same_elements_before() -> None:
    for write in (double, twice):
        assert overwritable(kernel(write)) == {(0, 1)}, write.__name__
    for write in (neighbour, after, apart, wide):
        assert not overwritable(kernel(write)), write.__name__

    def rounded(b: KernelBuilder, x: Any, y: Any) -> None:
        i = b.global_id()
        y[i] = b.cast(x[i], y.dtype)

    assert overwritable(kernel(rounded, int32)) == {(0, 1)}
    assert not overwritable(kernel(rounded, float64))


def test_a_result_does_not_lie_over_what_is_read_after_it() -> None:
    b = KernelBuilder("test")
    x, y, z = (b.buffer(name, float32, "read" if name == "x" else "write") for name in "xyz")
    y[b.global_id()] = 1.0
    z[b.global_id()] = x[b.global_id()]
    assert overwritable(b.build()) == {(0, 2)}


# ---- launches ----


def launch(*slots: int | None, pairs: set[tuple[int, int]]) -> Overwriting:
    return Overwriting(slots, frozenset(pairs))


def found(launches: list[Overwriting], kept: set[int], nbytes: dict[int, int]) -> dict[int, int]:
    uses: dict[int, Use] = {}
    for n, of in enumerate(launches):
        for slot in [s for s in of.slots if s is not None]:
            begin = uses[slot].begin if slot in uses else n
            uses[slot] = Use(nbytes.get(slot, 64), begin, n)
    return in_place(launches, uses, kept)


def test_only_what_is_read_last_gives_its_memory_and_to_one() -> None:
    first = launch(0, 1, pairs={(0, 1)})
    chain = [first, launch(1, 2, pairs={(0, 1)}), launch(None, 2, 3, pairs={(1, 2)})]
    assert found(chain, {0}, {}) == {1: 2, 2: 3}
    # One that is read later, one that is a result, one of another size.
    assert found([*chain, launch(1, 4, pairs=set())], {0}, {}) == {2: 3}
    assert found(chain, {0, 1}, {}) == {2: 3}
    assert found(chain, {0}, {3: 128}) == {1: 2}
    # Two results of one operand, two operands of one result.
    assert found([first, launch(1, 2, 3, pairs={(0, 1), (0, 2)})], {0}, {}) == {1: 2}
    both = [launch(0, 1, 2, pairs=set()), launch(1, 2, 3, pairs={(0, 2), (1, 2)})]
    assert found(both, {0}, {}) == {1: 3}
    # An operand that is read at other places too, by another binding.
    assert found([first, launch(1, 1, 2, pairs={(0, 2)})], {0}, {}) == {}
    assert found([first, launch(1, 1, 2, pairs={(0, 2), (1, 2)})], {0}, {}) == {1: 2}
    # What was written before.
    assert found([launch(0, 1, 2, pairs=set()), launch(1, 2, pairs={(0, 1)})], {0}, {}) == {}


# ---- programs ----

CASES: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
    "elements": (lambda y: y * 3 - 1, True),
    "twice": (lambda y: (y - 1) * y, True),
    "transposed": (lambda y: y.T * 3, False),
    "reversed": (lambda y: y.flip(0) + y, False),
    "broadcast": (lambda y: y[:1] + y, False),
    "strided": (lambda y: y[::2] + 1, False),
}


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[CubeProgram]:
    """All programs that run."""
    ran: list[CubeProgram] = []
    run = CubeProgram.run

    def noted(self: CubeProgram, *given: Any) -> Any:
        ran.append(self)
        return run(self, *given)

    monkeypatch.setattr(CubeProgram, "run", noted)
    return ran


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "int32"])
@pytest.mark.parametrize("case", CASES)
def test_a_result_takes_the_memory_of_an_operand_where_elements_meet(
    case: str, dtype: str, programs: list[CubeProgram]
) -> None:
    """Sums along rows lie in memory, and the kernel of elements reads them last."""
    make, is_in_place = CASES[case]
    rng = np.random.default_rng(0)
    plain = pyrite.device("cpu").backend.root
    for shape in ((7, 33), (64, 64), (1, 1), (3, 0)):
        x = rng.integers(-9, 9, shape).astype(np.float32)
        if dtype.startswith(("f", "b")) and x.size > 3:
            x.flat[:3] = [np.nan, np.inf, -0.0]
        results = []
        for device in (Device(plain), Device(Fusion(plain))):
            given = pyrite.tensor(x, device=device).astype(getattr(pyrite, dtype))
            results.append(make(given.cumsum(axis=-1)).astype(pyrite.float32).numpy())
        np.testing.assert_array_equal(*results)
        assert np.array_equal(np.signbit(results[0]), np.signbit(results[1]))
        if x.size > 1 and dtype in ("float32", "int32") and case != "reversed":
            sizes = [m.use.nbytes for m in programs[-1].recording.made]
            assert (len(sizes) == 2) == (is_in_place and config.guard is None), sizes
