"""Kernels drawn at random, for the tests of passes and targets.

Expressions, branches, loops that all or some invocations leave, memory of all kinds, barriers.
Every operation is exact, or the same on every target; every kernel is free of races: invocations
write elements of their own only, and shared memory is read between two barriers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from pyrite.kernel import Kernel, KernelBuilder, Memory, Value
from pyrite.testing.kernels import KernelExample
from pyrite.testing.launch import interpreted
from pyrite.types import Array, DType, Number, bfloat16, bool_, float16, float32, int8, int16, int32

#: Invocations of a workgroup, and workgroups.
SIZE, GROUPS = 16, 3

#: Dtypes that are stored, and computed in wider ones.
NARROW = (bfloat16, float16, int8, int16, bool_)

_INTEGER = ("add", "sub", "mul", "and", "xor", "min", "max", "div", "rem", "shl")
_FLOAT = ("add", "sub", "mul", "min", "max", "neg", "floor", "abs")
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def random_kernel(seed: int, steps: int = 12) -> KernelExample:
    """Return a kernel of about so many steps, with what the interpreter says that it computes."""
    kernel = _Author(seed).write(steps)
    random = np.random.default_rng(seed)
    count = SIZE * GROUPS
    x = np.round(random.normal(size=count) * 4, 2).astype(np.float32)
    i = random.integers(-20, 60, count).astype(np.int32)
    narrow = [(10 * x).astype(d.numpy) for d in NARROW]
    values: list[Array | Number] = [3, x, i, 0 * x, 0 * i, *narrow]
    return KernelExample(kernel, (GROUPS,), values, interpreted(kernel, (GROUPS,), values))


class _Author:
    """Writes one kernel; ``values`` are those in scope, by dtype."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.b = b = KernelBuilder(f"random_{seed}", workgroup_size=SIZE)
        self.n = b.scalar("n", int32)
        self.x, self.i = b.buffer("x", float32, "read"), b.buffer("i", int32, "read")
        self.y, self.j = b.buffer("y", float32, "read_write"), b.buffer("j", int32, "write")
        self.narrow = [b.buffer(d.name, d, "read_write") for d in NARROW]
        self.shared: dict[DType, Memory] = {d: b.shared(d, SIZE) for d in (float32, int32)}
        self.private = b.private(int32, 4)
        self.lane, self.at = b.local_index(), b.global_id()
        self.values: dict[DType, list[Value]] = {
            float32: [self.x[self.at], b.const(1.5, float32)],
            int32: [self.i[self.at], self.lane, self.at, self.n, b.workgroup_id()],
        }

    def write(self, steps: int) -> Kernel:
        with self.b.for_(0, 4) as loop:
            self.private[loop.index] = loop.index * 3 + self.lane
        self.steps(steps, depth=0, is_uniform=True)
        self.y[self.at] = self.values[float32][-1]
        self.j[self.at] = self.values[int32][-1]
        return self.b.build()

    def steps(self, count: int, depth: int, is_uniform: bool) -> None:
        """Add values and control flow; all invocations come by together if ``is_uniform``."""
        for _ in range(count):
            kinds: list[Callable[[], None]] = [
                self.integer, self.integer, self.real, self.real, self.chosen, self.loaded,
                self.kept, self.stored, self.narrowed, self.narrowed, self.fetched,
            ]  # fmt: skip
            if depth < 2:
                kinds += [
                    partial(self.branch, depth, is_uniform), partial(self.loop, depth, is_uniform),
                    partial(self.staggered_loop, depth), partial(self.parting_loop, depth),
                ]  # fmt: skip
            if is_uniform:
                kinds += [self.exchanged, self.exchanged]
            kinds[int(self.random.integers(len(kinds)))]()

    def pick(self, names: tuple[str, ...]) -> str:
        return names[int(self.random.integers(len(names)))]

    def draw(self, dtype: DType) -> Value:
        found = self.values[dtype]
        return found[int(self.random.integers(len(found)))]

    def any_dtype(self) -> DType:
        return (float32, int32)[int(self.random.integers(2))]

    def condition(self) -> Value:
        dtype = self.any_dtype()
        return self.b.alu(self.pick(_COMPARISONS), self.draw(dtype), self.draw(dtype))

    def small(self) -> Value:
        """A number of rounds that is the same in the whole workgroup."""
        return (self.b.workgroup_id() + self.n) & 3

    # ---- values ----

    def integer(self) -> None:
        name = self.pick(_INTEGER)
        x, y = self.draw(int32), self.draw(int32)
        if name in ("div", "rem"):
            y = (y & 7) + 1
        if name == "shl":
            y = y & 15
        self.values[int32].append(self.b.alu(name, x, y))

    def real(self) -> None:
        name = self.pick(_FLOAT)
        operands = [self.draw(float32) for _ in range(1 if name in ("neg", "floor", "abs") else 2)]
        made = self.b.alu(name, *operands)
        self.values[float32].append(self.b.max(self.b.min(made, 100.0), -100.0))

    def chosen(self) -> None:
        dtype = self.any_dtype()
        made = self.b.select(self.condition(), self.draw(dtype), self.draw(dtype))
        self.values[dtype].append(made)

    def loaded(self) -> None:
        index = self.draw(int32)
        inside = (index >= 0) & (index < SIZE * GROUPS)
        self.values[float32].append(self.x.load(index, mask=inside, other=0.25))

    def kept(self) -> None:
        self.private[self.draw(int32) & 3] = self.draw(int32)
        self.values[int32].append(self.private[self.draw(int32) & 3])

    def stored(self) -> None:
        self.y.store(self.at, self.draw(float32), mask=self.condition())
        self.values[float32].append(self.y[self.at])

    def narrowed(self) -> None:
        """A value as a narrower dtype, in memory where it was or is now, and wide again."""
        memory = self.narrow[int(self.random.integers(len(self.narrow)))]
        wide = float32 if memory.dtype.is_float else int32
        value = self.condition() if memory.dtype.is_bool else self.draw(wide)
        memory.store(self.at, self.b.cast(value, memory.dtype), mask=self.condition())
        again = memory.load(self.at, mask=self.condition(), other=1)
        self.values[wide].append(self.b.cast(again, wide))

    def fetched(self) -> None:
        """A hint, of an element that need not exist."""
        self.x.prefetch(self.draw(int32))

    def exchanged(self) -> None:
        """Exchange a value with another invocation, through shared memory."""
        dtype = self.any_dtype()
        shared = self.shared[dtype]
        shared[self.lane] = self.draw(dtype)
        self.b.barrier()
        self.values[dtype].append(shared[self.draw(int32) & (SIZE - 1)])
        self.b.barrier()

    # ---- control ----

    def inside(self, depth: int, is_uniform: bool) -> list[Value]:
        """Write a few steps in an open region; return a value of each dtype to yield."""
        outer = {d: list(v) for d, v in self.values.items()}
        self.steps(int(self.random.integers(1, 4)), depth + 1, is_uniform)
        found = [self.draw(float32), self.draw(int32)]
        self.values = outer
        return found

    def initial(self) -> list[Value]:
        return [self.draw(float32), self.draw(int32)]

    def carry(self, values: tuple[Value, ...]) -> None:
        for value in values:
            self.values[value.dtype].append(value)

    def branch(self, depth: int, is_uniform: bool) -> None:
        is_alike = is_uniform and bool(self.random.integers(2))
        condition = self.small() > 1 if is_alike else self.condition()
        with self.b.if_(condition) as branch:
            branch.yield_(*self.inside(depth, is_alike))
        with branch.else_():
            branch.yield_(*self.inside(depth, is_alike))
        self.carry(branch.results)

    def loop(self, depth: int, is_uniform: bool) -> None:
        with self.b.for_(0, self.small(), carried=self.initial()) as loop:
            outer = {d: list(v) for d, v in self.values.items()}
            self.carry((*loop.carried, loop.index))
            loop.yield_(*self.inside(depth, is_uniform))
            self.values = outer
        self.carry(loop.results)

    def staggered_loop(self, depth: int) -> None:
        with self.b.for_(self.lane, self.n * 7, step=5, carried=self.initial()) as loop:
            outer = {d: list(v) for d, v in self.values.items()}
            self.carry((*loop.carried, loop.index))
            loop.yield_(*self.inside(depth, False))
            self.values = outer
        self.carry(loop.results)

    def parting_loop(self, depth: int) -> None:
        rounds = self.draw(int32) & 3
        with self.b.while_([rounds, *self.initial()]) as loop:
            loop.condition(loop.carried[0] > 0)
            outer = {d: list(v) for d, v in self.values.items()}
            self.carry(loop.carried)
            yields = self.inside(depth, False)
            self.values = outer
            loop.yield_(loop.carried[0] - 1, *yields)
        self.carry(loop.results)
