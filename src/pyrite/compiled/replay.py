"""A captured call, done again: one program, and what it renews, without the function."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import ExitStack
from typing import Any

from pyrite.backend.compiling import Program
from pyrite.backend.fusion import Fusion
from pyrite.backend.fusion.deferred import DeferredRun
from pyrite.backend.fusion.eager import computed
from pyrite.backend.fusion.history import Lines, graph_of
from pyrite.backend.fusion.lazy import NOWHERE, Lazy, known_value
from pyrite.compiled.captured import CapturedCall, HeldTensor, Leaf, Output, ResultNumber, Source
from pyrite.compiled.expression import Expressions, States, with_numbers
from pyrite.op import Constant, Handle, HostScalar, is_host_scalar
from pyrite.tensor.parameter import Identified
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_map
from pyrite.types import TensorType

#: Programs of one call, for other layouts of its inputs.
MOST_LAYOUTS = 16


class ReplayedCall:
    """What a captured call does with arguments like its own."""

    def __init__(self, call: CapturedCall, fusion: Fusion) -> None:
        self.call = call
        self._fusion = fusion
        self._lines = Lines(call.at, call.sites)
        self._programs: dict[Hashable, Program] = {}
        self._types: tuple[TensorType, ...] = ()
        sources = [*(o.source for o in call.outputs), *call.renewed.values()]
        #: The values that are wanted, and where each is among the results of a program.
        self._wanted = tuple(sorted({s.number for s in sources if isinstance(s, ResultNumber)}))
        self._places = {number: n for n, number in enumerate(self._wanted)}
        self._expressions = Expressions()
        self._numbers = [self._number(x) for x in call.numbers]
        #: Numbers that are returned, by their host scalars.
        self._returned: dict[int, int] = {}
        with_numbers(call.tree, self._note)
        #: What is asked first: a call that is answered otherwise has drawn nothing.
        self._asked = Expressions()
        self._choices = [(self._asked.add(c.asked), c.answer) for c in call.choices]
        #: Whether it matters whose parameters they are: it keeps something for them, or gives them.
        self.needs_ids = bool(call.renewed) or any(
            isinstance(o.like, Identified) for o in call.outputs
        )

    def _number(self, number: Constant) -> Constant | tuple[int, Any]:
        value = number.value
        return (self._expressions.add(value), number.type) if is_host_scalar(value) else number

    def _note(self, scalar: HostScalar) -> HostScalar:
        self._returned[id(scalar)] = self._expressions.add(scalar)
        return scalar

    def run(self, leaves: Sequence[Tensor]) -> tuple[Any] | None:
        """Return what the function returns, or None where the call does not stand for this one."""
        call = self.call
        with ExitStack() as stack:
            states: States = {
                key: stack.enter_context(replay.held()) for key, replay in call.replays.items()
            }
            if not all([state.fits(leaves) for state in states.values()]):
                return None
            try:
                inputs = [self._read(source, leaves, states) for source in call.inputs]
                if any(
                    known_value(self._read(x, leaves, states))
                    is not known_value(self._read(y, leaves, states))
                    for x, y in call.aliases
                ):
                    return None
            except KeyError:
                return None
            answers = self._asked.values(states)
            if any([bool(answers[n]) is not answer for n, answer in self._choices]):
                return None
            values = self._expressions.values(states)
            made = self._made(inputs, values)
            result = self._committed(made, leaves, states)
            if self._returned:
                result = with_numbers(result, lambda scalar: values[self._returned[id(scalar)]])
            return (result,)

    def _read(self, source: Source, leaves: Sequence[Tensor], states: States) -> Handle:
        if isinstance(source, Leaf):
            return leaves[source.number]._handle
        if isinstance(source, HeldTensor):
            return source.handle
        assert not isinstance(source, ResultNumber)
        t = states[source.effect].tensor(source.name)
        if t._backend is not self._fusion:
            raise KeyError(source.name)  # taken up on another device: a call as written moves it
        return t._handle

    def _made(self, inputs: Sequence[Handle], values: Sequence[Any]) -> Sequence[Handle]:
        """Return the results of the program, some of them put off."""
        self._fusion.finish()
        given: list[Any] = [computed(x) for x in inputs]
        layouts = tuple([self._fusion.inner.layout_of(x) for x in given])
        given += [
            x if isinstance(x, Constant) else Constant(values[x[0]], x[1]) for x in self._numbers
        ]
        program = self._programs.get(layouts)
        if program is None:
            types = [*map(self._fusion.type_of, inputs)]
            program = self._program(layouts, types, given)
        fusion = self._fusion
        fusion.recorded.program_runs += 1
        begun = program.begin(given, self._lines)
        if begun is None:
            return program.run(given, self._lines)
        made = [Lazy(type, NOWHERE, x) for x, type in zip(begun.results, self._types, strict=True)]
        fusion.put_off(DeferredRun(begun, made))
        return made

    def _program(
        self, layouts: Hashable, types: Sequence[TensorType], given: Sequence[Any]
    ) -> Program:
        if len(self._programs) >= MOST_LAYOUTS:
            self._programs.clear()
        graph = graph_of(self.call.at, types, self._wanted)
        program = self._fusion.recorded.program(
            graph, layouts, given, self.call.at, self.call.donated
        )
        self._types = graph.out
        self._programs[layouts] = program
        return program

    def _committed(self, made: Sequence[Handle], leaves: Sequence[Tensor], states: States) -> Any:
        """Return what the function returns, and renew the states."""
        call = self.call

        def handle(source: Source) -> Handle:
            if isinstance(source, ResultNumber):
                return made[self._places[source.number]]
            return self._read(source, leaves, states)

        versions = {t.id: t.version for t in leaves if isinstance(t, Identified)}
        new: dict[int, Tensor] = {}
        renewed_versions: dict[int, int] = {}
        for output in call.outputs:
            if output.steps is None:
                assert isinstance(output.source, Leaf)
                t = leaves[output.source.number]
            else:
                t = _like(output, output.steps, handle(output.source), versions)
            new[id(output.like)] = t
            if isinstance(t, Identified):
                renewed_versions[t.id] = t.version
        backend = self._fusion
        by_effect: dict[Hashable, dict[Hashable, Tensor]] = {key: {} for key in states}
        for slot, source in call.renewed.items():
            found = handle(source)
            by_effect[slot.effect][slot.name] = Tensor._wrap(found, backend.type_of(found), backend)
        for key, state in states.items():
            state.commit(by_effect[key], renewed_versions)
        return tree_map(lambda t: new[id(t)], call.tree)


def _like(output: Output, steps: int, handle: Handle, versions: dict[int, int]) -> Tensor:
    like = output.like
    if isinstance(like, Identified):
        made = like._same(like._type, like._backend)
        made.version = versions[like.id] + steps
        made._handle = handle
        return made
    return Tensor._wrap(handle, like._type, like._backend)
