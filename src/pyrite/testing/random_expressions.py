"""Kernels of random expressions: every opcode, cast and dtype that is asked for.

Where `random_kernels` draws programs, with memory that invocations share, these are straight code,
branches and loops of one or a few invocations; but they know no dtype and no width by name.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from pyrite.kernel import Kernel, KernelBuilder, Memory, Value
from pyrite.kernel.ir import ACCEPTED, OPCODES, WIDTHS, vector
from pyrite.testing.operands import SIZE
from pyrite.types import DType, bool_

#: Opcodes that are a fault, or unspecified, for some operands.
PARTIAL = frozenset(("div", "rem", "shl", "shr"))
#: The same of floats, or differ by some ulp.
PARTIAL_OF_FLOATS = frozenset(("ldexp", "ldexp_normal", "keep_nan", "exp2"))


class RandomExpressions:
    """One kernel while it is drawn: ``values`` are those in scope.

    ``dtypes`` are those of its inputs and outputs, of which ``computed`` are computed with;
    ``never`` are opcodes that floats are kept from.
    """

    def __init__(
        self,
        seed: int,
        dtypes: Sequence[DType],
        computed: Collection[DType],
        indices: Sequence[DType],
        *,
        never: Collection[str] = ("fma",),
        workgroup_size: int = 1,
    ) -> None:
        self.random = random.Random(seed)
        self.dtypes, self.computed, self.never = dtypes, computed, never
        index = self.random.choice(indices)
        self.b = KernelBuilder(f"random {seed}", workgroup_size=workgroup_size, index=index)
        self.width = self.random.choice(WIDTHS)
        self.values: list[Value] = []
        self.inputs = [self.b.buffer(f"x_{d.name}", d, "read") for d in dtypes]
        self.outputs = [self.b.buffer(f"y_{d.name}", d, "write") for d in dtypes]

    def build(self) -> Kernel:
        """Return the kernel, which writes the last value of each dtype to its output."""
        self.values += [self.load(memory) for memory in self.inputs]
        number = next(v for v in self.values if v.dtype in self.computed and not v.dtype.is_bool)
        self.values.append(number > 1)
        for _ in range(25):
            self.step(depth=0)
        i = self.b.local_index() * 16
        for memory in self.outputs:
            last = [v for v in self.values if v.dtype is memory.dtype][-1]
            memory.store(i, last, mask=self.mask(last.width))
        return self.b.build()

    def load(self, memory: Memory) -> Value:
        """Return elements of an input: gathered, aligned, or anywhere."""
        at = self.random.randrange(SIZE - self.width)
        if self.width > 1 and self.random.random() < 0.3:
            places = [self.random.randrange(SIZE) for _ in range(self.width)]
            return memory.load(self.b.const(places, self.b.index_type.with_width(self.width)))
        if self.random.random() < 0.5:
            return memory.load(at // 16 * 16, width=self.width, is_aligned=True)
        return memory.load(at, width=self.width, mask=self.mask(self.width))

    def mask(self, width: int) -> Value | None:
        """Return which lanes of an access are made: all, some that are known, or who can tell."""
        kind = self.random.random()
        if kind < 0.4:
            return None
        found = [v for v in self.values if v.dtype.is_bool and v.width == width]
        if kind < 0.7 and found:
            return self.random.choice(found)
        first, last = sorted(self.random.choices(range(width + 1), k=2))
        lanes = [first <= lane < last for lane in range(width)]
        return self.b.const(lanes if width > 1 else lanes[0], vector(bool_, width))

    def step(self, depth: int) -> None:
        """Add a value, or a branch or loop of a few more steps."""
        kind = self.random.random()
        if kind < 0.1 and depth < 2:
            self.loop(depth)
        elif kind < 0.2 and depth < 2:
            self.branch(depth)
        elif kind < 0.4:
            self.cast()
        elif kind < 0.5:
            self.values.append(self.select())
        else:
            self.alu()

    def alu(self) -> None:
        """Add an opcode of which no operand is a fault or unspecified."""
        x = self.random.choice([v for v in self.values if v.dtype in self.computed])
        never = {*self.never, *PARTIAL_OF_FLOATS} if x.dtype.is_float else PARTIAL
        names = [
            o.name
            for o in OPCODES.values()
            if x.dtype in ACCEPTED[o.accepts] and o.name not in never
        ]
        name = self.random.choice(names)
        others = [v for v in self.values if v.type is x.type]
        operands = [self.random.choice(others) for _ in range(OPCODES[name].arity)]
        self.values.append(self.b.alu(name, *operands))

    def cast(self) -> None:
        """Add a cast, but none of a float to an integer, which may not hold it."""
        x = self.random.choice(self.values)
        to = self.random.choice([d for d in self.dtypes if not d.is_bool])
        if not (x.dtype.is_float and to.is_integer):
            self.values.append(self.b.cast(x, to))

    def select(self) -> Value:
        """Return one of two values of a type."""
        x = self.random.choice(self.values)
        y = self.random.choice([v for v in self.values if v.type is x.type])
        return self.b.select(self.condition(), x, y)

    def condition(self) -> Value:
        """Return a truth value, or a vector of them."""
        return self.random.choice([v for v in self.values if v.dtype.is_bool])

    def scalar_condition(self) -> Value:
        """Return one truth value."""
        c = self.condition()
        return c if c.width == 1 else c[self.random.randrange(c.width)]

    def branch(self, depth: int) -> None:
        """Add a branch with a value of both parts."""
        x = self.random.choice(self.values)
        with self.b.if_(self.scalar_condition()) as branch:
            branch.yield_(self.inside(x, depth))
        with branch.else_():
            branch.yield_(self.inside(x, depth))
        self.values += branch.results

    def loop(self, depth: int) -> None:
        """Add a loop of up to three rounds that carries a value."""
        x = self.random.choice(self.values)
        rounds, unroll = self.random.randrange(4), self.random.random() < 0.5
        with self.b.for_(0, rounds, carried=[x], unroll=unroll) as loop:
            loop.yield_(self.inside(x, depth, loop.carried))
        self.values += loop.results

    def inside(self, like: Value, depth: int, carried: Sequence[Value] = ()) -> Value:
        """Take some steps in a region, of which nothing is seen outside but what is returned."""
        outside = len(self.values)
        self.values += carried
        for _ in range(4):
            self.step(depth + 1)
        found = [v for v in self.values if v.type is like.type][-1]
        del self.values[outside:]
        return found
