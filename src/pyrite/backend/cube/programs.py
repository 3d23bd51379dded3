"""Which kernels an op has on a runtime, and the programs of many ops that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

from pyrite.backend.compiling import Known
from pyrite.backend.cube.body import graph_of, run_body
from pyrite.backend.cube.custom import first_of
from pyrite.backend.cube.lowering import LOWERINGS, lowering_of
from pyrite.backend.cube.program import CubeProgram, compile_graph
from pyrite.backend.cube.registry import CONDITIONS, Lowering, prefers_rule
from pyrite.backend.cube.skeleton.elementwise import elementwise
from pyrite.backend.cube.tensor import CubeTensor, layouts_of, without_memory
from pyrite.backend.cube.values import MOST_ELEMENTS, CubeValues
from pyrite.backend.graph import Graph, Literal, Node, Operand
from pyrite.op import Attributes, Constant, Op, Plan
from pyrite.types import TensorType


class CubePrograms(CubeValues):
    """What of `CubeBackend` chooses lowerings, and makes programs of them."""

    compiles_programs = True

    @classmethod
    def has(cls, op: Op) -> bool:
        """Whether it has a lowering, or its scalar rule."""
        return lowering_of(op) is not None or op.scalar is not None

    def keeps(self, op: Op, inputs: Sequence[Any]) -> bool:
        """Whether a composite has kernels of its own, for these inputs."""
        condition = CONDITIONS.get(op.name)
        return self.lowering(op) is not None and (
            condition is None or condition(self.launcher.machine, inputs)
        )

    def lowering(self, op: Op) -> Lowering | None:
        """Return the lowering under the op's name, that of its own kernels, or of its rule."""
        found = lowering_of(op)
        if found is None and op.kernels:
            found = first_of(op.kernels, self.runtime)
        return elementwise if found is None and op.scalar is not None else found

    def lowering_of_call(self, op: Op, inputs: Sequence[Any], attrs: Attributes) -> Lowering | None:
        """Return the lowering of a call; None for a composite that is to be expanded.

        One by its body's kernels is better than by its body's ops, and one under its own name is
        there because it is faster yet.
        """
        if op.body is None or op.kernels:
            return self.lowering(op)
        named = self.lowering(op) if self.keeps(op, inputs) else None
        is_own = named is not None and named is LOWERINGS.get(op.name)
        if named is not None and (is_own or prefers_rule(self.launcher.machine, op, inputs, attrs)):
            return named
        return run_body if graph_of(op, inputs, attrs) is not None else named

    def accepts(self, op: Op, inputs: Sequence[Known], plan: Plan) -> bool:
        """Whether there are kernels for a call, and room for what it makes."""
        out = plan.out
        if out is None or op.sync or op.kernels:
            return False
        if any(t.size > MOST_ELEMENTS or t.dtype in self.runtime.lacking for t in out):
            return False
        given = [_of_type(i) if isinstance(i, TensorType) else i for i in inputs]
        return self.lowering_of_call(op, given, plan.attrs) is not None

    def layout_of(self, handle: CubeTensor) -> Hashable:
        """Return where the elements of a tensor lie."""
        return handle.layout or handle.layout_of()

    def layouts_of(self, handles: Sequence[CubeTensor]) -> Hashable:
        """Return where the elements of several tensors lie."""
        return layouts_of(handles)

    def compile(
        self, graph: Graph, inputs: Sequence[Any], donated: Collection[int] = ()
    ) -> CubeProgram:
        """Return the program of a graph for inputs like these; see `Compiling.compile`."""

        def body_of(node: Node) -> Graph | None:
            if node.op.body is None:
                return None
            given = [_example(graph, x) for x in node.operands]
            chosen = self.lowering_of_call(node.op, given, node.attrs)
            return graph_of(node.op, given, node.attrs) if chosen is run_body else None

        def choose(op: Op, given: Sequence[Any], attrs: Attributes) -> Lowering:
            found = self.lowering_of_call(op, given, attrs)
            assert found is not None, "a graph holds what has kernels"
            return found

        return compile_graph(self.launcher, graph, inputs, body_of, choose, donated)

    def compile_later(self, job: Callable[[], None]) -> None:
        """Have a job run in a pause, before kernels that nobody asked for yet."""
        self.launcher.ahead.submit_first(job)

    def finish_job(self, job: Callable[[], None]) -> None:
        """Wait for a job if it runs; run it here if it has not begun."""
        self.launcher.ahead.finish_job(job)

    def without_memory(self, handle: Any) -> Any:
        """Return a tensor of the same type and layout."""
        return without_memory(handle)

    def is_in_doubt(self, handle: CubeTensor) -> bool:
        """Whether an index outside may have made it wrong."""
        return handle.doubt is not None


def _of_type(type: TensorType) -> CubeTensor:
    """Return a dense tensor without memory, for who looks at types."""
    return CubeTensor.dense(_NOWHERE, type)


_NOWHERE: Any = None


def _example(graph: Graph, operand: Operand) -> Any:
    """Return an operand of a graph as a lowering's conditions see it."""
    if isinstance(operand, int):
        type = graph.types[operand]
        is_number = operand < len(graph.inputs) and graph.inputs[operand].is_number
        return Constant(0.0, type) if is_number else _of_type(type)
    if isinstance(operand, Literal):
        return Constant(operand.value, TensorType((), operand.dtype))
    return None
