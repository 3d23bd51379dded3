"""The derivative of a kernel, recorded: the kernel itself, and then the walk back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyrite.backend.cube.custom import Call
from pyrite.extension.derivative.region import Survey, puts_on_a_way
from pyrite.extension.derivative.reverse import Reverse
from pyrite.extension.derivative.tape import DerivedOutput, DerivedScope
from pyrite.extension.problem import Known
from pyrite.extension.scope import KernelScope
from pyrite.extension.writing import Writing
from pyrite.kernel.ir import Access, Node
from pyrite.op import Attributes
from pyrite.types import Shape, float64


class CopyWanted(Exception):
    """Elements of an output may be put twice, for which its cotangent is written over."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class DerivedWriting(Writing):
    """Recordings of the derivative of one kernel.

    A call has cotangents and what the kernel reads, and as its outputs gradients.  ``outputs`` says
    by the name of an output of the kernel what its cotangent is called, ``gradients`` by that of an
    input its gradient.  ``changed`` are cotangents that are written over.
    """

    def __init__(
        self,
        function: Callable[..., None],
        name: str,
        sizes: Shape,
        *,
        by_grid: bool,
        inputs: Sequence[str],
        outputs: dict[str, str],
        gradients: dict[str, str],
        changed: frozenset[str],
        inner: int,
        adds_floats: bool,
    ) -> None:
        super().__init__(
            function, name, sizes, readable=set(), by_grid=by_grid, follows=True, inner=inner,
            adds_floats=adds_floats,
        )  # fmt: skip
        self._inputs, self._outputs = inputs, outputs
        self._gradients, self._changed = gradients, changed

    def _access(self, name: str, is_output: bool, atomic: set[str]) -> Access:
        if name in self._changed:
            return "read_write"
        return super()._access(name, is_output, atomic)

    def _recorded(
        self, call: Call, grid: Shape, known: Known, sizes: int, atomic: set[str]
    ) -> KernelScope:
        described = [None if t is None else known.tensor(t) for t in call.tensors]
        scope = DerivedScope(
            self._name, workgroup_size=self._sizes, grid=len(grid), counts=known.workgroups(grid),
            sizes=sizes,
        )  # fmt: skip
        inputs = len(call.inputs)
        tensors: dict[str, Any] = {}
        for position, (name, of) in enumerate(zip(call.names, described, strict=True)):
            access = self._access(name, position >= inputs, atomic)
            tensors[name] = of and self._argument(scope, name, *of, access)
        scope.is_written = True
        if any(t is not None and t.dtype is float64 for t in call.tensors):
            scope.weak_float = float64
        self._derived(scope, tensors, known.attributes(call.attrs))
        return scope

    def _derived(self, scope: DerivedScope, tensors: dict[str, Any], attrs: Attributes) -> None:
        """Record the kernel on outputs that read cotangents, then the walk back behind it."""
        of_kernel = [tensors[n] for n in self._inputs]
        outputs = [DerivedOutput(scope, name, tensors[g]) for name, g in self._outputs.items()]

        def function(k: Any, *arguments: Any, **given: Any) -> None:
            self.bound(scope)(k, *arguments, **given)
            scope.is_primal = False
            self._walk(scope, tensors)

        self.call(scope, function, [*of_kernel, *outputs], outputs[0], attrs)

    def _walk(self, scope: DerivedScope, tensors: dict[str, Any]) -> None:
        body = scope.recorded()
        for name in self._outputs.values():
            is_read = not tensors[name].is_changed
            if is_read and puts_on_a_way(body, scope.tape, name) > 1:
                raise CopyWanted(name)
        gradients = {name: tensors[gradient] for name, gradient in self._gradients.items()}
        survey = Survey.of(body, scope.tape, frozenset(gradients))
        alone = frozenset(n for n in gradients if _is_alone(scope, n))
        Reverse(scope, survey, gradients, alone).walk(body, {})


def _is_alone(scope: DerivedScope, name: str) -> bool:
    """Whether each element of an input is read by one invocation alone: that of its coordinates."""
    reads = [r.coordinates for r in scope.tape.reads.values() if r.name == name]
    if not scope.at or not reads:
        return False
    own = [at.node for at in scope.at if at.node.kind != "const"]
    return all(_stands(node, reads) for node in own)


def _stands(node: Node, reads: Sequence[Sequence[Node]]) -> bool:
    """Whether a coordinate stands on one axis in all reads."""
    return any(all(r[axis] is node for r in reads) for axis in range(len(reads[0])))
