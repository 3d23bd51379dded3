"""Branches, loops and barriers: which invocations are active, and what they carry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrite.kernel.interpret.access import Access
from pyrite.kernel.interpret.memory import first
from pyrite.kernel.ir import Node, Region
from pyrite.types import Array


class Control(Access):
    """The part of the interpreter that branches and loops."""

    def result(self, node: Node) -> None:
        self.values[node] = self.finished[node.inputs[0]][node.attr]

    def branch(self, node: Node) -> None:
        before, condition = self.active, self.of(node.inputs[0])
        if len(condition) == 1:
            self.finished[node] = self._side(node.regions[0 if condition[0] else 1])
            return
        sides: list[list[Array] | None] = []
        for region, mask in zip(node.regions, (condition, ~condition), strict=True):
            sides.append(self._side(region) if self.activate(before & mask) else None)
        self.activate(before)
        x, y = sides
        if x is None or y is None:
            # With no invocation active nothing that is yielded is asked for.
            self.finished[node] = x or y or [_zero(y) for y in node.regions[0].yields]
        else:
            self.finished[node] = [_merge(condition, *pair) for pair in zip(x, y, strict=True)]

    def _side(self, region: Region) -> list[Array]:
        self.region(region)
        return [self.of(y) for y in region.yields]

    def counted(self, node: Node) -> None:
        before, step = self.active, node.attr[0]
        (region,) = node.regions
        counter, *parameters = region.parameters
        start, stop, *carried = (self.of(i) for i in node.inputs)
        is_same = len(start) == len(stop) == 1  # the same rounds in each invocation
        if node.attr[2] and (missed := (start >= stop) & self.active).any():
            self.fault(node, "a loop that is said to be entered is not", first(missed))
        count = start if is_same else np.array(self.spread(node.inputs[0]))
        while True:
            if is_same:
                if not count[0] < stop[0]:
                    break
            elif not self.activate(before & (count < stop)):
                break
            self.values[counter] = count
            self.values.update(zip(parameters, carried, strict=True))
            if is_same:
                carried = self._side(region)
            else:
                self.region(region)
                carried = self.carry(region, carried)
            following = count + count.dtype.type(step)
            count = following if is_same else np.where(self.active, following, count)
        self.activate(before)
        self.finished[node] = carried

    def conditional(self, node: Node) -> None:
        before = self.active
        condition, body = node.regions
        carried = [self.of(i) for i in node.inputs]
        while True:
            self.values.update(zip(condition.parameters, carried, strict=True))
            self.region(condition)
            if not self.activate(self.active & self.of(condition.yields[0])):
                break
            self.values.update(zip(body.parameters, carried, strict=True))
            self.region(body)
            carried = self.carry(body, carried)
        self.activate(before)
        self.finished[node] = carried

    def carry(self, region: Region, before: Sequence[Array]) -> list[Array]:
        """Return what a round yielded, and what was carried before where it was not run."""
        yielded = [self.of(y) for y in region.yields]
        if self.is_full:
            return yielded
        return [_merge(self.active, *pair) for pair in zip(yielded, before, strict=True)]

    def barrier(self, node: Node) -> None:
        if not self.is_full:
            active = self.active.reshape(-1, self.kernel.invocations)
            missing = active.any(axis=1) != active.all(axis=1)
            if missing.any():
                self.fault(node, f"only part of workgroup {self.group[0] + first(missing)} arrives")
        scopes = ("shared", "all") if node.attr == "storage" else ("shared",)
        for scope in scopes:
            self.epoch[scope] += self.active


def _zero(node: Node) -> Array:
    type = node.value_type
    return np.zeros((1,) if type.width == 1 else (1, type.width), dtype=type.dtype.numpy)


def _merge(mask: Array, x: Array, y: Array) -> Array:
    return np.where(mask[:, None] if max(x.ndim, y.ndim) > 1 else mask, x, y)
