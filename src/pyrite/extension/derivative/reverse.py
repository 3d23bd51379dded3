"""A recording walked back: from cotangents of what a kernel wrote to those of what it read.

Reverse mode on structured SSA: a branch becomes a branch, a counted loop one that counts back, and
a read is an addition to the gradient.  What a region computes of values outside of it has its
cotangent handed out, as a result of the branch or carried through the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyrite.errors import KernelError
from pyrite.extension.argument import TensorArgument
from pyrite.extension.derivative.backwards import Backwards, Cotangents
from pyrite.extension.derivative.primal import Primal
from pyrite.extension.derivative.region import Survey, writes_in
from pyrite.extension.derivative.rules import MATHEMATICS, OPCODES
from pyrite.extension.derivative.tape import Applied, DerivedScope, Read, Write
from pyrite.kernel import Value
from pyrite.kernel.ir import Node, Region
from pyrite.kernel.trace import RecordingAlgebra


class Reverse:
    """The walk.

    ``gradients`` are outputs by the name of an input; ``alone`` names the inputs of which no
    element is read by two invocations.
    """

    def __init__(
        self,
        scope: DerivedScope,
        survey: Survey,
        gradients: Mapping[str, TensorArgument],
        alone: frozenset[str],
    ) -> None:
        self._scope = scope
        self._plain = scope.plain
        self._algebra = RecordingAlgebra(scope.plain)
        self._tape = scope.tape
        self._active = survey.active
        self._primal = Primal(scope, survey.hidden)
        self._gradients = gradients
        self._alone = alone

    def walk(self, body: Sequence[Node], found: Cotangents) -> None:
        """Add to the gradients what a body read, given cotangents of what it computed.

        What is left in ``found`` are cotangents of nodes outside.
        """
        for node in reversed(body):
            write = self._tape.writes.get(node)
            if write is not None:
                self._write(write, found)
            elif node.kind == "if":
                self._branch(node, found)
            elif node.kind == "for":
                self._loop(node, found)
            elif node.kind != "result" and node in found:
                self._step(node, found.pop(node), found)

    def add(self, found: Cotangents, node: Node, cotangent: Value | None) -> None:
        """Take in a cotangent of a node, if it has one."""
        if cotangent is not None and node in self._active:
            of = node.value_type.dtype.compute
            part = self._plain.cast(cotangent, of)
            found[node] = found[node] + part if node in found else part

    # ---- reads and writes ----

    def _write(self, write: Write, found: Cotangents) -> None:
        if write.value not in self._active and write.how == "added":
            return
        place = self._primal.value(write.place)
        inside = None if write.inside is None else self._primal.value(write.inside)
        self.add(found, write.value, write.cotangent.loaded(place, inside))
        if write.how == "put" and write.cotangent.is_changed:
            # What stood there before was written over.
            zero = self._plain.const(0, write.cotangent.dtype.compute)
            write.cotangent.put(place, inside, zero)

    def _read(self, read: Read, cotangent: Value) -> None:
        at = [self._primal.value(c) for c in read.coordinates]
        inside = None if read.inside is None else self._primal.value(read.inside)
        is_alone = read.name in self._alone
        self._gradients[read.name].accumulate(at, inside, cotangent, is_alone=is_alone)

    # ---- arithmetic ----

    def _step(self, node: Node, cotangent: Value, found: Cotangents) -> None:
        """Hand the cotangent of a node on to what it is computed of."""
        read = self._tape.reads.get(node)
        if read is not None:
            self._read(read, cotangent)
            return
        applied = self._tape.applied.get(node)
        if applied is not None:
            self._apply(node, applied, cotangent, found)
        elif node.kind == "alu":
            self._by_rule(OPCODES[node.attr], node, node.inputs, cotangent, found)
        elif node.kind == "select":
            self._select(node, cotangent, found)
        elif node.kind == "cast":
            self.add(found, node.inputs[0], cotangent)
        else:
            self._vector(node, cotangent, found)

    def _apply(self, node: Node, applied: Applied, cotangent: Value, found: Cotangents) -> None:
        rule = MATHEMATICS.get(applied.name)
        if rule is None:
            error = KernelError(
                f"kernel '{self._scope.name}' requires functions with a derivative to be "
                f"differentiated, got k.math.{applied.name}; give its op a vjp"
            )
            error.location = applied.location
            raise error
        self._by_rule(rule, node, applied.operands, cotangent, found)

    def _by_rule(
        self, rule: Callable[..., Any], node: Node, operands: Sequence[Node], cotangent: Value,
        found: Cotangents,
    ) -> None:  # fmt: skip
        values = [self._primal.value(x) for x in (node, *operands)]
        for operand, part in zip(operands, rule(self._algebra, cotangent, *values), strict=True):
            self.add(found, operand, part)

    def _select(self, node: Node, cotangent: Value, found: Cotangents) -> None:
        condition, x, y = node.inputs
        is_first = self._primal.value(condition)
        zero = self._plain.const(0, cotangent.type)
        if x in self._active:
            self.add(found, x, self._plain.select(is_first, cotangent, zero))
        if y in self._active:
            self.add(found, y, self._plain.select(is_first, zero, cotangent))

    def _vector(self, node: Node, cotangent: Value, found: Cotangents) -> None:
        if node.kind == "make":
            for i, element in enumerate(node.inputs):
                self.add(found, element, cotangent[i])
        elif node.kind == "splat":
            total = cotangent[0]
            for i in range(1, cotangent.width):
                total = total + cotangent[i]
            self.add(found, node.inputs[0], total)
        else:
            assert node.kind == "extract", f"{node.kind} is not differentiated"
            (vector,) = node.inputs
            zero = self._plain.const(0, cotangent.type)
            parts = [cotangent if i == node.attr else zero for i in range(vector.value_type.width)]
            self.add(found, vector, self._plain.make(parts))

    # ---- branches ----

    def _results(self, node: Node, found: Cotangents) -> dict[int, Value]:
        """Return the cotangents of what a control node yields, by position."""
        of_node = [n for n in found if n.kind == "result" and n.inputs[0] is node]
        return {n.attr: found.pop(n) for n in of_node}

    def _branch(self, node: Node, found: Cotangents) -> None:
        of_results = self._results(node, found)
        if not of_results and not any(writes_in(r.body, self._tape) for r in node.regions):
            return
        condition = self._primal.value(node.inputs[0])
        sides = [self._side(region, of_results) for region in node.regions]
        outer = list(dict.fromkeys(n for _, of_side in sides for n in of_side))
        regions = []
        for suspended, of_side in sides:
            self._scope.resume(suspended)
            values = [of_side[n] if n in of_side else self.zero(n) for n in outer]
            regions.append(self._scope.close([v.node for v in values]))
        made = self._scope.emit("if", None, (condition.node,), None, tuple(regions))
        for i, (n, y) in enumerate(zip(outer, regions[0].yields, strict=True)):
            result = self._scope.emit("result", y.type, (made,), i)
            self.add(found, n, self._plain.of(result))

    def _side(self, region: Region, of_results: Mapping[int, Value]) -> tuple[Any, Cotangents]:
        found: Cotangents = {}
        with self._primal.region():
            for position, cotangent in of_results.items():
                self.add(found, region.yields[position], cotangent)
            self.walk(region.body, found)
        return self._scope.suspend(), found

    def zero(self, node: Node) -> Value:
        type = node.value_type
        return self._plain.const(0, type.with_dtype(type.dtype.compute))

    # ---- loops ----

    def _loop(self, node: Node, found: Cotangents) -> None:
        of_results = self._results(node, found)
        (region,) = node.regions
        if not of_results and not writes_in(region.body, self._tape):
            return
        carried = [p for p in region.parameters[1:] if p in self._active]
        given = {p: of_results[p.attr - 1] for p in carried if p.attr - 1 in of_results}
        back = Backwards(self, self._scope, self._primal, node)
        for n, cotangent in back.run(carried, given).items():
            self.add(found, n, cotangent)
