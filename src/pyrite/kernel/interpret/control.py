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
        before = self.active
        condition = self.spread(node.inputs[0])
        sides = []
        for region, mask in zip(node.regions, (condition, ~condition), strict=True):
            self.active = before & mask
            if self.active.any():
                self.region(region)
                sides.append([self.of(y) for y in region.yields])
            else:
                sides.append([_zero(y) for y in region.yields])
        self.active = before
        self.finished[node] = [_merge(condition, x, y) for x, y in zip(*sides, strict=True)]

    def counted(self, node: Node) -> None:
        before, step = self.active, node.attr[0]
        (region,) = node.regions
        counter, *parameters = region.parameters
        start, stop, *carried = (self.spread(i) for i in node.inputs)
        count = np.array(start)
        while True:
            self.active = before & (count < stop)
            if not self.active.any():
                break
            self.values[counter] = count
            self.values.update(zip(parameters, carried, strict=True))
            self.region(region)
            carried = self.carry(region, carried)
            count = np.where(self.active, count + count.dtype.type(step), count)
        self.active = before
        self.finished[node] = carried

    def conditional(self, node: Node) -> None:
        before = self.active
        condition, body = node.regions
        carried = [self.spread(i) for i in node.inputs]
        while True:
            self.values.update(zip(condition.parameters, carried, strict=True))
            self.region(condition)
            self.active = self.active & self.spread(condition.yields[0])
            if not self.active.any():
                break
            self.values.update(zip(body.parameters, carried, strict=True))
            self.region(body)
            carried = self.carry(body, carried)
        self.active = before
        self.finished[node] = carried

    def carry(self, region: Region, before: Sequence[Array]) -> list[Array]:
        """Return what a round yielded, and what was carried before where it was not run."""
        pairs = zip(region.yields, before, strict=True)
        return [_merge(self.active, self.of(y), old) for y, old in pairs]

    def barrier(self, node: Node) -> None:
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
