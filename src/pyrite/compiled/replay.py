"""A captured call, done again: one program, and what it renews, without the function."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from pyrite.backend.compiling import BeginAgain, Begun, Program
from pyrite.backend.fusion import Fusion
from pyrite.backend.fusion.deferred import DeferredRun
from pyrite.backend.fusion.eager import computed
from pyrite.backend.fusion.history import Lines, graph_of
from pyrite.backend.fusion.lazy import Lazy, known_value
from pyrite.backend.fusion.new_program import NewProgram
from pyrite.backend.fusion.numbers import form_of, same_numbers
from pyrite.backend.graph import Graph
from pyrite.columns import Column, Maker, chooser
from pyrite.compiled.captured import (
    CapturedCall,
    EffectTensor,
    HeldTensor,
    Leaf,
    Output,
    ResultNumber,
    Source,
)
from pyrite.compiled.expression import Expressions, States, with_numbers
from pyrite.op import Constant, Handle, HostScalar, is_host_scalar
from pyrite.tensor.parameter import Identified, Parameter
from pyrite.tensor.template import Template
from pyrite.tensor.tensor import Tensor
from pyrite.types import TensorType

_slots = ("_handle", "_type", "_backend")
_tensors = Maker(Tensor, *_slots)
_handles, _backends = Column(Tensor, "_handle"), Column(Tensor, "_backend")
_parameters = Maker(Parameter, *_slots, "_initial", "id", "version", "trainable")

#: So often it is asked for what begins a program again in less time.
MOST_TRIES = 4
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
        #: What begins the last program again in less time, and how often that is asked for: a run
        #: has to be at its end first.
        self._again: BeginAgain | None = None
        self._tries = MOST_TRIES
        sources = [*(o.source for o in call.outputs), *call.renewed.values()]
        #: The values that are wanted, and where each is among the results of a program.
        self._wanted = tuple(sorted({s.number for s in sources if isinstance(s, ResultNumber)}))
        places = {number: n for n, number in enumerate(self._wanted)}

        def place(source: Source) -> int:
            return places[source.number] if isinstance(source, ResultNumber) else -1

        #: Each output with its place among the results, -1 for what is none; and what effects are
        #: given, with its name and place.
        outputs = [(output, place(output.source)) for output in call.outputs]
        self._columns = [OutputColumn(cls, outputs) for cls in (Parameter, Tensor)]
        by_column = {n for column in self._columns for n in column.numbers}
        self._outputs = [(n, *x) for n, x in enumerate(outputs) if n not in by_column]
        self._renewed: dict[Hashable, list[tuple[Hashable, Source, int]]] = {}
        for slot, source in call.renewed.items():
            self._renewed.setdefault(slot.effect, []).append((slot.name, source, place(source)))
        #: Of what effects are given, the names of results of the program, and what chooses these.
        self._renewed_results = {
            key: ([name for name, _, n in of if n >= 0], chooser([n for *_, n in of if n >= 0]))
            for key, of in self._renewed.items()
        }
        self._tree = Template(call.tree, [output.like for output in call.outputs])
        #: Where inputs come from: numbers of leaves, names of effects' tensors, and handles; and of
        #: each input its place among all of these.
        self._of_leaves = [s.number for s in call.inputs if isinstance(s, Leaf)]
        self._of_effects: dict[Hashable, list[Hashable]] = {}
        for s in call.inputs:
            if isinstance(s, EffectTensor):
                self._of_effects.setdefault(s.effect, []).append(s.name)
        self._held = [s.handle for s in call.inputs if isinstance(s, HeldTensor)]
        of_effects = [EffectTensor(e, name) for e, all in self._of_effects.items() for name in all]
        ordered = [*map(Leaf, self._of_leaves), *of_effects, *map(HeldTensor, self._held)]
        at = {source: n for n, source in enumerate(ordered)}
        self._order = [at[source] for source in call.inputs]
        self._expressions = Expressions()
        #: Of numbers that are another one's at each call the place of that.
        self._same = same_numbers(call.numbers)
        self._constants = _Constants(call.numbers, self._same, self._expressions)
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

    def _note(self, scalar: HostScalar) -> HostScalar:
        self._returned[id(scalar)] = self._expressions.add(scalar)
        return scalar

    def run(self, leaves: Sequence[Tensor]) -> tuple[Any] | None:
        """Return what the function returns, or None where the call does not stand for this one."""
        replays = self.call.replays
        if not replays:
            return self._run(leaves, {})
        with ExitStack() as stack:
            states: States = {
                key: stack.enter_context(replay.held()) for key, replay in replays.items()
            }
            if not all([state.fits(leaves) for state in states.values()]):
                return None
            return self._run(leaves, states)

    def _run(self, leaves: Sequence[Tensor], states: States) -> tuple[Any] | None:
        """Do what `run` does, with the states of effects held."""
        try:
            inputs = self._inputs(leaves, states)
            aliases = self.call.aliases
            if aliases and any(
                known_value(self._read(x, leaves, states))
                is not known_value(self._read(y, leaves, states))
                for x, y in aliases
            ):
                return None
        except KeyError:
            return None
        if self._choices:
            answers = self._asked.values(states)
            if any([bool(answers[n]) is not answer for n, answer in self._choices]):
                return None
        values = self._expressions.values(states)
        made = self._made(inputs, values)
        result = self._committed(made, leaves, states)
        if self._returned:
            result = with_numbers(result, lambda scalar: values[self._returned[id(scalar)]])
        return (result,)

    def _inputs(self, leaves: Sequence[Tensor], states: States) -> list[Handle]:
        """Return what the program takes.  Raises KeyError as `_read`."""
        found: list[Any] = [leaves[n]._handle for n in self._of_leaves]
        for effect, names in self._of_effects.items():
            tensors = states[effect].tensors(names)
            if _backends.read(tensors).count(self._fusion) < len(tensors):
                raise KeyError(effect)  # see `_read`
            found += _handles.read(tensors)
        found += self._held
        return [found[n] for n in self._order]

    def _read(self, source: Source, leaves: Sequence[Tensor], states: States) -> Handle:
        if isinstance(source, Leaf):
            return leaves[source.number]._handle
        if isinstance(source, HeldTensor):
            return source.handle
        assert not isinstance(source, ResultNumber)
        (t,) = states[source.effect].tensors([source.name])
        if t._backend is not self._fusion:
            raise KeyError(source.name)  # taken up on another device: a call as written moves it
        return t._handle

    def _made(self, inputs: Sequence[Handle], values: Sequence[Any]) -> Sequence[Handle]:
        """Return the results of the program, some of them put off."""
        self._fusion.finish()
        given: list[Any] = [computed(x) if isinstance(x, Lazy) else x for x in inputs]
        numbers = self._constants.of(values)
        begun = None if self._again is None else self._again.begin(given, numbers, self._lines)
        if begun is not None:
            self._fusion.recorded.program_runs += 1
            return self._put_off(begun)
        layouts: Any = self._fusion.inner.layouts_of(given)
        tensors = [*given]
        given += numbers
        program = self._programs.get(layouts) or self._coming(layouts)
        if program is None:
            program = self._program(layouts, inputs, given)
        elif not self._types:
            self._types = self._graph(inputs).out
        fusion = self._fusion
        fusion.recorded.program_runs += 1
        begun = program.begin(given, self._lines)
        if begun is None:
            return program.run(given, self._lines)
        if self._tries:
            self._again = program.begin_again(tensors, numbers)
            self._tries = 0 if self._again is not None else self._tries - 1
        return self._put_off(begun)

    def _put_off(self, begun: Begun) -> Sequence[Handle]:
        """Return the results of a run; what its end makes is put off."""
        run = DeferredRun(begun)
        made = run.handles(self._types)
        self._fusion.put_off(run)
        return made

    def _coming(self, layouts: Any) -> NewProgram | None:
        """Return what runs as its ops, until a thread has compiled it, if it was captured so."""
        call = self.call
        found = call.at.programs.get(form_of(call.donated, (self._wanted, *layouts), self._same))
        return found if isinstance(found, NewProgram) and found.fused is None else None

    def _graph(self, inputs: Sequence[Handle]) -> Graph:
        types = [*map(self._fusion.type_of, inputs)]
        return graph_of(self.call.at, types, self._wanted, self._same)

    def _program(self, layouts: Any, inputs: Sequence[Handle], given: Sequence[Any]) -> Program:
        if len(self._programs) >= MOST_LAYOUTS:
            self._programs.clear()
        graph = self._graph(inputs)
        self._fusion.recorded.note_taken(self.call.at)
        program = self._fusion.recorded.program(
            graph, layouts, given, self.call.at, self.call.donated
        )
        self._types = graph.out
        self._programs[layouts] = program
        return program

    def _committed(self, made: Sequence[Handle], leaves: Sequence[Tensor], states: States) -> Any:
        """Return what the function returns, and renew the states."""
        versions = self._versions(leaves) if self.needs_ids else {}
        outputs: list[Any] = [None] * len(self.call.outputs)
        renewed_versions: dict[int, int] = {}
        for column in self._columns:
            column.put(outputs, made, versions, renewed_versions)
        for n, output, place in self._outputs:
            if output.steps is None:
                assert isinstance(output.source, Leaf)
                t = leaves[output.source.number]
            else:
                handle = self._read(output.source, leaves, states) if place < 0 else made[place]
                t = _like(output, output.steps, handle, versions)
            outputs[n] = t
            if isinstance(t, Identified):
                renewed_versions[t.id] = t.version
        self._renew(made, leaves, states, renewed_versions)
        return self._tree.filled(outputs)

    def _renew(
        self, made: Sequence[Handle], leaves: Sequence[Tensor], states: States,
        versions: Mapping[int, int],
    ) -> None:  # fmt: skip
        """Put the tensors in place that effects have from now on."""
        backend, types = self._fusion, self._types
        for key, state in states.items():
            of = self._renewed.get(key, ())
            names, choose = self._renewed_results.get(key, ((), chooser(())))
            tensors = _tensors.many(len(names), [*choose(made)], [*choose(types)], backend)
            found: dict[Hashable, Tensor] = dict(zip(names, tensors, strict=True))
            for name, source, place in of if len(of) > len(names) else ():
                if place < 0:
                    handle = self._read(source, leaves, states)
                    found[name] = Tensor._wrap(handle, backend.type_of(handle), backend)
            state.commit(found, versions)

    def _versions(self, leaves: Sequence[Tensor]) -> dict[int, int]:
        return {t.id: t.version for t in leaves if isinstance(t, Identified)}


class _Constants:
    """The numbers of a call, with those that it computes anew; ``same`` is by `same_numbers`."""

    def __init__(
        self, numbers: Sequence[Constant], same: Mapping[int, int], expressions: Expressions
    ) -> None:
        self._numbers = [*numbers]
        #: The place of each that is another one at each call, the number of its value, its type.
        self._anew = [
            (n, expressions.add(x.value), x.type)
            for n, x in enumerate(numbers)
            if is_host_scalar(x.value) and n not in same
        ]
        self._same = [*same.items()]

    def of(self, values: Sequence[Any]) -> list[Constant]:
        """Return the numbers of a call, given the values of the expressions."""
        found = self._numbers.copy()
        for n, value, type in self._anew:
            found[n] = Constant(values[value], type)
        for n, first in self._same:
            found[n] = found[first]
        return found


class OutputColumn:
    """Outputs of one class that are results of the program, made all at once."""

    def __init__(self, cls: type[Tensor], outputs: Sequence[tuple[Output, int]]) -> None:
        chosen = [
            (n, output, output.steps, place)
            for n, (output, place) in enumerate(outputs)
            if type(output.like) is cls and output.steps is not None and place >= 0
        ]
        #: Which outputs they are.
        self.numbers = [n for n, *_ in chosen]
        self._choose = chooser([place for *_, place in chosen])
        likes = [output.like for _, output, _, _ in chosen]
        self._types, self._backends = [x._type for x in likes], [x._backend for x in likes]
        self._ids = [x.id for x in likes if isinstance(x, Parameter)]
        self._trainable = [x.trainable for x in likes if isinstance(x, Parameter)]
        self._steps = [steps for _, _, steps, _ in chosen]
        self._are_parameters = cls is Parameter

    def put(
        self, outputs: list[Any], made: Sequence[Handle], versions: Mapping[int, int],
        renewed: dict[int, int],
    ) -> None:  # fmt: skip
        """Put them in their places, and the versions of parameters by their ids."""
        count, handles = len(self.numbers), [*self._choose(made)]
        if self._are_parameters:
            ids = self._ids
            now = [versions[id] + steps for id, steps in zip(ids, self._steps, strict=True)]
            renewed.update(zip(ids, now, strict=True))
            own = None, ids, now, self._trainable
            tensors: Sequence[Tensor] = _parameters.many(
                count, handles, self._types, self._backends, *own
            )
        else:
            tensors = _tensors.many(count, handles, self._types, self._backends)
        for n, t in zip(self.numbers, tensors, strict=True):
            outputs[n] = t


def _like(output: Output, steps: int, handle: Handle, versions: dict[int, int]) -> Tensor:
    like = output.like
    if isinstance(like, Identified):
        made = like._same(like._type, like._backend)
        made.version = versions[like.id] + steps
        made._handle = handle
        return made
    return Tensor._wrap(handle, like._type, like._backend)
