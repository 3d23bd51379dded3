"""A call of a function that was captured: its ops, where its inputs came from, what became of them.

Two calls that agree in all of this will agree with a third; the values of tensors, and of host
scalars, are what may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyrite.backend.capture import Capture, Replay, captured
from pyrite.backend.fusion import Fusion
from pyrite.backend.fusion.eager import computed
from pyrite.backend.fusion.history import Call
from pyrite.backend.fusion.lazy import Lazy, known_value
from pyrite.backend.fusion.pending import PendingCalls
from pyrite.compiled.arguments import Tree, fact_of
from pyrite.compiled.expression import with_numbers
from pyrite.errors import CompileError
from pyrite.op import Constant, Handle, TensorBase
from pyrite.op.host_scalar import Choice, key_of, value_of
from pyrite.tensor.draws import DrawsEffect
from pyrite.tensor.parameter import Identified
from pyrite.tensor.stream import DRAWS, current_stream
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_map
from pyrite.types import Array


class Leaf(NamedTuple):
    """A tensor among the arguments, by its number."""

    number: int


class EffectTensor(NamedTuple):
    """A tensor of an effect, by its name there."""

    effect: Hashable
    name: Hashable


class ResultNumber(NamedTuple):
    """What the ops make: a value, by its number among the results of all."""

    number: int


class HeldTensor:
    """A tensor from elsewhere, a global or one made of Python's numbers; it stays what it is."""

    __slots__ = ("handle",)

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeldTensor) and self.handle is other.handle

    def __hash__(self) -> int:
        return id(self.handle)


#: Where a tensor comes from.
Source = Leaf | EffectTensor | ResultNumber | HeldTensor


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor of what a function returns; ``like`` has all but its handle.

    ``steps`` says how many further versions a parameter has than that among the arguments; None of
    what is an argument itself.
    """

    like: Tensor
    source: Source
    steps: int | None

    @property
    def facts(self) -> Hashable:
        """All but where it comes from."""
        return fact_of(self.like), self.steps


@dataclass(frozen=True, slots=True)
class CapturedCall:
    """All that a replay does again.

    ``at`` stands for the ops, ``inputs`` are what they take, ``numbers`` their numbers.  ``tree``
    is what is returned, with ``outputs`` in the places of tensors, ``form`` all else in it.
    ``renewed`` are the tensors of effects.  ``aliases`` are sources that were one tensor.
    """

    at: Call
    inputs: tuple[Source, ...]
    numbers: tuple[Constant, ...]
    sites: Mapping[int, str]
    tree: Any
    form: Hashable
    outputs: tuple[Output, ...]
    choices: Sequence[Choice]
    #: What it did to each state, and what does it again.
    effects: Mapping[Hashable, Hashable]
    replays: Mapping[Hashable, Replay]
    renewed: Mapping[EffectTensor, Source]
    aliases: tuple[tuple[Source, Source], ...]
    #: The inputs, by position, in whose place the call gives something else: what it renews of an
    #: effect, and parameters of which it returns a later version.
    donated: tuple[int, ...]

    @property
    def answers(self) -> list[Hashable]:
        """What was asked of host scalars, and answered."""
        return [(c.asked.key, c.answer) for c in self.choices]

    def difference(self, other: CapturedCall, read: Callable[[Handle], Array]) -> str | None:
        """Return what differs from another call of the same arguments, None where nothing does.

        ``read`` gives the values of a tensor that stays.
        """
        if self.at is not other.at:
            return _of_ops(self.at, other.at)
        for n, (x, y) in enumerate(zip(self.numbers, other.numbers, strict=True)):
            if key_of(x.value) != key_of(y.value):
                return f"number {n} of its ops, {x.value!r} and {y.value!r},"
        found = (what for what, is_same in self._compared(other, read) if not is_same)
        return next(found, None)

    def _compared(
        self, other: CapturedCall, read: Callable[[Handle], Array]
    ) -> Iterator[tuple[str, bool]]:
        def are_same(x: Sequence[Source], y: Sequence[Source]) -> bool:
            return len(x) == len(y) and all(_is_same(a, b, read) for a, b in zip(x, y, strict=True))

        yield (
            "a tensor that it takes, and that is no argument,",
            are_same(self.inputs, other.inputs),
        )
        yield "what it returns besides tensors", self.form == other.form
        mine, others = self.outputs, other.outputs
        yield "the types of what it returns", [o.facts for o in mine] == [o.facts for o in others]
        sources = [[o.source for o in outputs] for outputs in (mine, others)]
        yield "which tensors it returns", are_same(*sources)
        yield "what it does to an optimizer, or how much it draws,", self.effects == other.effects
        slots = self.renewed.keys() == other.renewed.keys()
        renewed = slots and are_same(
            [*self.renewed.values()], [other.renewed[k] for k in self.renewed]
        )
        yield "what it keeps in an optimizer", renewed
        is_same = self.answers == other.answers
        yield "a comparison with a number that changes from call to call", is_same


def _of_ops(x: Call, y: Call) -> str:
    mine, others = x.path, y.path
    for n, (one, other) in enumerate(zip(mine, others, strict=False)):
        if one is not other:
            names = [c.op.name for c in (one, other) if c.op is not None]
            if len(set(names)) == 1:
                return f"op {n}, {names[0]}, which has another operand, type or attribute"
            return f"op {n}, {' and '.join(names)}"
    return f"the number of ops, {len(mine)} and {len(others)}"


def _is_same(x: Source, y: Source, read: Callable[[Handle], Array]) -> bool:
    """Whether two calls took a tensor from one place; what each made must hold the same values."""
    if not isinstance(x, HeldTensor) or not isinstance(y, HeldTensor):
        return x == y
    if x.handle is y.handle:
        return True
    mine, other = read(x.handle), read(y.handle)
    is_alike = (mine.shape, mine.dtype) == (other.shape, other.dtype)
    return is_alike and mine.tobytes() == other.tobytes()


def call_captured(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], given: Tree,
    fusion: Fusion, capture: Capture, *, waits: bool,
) -> tuple[Any, CapturedCall]:  # fmt: skip
    """Return what a function returns, and the call.  One that raises has changed no effect.

    ``waits`` as in `Fusion.captured`.
    """
    capture.effects[DRAWS] = DrawsEffect(current_stream())
    with _recording(fusion, waits=waits) as pending:
        try:
            with captured(capture):
                result = function(*args, **kwargs)
            found = _Reading(fusion, pending, capture, given).call(result)
            pending.donated = found.donated
        except BaseException:
            undo(capture)
            raise
    return with_numbers(result, value_of), found


def undo(capture: Capture) -> None:
    """Make all states what a call found."""
    for effect in capture.effects.values():
        effect.restore()


@contextmanager
def _recording(fusion: Fusion, *, waits: bool) -> Iterator[PendingCalls]:
    pending = fusion.captured(waits=waits)
    try:
        yield pending
    finally:
        pending.is_captured = False


class _Reading:
    """What there is to say of a call that has returned."""

    def __init__(
        self, fusion: Fusion, pending: PendingCalls, capture: Capture, given: Tree
    ) -> None:
        self._fusion = fusion
        self._pending = pending
        self._capture = capture
        self._given = given
        self._sources: dict[int, Source] = {}
        self._aliases: list[tuple[Source, Source]] = []
        for n, t in enumerate(given.leaves):
            self._found(t, Leaf(n))
        for key, effect in capture.effects.items():
            for name, kept in effect.before().items():
                self._found(kept, EffectTensor(key, name))

    def _found(self, t: TensorBase, source: Source) -> None:
        handle = t._handle
        if not (isinstance(handle, Lazy) and handle.place[0] is self._pending):
            # Of another thread's calls: inputs are known by what these compute.
            handle = computed(handle)
        known = self._sources.setdefault(id(handle), source)
        if known != source:
            self._aliases.append((known, source))

    def call(self, result: Any) -> CapturedCall:
        pending, effects = self._pending, self._capture.effects
        inputs = tuple([self._source(x) for x in pending.inputs])
        tree = Tree.of(result)
        versions = {t.id: t.version for t in self._given.leaves if isinstance(t, Identified)}
        outputs = [self._output(t, versions) for t in tree.leaves]
        like = {id(t): output.like for t, output in zip(tree.leaves, outputs, strict=True)}
        renewed = {
            EffectTensor(key, name): self._source(self._handle(t))
            for key, effect in effects.items()
            for name, t in effect.after().items()
        }
        used = {*inputs, *(o.source for o in outputs), *renewed.values()}
        return CapturedCall(
            pending.at, inputs, tuple(pending.numbers), pending.sites,
            tree_map(lambda t: like[id(t)], result), tree.form, tuple(outputs),
            self._capture.choices,
            {key: effect.form for key, effect in effects.items()},
            {key: plan for key, effect in effects.items() if (plan := effect.plan()) is not None},
            renewed, tuple([(x, y) for x, y in self._aliases if {x, y} & used]),
            self._donated(inputs, outputs, renewed),
        )  # fmt: skip

    def _donated(
        self, inputs: Sequence[Source], outputs: Sequence[Output],
        renewed: Mapping[EffectTensor, Source],
    ) -> tuple[int, ...]:  # fmt: skip
        later = {o.like.id for o in outputs if isinstance(o.like, Identified) and o.steps}
        leaves = self._given.leaves
        parameters = {
            Leaf(n) for n, t in enumerate(leaves) if isinstance(t, Identified) and t.id in later
        }
        kept = {o.source for o in outputs} | set(renewed.values())
        kept.update(source for pair in self._aliases for source in pair)
        given = (parameters | set(renewed)) - kept
        return tuple([n for n, source in enumerate(inputs) if source in given])

    def _source(self, handle: Handle) -> Source:
        handle = known_value(handle)
        if (known := self._sources.get(id(handle))) is not None:
            return known
        if isinstance(handle, Lazy):
            pending, number = handle.place
            if pending is self._pending:
                return ResultNumber(number)
        return HeldTensor(handle)

    def _output(self, t: Tensor, versions: Mapping[int, int]) -> Output:
        source = self._source(self._handle(t))
        is_given = isinstance(source, Leaf) and self._given.leaves[source.number] is t
        if not isinstance(t, Identified):
            like = object.__new__(Tensor)
            like._type, like._backend = t._type, t._backend
            return Output(like, source, None if is_given else 0)
        if t.id not in versions:
            raise CompileError(
                f"compile requires parameters and states to be made outside, got a new "
                f"{type(t).__name__} of {t.shape} among what the function returns"
            )
        steps = None if is_given else t.version - versions[t.id]
        return Output(t._same(t._type, t._backend), source, steps)

    def _handle(self, t: Any) -> Handle:
        if t._backend is not self._fusion:
            raise CompileError(
                f"compile requires results on the device of the arguments, got a tensor on "
                f"{t.device} of {t._type}; return what it was made of"
            )
        return t._handle
