"""An invocation as the unit of a scan, on one line or on several at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyrite.backend.cube.operand import invocation_of, unravel
from pyrite.backend.cube.skeleton.fold import State
from pyrite.backend.cube.skeleton.scan.walk import Line, Walk
from pyrite.kernel import Value

#: How often the elements that are joined apart are taken in a turn of a loop, by one line alone.
TOGETHER: Final = 4


class WalkAlone(Walk):
    """The kernel in which each invocation walks by itself."""

    def write(self) -> None:
        """Write the kernel."""
        self.share(invocation_of(self.b), self.walk)

    def walk(self, part: Value, first: Value) -> None:
        b, config, fold = self.b, self.config, self.fold
        width = config.width
        self.at = [
            unravel(b, first + strip * width, self.lines.shape) for strip in range(config.strips)
        ]
        carry = [fold.empty(b, width)] * config.strips
        begin, end = self.bounds(part)
        if self.targets:
            if config.parts > 1:
                carry = self.before(part, first, carry)
            if self.lines.extra:
                with b.if_(part == 0):
                    for line in self.at:
                        self.put_initial(line, width)
        reached, items = begin, config.items
        if items > 1 and width == config.strips == 1:
            # A loop's own instructions, and those of addresses, are a fifth of all.
            step = items * TOGETHER
            stop = begin + (end - begin) // step * step
            carry, reached = self.walked(reached, stop, items, carry, TOGETHER)
        stop = end - (items - 1) if items > 1 else end
        carry, reached = self.walked(reached, stop, items, carry)
        if items > 1:
            carry, _ = self.walked(reached, end, 1, carry)
        if not self.targets:
            for strip, state in enumerate(carry):
                place = part * self.lines.count + first + strip * width
                for memory, value in zip(self.partial, state, strict=True):
                    memory.store(place, value)

    def walked(
        self, begin: Value, stop: Value, items: int, carry: list[State], times: int = 1
    ) -> tuple[list[State], Value]:
        """Return the states after the elements from begin on, and where it ended."""
        parts = len(carry[0])
        flat = [value for state in carry for value in state]
        step = items * times
        with self.b.for_(begin, stop, step=step, carried=[*flat, begin]) as loop:
            states = _grouped(loop.carried[:-1], parts)
            for ahead in range(0, step, items):
                first = loop.index + ahead if ahead else loop.index
                for strip, line in enumerate(self.at):
                    states[strip] = self.stepped(line, first, items, states[strip])
            loop.yield_(*(value for state in states for value in state), loop.index + step)
        return _grouped(loop.results[:-1], parts), loop.results[-1]

    def stepped(self, line: Line, i: Value, items: int, carry: State) -> State:
        """Take so many elements of a line, write the folds, and return the last one."""
        b, fold, width = self.b, self.fold, self.config.width
        if width > 1 and items > 1:
            return self.stepped_turned(line, i, items, carry)
        local: State | None = None
        joined = carry
        for number in range(items):
            position = i + number if number else i
            x = self.read(line, position, width)
            spread = position if width == 1 else b.splat(position, width)
            state = fold.take(self.k, x, spread)
            local = state if local is None else self.join(local, state)
            joined = self.join(carry, local)
            self.put(line, position, joined, width)
        return joined

    def stepped_turned(self, line: Line, i: Value, items: int, carry: State) -> State:
        """Take so many elements of several lines, which are read line by line."""
        b, width = self.b, self.config.width
        # In the order of the scan they may go backward in memory.
        order = range(items - 1, -1, -1) if self.lines.is_reverse else range(items)
        first = i + (items - 1) if self.lines.is_reverse else i
        line_step = self.lines.source[-2]
        start = self.read_at(line, first)
        read = [self.source.load_along(start + n * line_step, items) for n in range(width)]
        states = [carry]
        for number, at in enumerate(order):
            x = b.make([values[at] for values in read])
            state = self.fold.take(self.k, x, b.splat(i + number, width))
            states.append(self.join(states[-1], state))
        if self.targets:
            self.put_turned(line, first, [states[1 + order[at]] for at in range(items)])
        return states[-1]

    def put_turned(self, line: Line, first: Value, states: Sequence[State]) -> None:
        """Write the results of neighbouring elements of several lines, line by line."""
        b, line_step = self.b, self.lines.target[-2]
        start = self.written_at(line, first)
        results = [self.ended(state) for state in states]
        for n in range(self.config.width):
            turned = [b.make([x[n] for x in each]) for each in zip(*results, strict=True)]
            self.store(start + n * line_step, turned, axis=-1)

    def before(self, part: Value, first: Value, empty: list[State]) -> list[State]:
        """Return the folds of the parts before this one."""
        b, width, count = self.b, self.config.width, self.lines.count
        states = len(empty[0])
        with b.for_(0, part, carried=[value for state in empty for value in state]) as loop:
            found = _grouped(loop.carried, states)
            for strip, state in enumerate(found):
                place = loop.index * count + first + strip * width
                other = tuple(m.load(place, width=width) for m in self.partial)
                found[strip] = self.join(state, other)
            loop.yield_(*(value for state in found for value in state))
        return _grouped(loop.results, states)


def _grouped(flat: Sequence[Value], size: int) -> list[State]:
    return [tuple(flat[i : i + size]) for i in range(0, len(flat), size)]
