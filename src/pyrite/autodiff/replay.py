"""Backward passes that are done again: what rules do is noted once for all graphs of one form.

A rule is a function of types, attributes and numbers, which are the form of a graph, and of
tensors, into which it cannot look without a read.  So the ops that a walk runs are the same for
every graph of that form, and a training step meets one form again and again.  The second walk of a
form runs on a `WalkRecorder` and becomes a `RecordedWalk`: the list of planned ops, with a number
for each tensor that goes in or comes out.  Later walks run that list and no rule.

Not recorded are graphs of a higher order, with checkpoints, with ops of an application (whose rules
may do what they like) or with plans that are not kept; nor a walk in which a value was read.
A captured call (`pyrite.compile`) has no recording: it makes the same ops the first time as later.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Sequence
from operator import attrgetter
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from pyrite.autodiff.gradients import Gradients
from pyrite.autodiff.node import Applied, Checkpoint, Leaf, Node, Saved, Variable
from pyrite.autodiff.walk import Walk, require_own
from pyrite.backend.capture import capturing
from pyrite.backend.passage import Passage, PassageCall
from pyrite.backend.protocol import Backend
from pyrite.columns import Maker
from pyrite.op import OPS, Constant, Handle, Op, Plan, TensorBase, is_host_scalar
from pyrite.recent import Recent
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, TensorType

#: How many forms a device holds at least: more than a program trains networks.
_FORMS = 64

#: How many constants a device holds at least.
_CONSTANTS = 256

#: Elements of a constant that is kept, rather than made in each pass: a zero for each channel.
_SMALL = 4096

_tensors = Maker(Tensor, "_handle", "_type", "_backend")

Form = tuple[Any, ...]


# ---- the form of a graph ----


def reached(start: Node) -> list[Node]:
    """Return a node and all above it, latest first: the order of a walk."""
    seen, stack = {start}, [start]
    while stack:
        for _, parent, _ in stack.pop().parents:
            if parent not in seen:
                seen.add(parent)
                if parent.parents:
                    stack.append(parent)
    return sorted(seen, key=attrgetter("order"), reverse=True)


def form_of(start: Variable, nodes: Sequence[Any]) -> Form | None:
    """Return all on which a walk depends but for the tensors; None where it may depend on more.

    A plan stands for an op, its attributes and the types of its inputs.
    """
    numbers = {node: n for n, node in enumerate(nodes)}
    parts: list[Any] = [start.index]
    for node in nodes:
        if node.__class__ is Applied:
            if not node.plan.is_kept or node.run_inputs is not None:
                return None
            parts += (node.plan, node.tracked)
            if node.has_numbers:
                parts += _numbers(node.saved)
        elif node.__class__ is Checkpoint:
            return None
        else:
            parts += (node.__class__, node.active)
        for position, parent, index in node.parents:
            parts += (position, numbers[parent], index)
    return tuple(parts)


def _numbers(saved: Sequence[Saved]) -> Iterator[Any]:
    for value in saved:
        if value.__class__ is Constant:
            yield value.value.__class__
            yield value.value or str(value.value)


# ---- what is recorded ----


class Source(NamedTuple):
    """A tensor of the graph: entry of what a node saved, or item of an entry that is a tuple."""

    node: int
    entry: int
    item: int | None


class RecordedWalk(NamedTuple):
    """The backward pass of a form: what it takes of the graph, and the calls.

    ``gradients`` are, of each result, the node of a leaf and the type of its gradient.
    """

    passage: Passage
    sources: tuple[Source, ...]
    gradients: tuple[tuple[int, TensorType], ...]

    def replay(self, nodes: Sequence[Any], backend: Backend) -> tuple[list[Leaf], list[Tensor]]:
        """Return the leaves of a graph of this form, and the gradient of each."""
        given = [
            nodes[node].saved[entry]._handle if item is None
            else nodes[node].saved[entry][item]._handle
            for node, entry, item in self.sources
        ]  # fmt: skip
        found = backend.execute_passage(self.passage, given)
        types = [type for _, type in self.gradients]
        leaves = [nodes[at] for at, _ in self.gradients]
        return leaves, _tensors.many(len(types), [*found], types, backend)


# ---- how it is recorded ----


class Noted:
    """A handle of a recorder: that of the backend, and its number."""

    __slots__ = ("handle", "number")

    def __init__(self, handle: Handle, number: int) -> None:
        self.handle = handle
        self.number = number


class WalkRecorder(Backend):
    """A backend on which a walk runs once: it does what it is asked for, and notes it."""

    def __init__(self, inner: Backend) -> None:
        self.inner: Backend = inner
        self.name = inner.name
        self.values: list[Any] = []
        self.calls: list[PassageCall] = []
        #: Whether nothing was asked for that may be different the next time.
        self.is_repeatable = True

    def number(self, value: Any = None) -> int:
        """Return a new number, for a value that is always the same or for one to come."""
        self.values.append(value)
        return len(self.values) - 1

    def keeps(self, op: Op, inputs: Sequence[Handle]) -> bool:
        """Whether the backend keeps it."""
        return self.inner.keeps(op, [_handle(i) for i in inputs])

    def execute(self, op: Op, inputs: Sequence[Handle], plan: Plan) -> Sequence[Noted] | None:
        """Execute one op, and note it.

        A small result that no tensor went into is a constant.
        """
        results = self.inner.execute(op, [_handle(i) for i in inputs], plan)
        if results is None:
            return None
        plan.is_kept = True  # by the recording
        numbers = tuple(i.number if isinstance(i, Noted) else self.number(i) for i in inputs)
        is_small = plan.out is not None and sum(type.size for type in plan.out) <= _SMALL
        if is_small and all(self.values[n] is not None for n in numbers):
            return [Noted(r, self.number(r)) for r in results]
        outputs = tuple(self.number() for _ in results)
        self.calls.append(PassageCall(op, plan, numbers, outputs, ()))
        return [Noted(r, n) for r, n in zip(results, outputs, strict=True)]

    def upload(self, array: Array) -> Noted:
        """Return a constant."""
        handle = self.inner.upload(array)
        return Noted(handle, self.number(handle))

    def download(self, handle: Noted) -> Array:
        """Return the values, on which what comes next may depend."""
        self.is_repeatable = False
        return self.inner.download(handle.handle)

    def type_of(self, handle: Noted) -> TensorType:
        """Return the type of a handle."""
        return self.inner.type_of(handle.handle)

    def supports(self, type: TensorType) -> bool:
        """Whatever the backend supports."""
        return self.inner.supports(type)

    def synchronize(self) -> None:
        """Wait until all submitted work is done."""
        self.inner.synchronize()

    def primitive(self, handle: Noted) -> Any:
        """Return what lies under it, which a recording would not know of."""
        self.is_repeatable = False
        return self.inner.primitive(handle.handle)

    def lift(self, tensor: TensorBase) -> Noted:
        """Return a handle of a tensor of the backend that came from elsewhere than the graph."""
        if tensor._backend is self:
            own: Noted = tensor._handle
            return own
        self.is_repeatable = False
        return Noted(self.inner.lift(tensor), self.number())


def _handle(value: Any) -> Any:
    return value.handle if isinstance(value, Noted) else value


class _RecordingWalk(Walk):
    """A walk on a recorder, whose gradients are the backend's."""

    backend: WalkRecorder

    def __init__(self, nodes: Sequence[Node], backend: Backend) -> None:
        super().__init__(WalkRecorder(backend))
        self._numbers = {node: n for n, node in enumerate(nodes)}
        #: By the numbers of values.
        self._sources: dict[int, Source] = {}
        self._gradients: list[tuple[int, int, TensorType]] = []
        self._inner = backend

    def saved(self, node: Applied) -> list[Any]:
        """Return what a rule gets of what a node saved, on the recorder."""
        return [
            tuple(self._noted(s, node, n, item) for item, s in enumerate(saved))
            if isinstance(saved, tuple)
            else self._noted(saved, node, n, None)
            for n, saved in enumerate(node.saved)
        ]

    def _noted(self, saved: Saved, node: Applied, entry: int, item: int | None) -> Any:
        if not isinstance(saved, Tensor):
            return self._value(saved, node)
        number = self.backend.number()
        self._sources[number] = Source(self._numbers[node], entry, item)
        return Tensor._wrap(Noted(saved._handle, number), saved._type, self.backend)

    def file(self, leaf: Leaf, g: Tensor) -> None:
        """Note the gradient of a leaf, and its number."""
        noted: Noted = g._handle
        self._gradients.append((self._numbers[leaf], noted.number, g._type))
        super().file(leaf, Tensor._wrap(noted.handle, g._type, self._inner))

    def recording(self) -> RecordedWalk:
        """Return what was noted."""
        calls, kept = self.backend.calls, {number for _, number, _ in self._gradients}
        used = set(kept)
        living: list[PassageCall] = []
        for step in reversed(calls):
            if used.isdisjoint(step.outputs):
                continue
            inputs = {n for n in step.inputs if self.backend.values[n] is None}
            done = (inputs | set(step.outputs)) - used
            used |= inputs
            living.append(step._replace(done=tuple(done)))
        sources = {n: source for n, source in self._sources.items() if n in used}
        passage = Passage(
            self.backend.values, tuple(sources), living[::-1], [n for _, n, _ in self._gradients]
        )
        return RecordedWalk(
            passage, tuple(sources.values()), tuple((at, type) for at, _, type in self._gradients)
        )


# ---- in a captured call ----


#: What ops made of numbers alone, by the plan and the numbers.
Constants = Recent[Hashable, Sequence[Handle]]


class _ConstantsApart(WalkRecorder):
    """A recorder for which constants are made below, once, and not in the captured call."""

    def __init__(self, inner: Backend, constants: Constants) -> None:
        super().__init__(inner)
        self._constants = constants
        #: The constants among the numbers of values, by what made them.
        self._made: dict[int, Hashable] = {}

    def execute(self, op: Op, inputs: Sequence[Handle], plan: Plan) -> Sequence[Noted] | None:
        """Execute one op; a small result of numbers and constants alone is a constant."""
        is_small = plan.out is not None and sum(type.size for type in plan.out) <= _SMALL
        keys = [self._key(x) for x in inputs]
        if not is_small or op.sync or not all(keys):
            return super().execute(op, inputs, plan)
        key = (plan, *keys)
        found = self._constants.get(key)
        if found is None:
            found = self.inner.root.execute(op, [_handle(x) for x in inputs], plan)
            if found is None:
                return super().execute(op, inputs, plan)
            plan.is_kept = True  # by the key
            self._constants.put(key, found)
        noted = [Noted(r, self.number(r)) for r in found]
        self._made.update({of.number: (key, n) for n, of in enumerate(noted)})
        return noted

    def _key(self, x: Any) -> Hashable:
        """Return what a constant is made by; None for what may be another at the next call."""
        if isinstance(x, Noted):
            return self._made.get(x.number)
        if isinstance(x, Constant) and not is_host_scalar(x.value):
            # As text: 0.0 and -0.0 are equal, and NaN is not equal to itself.
            return (x.type, x.value.__class__, repr(x.value))
        return None


class _CapturedWalk(_RecordingWalk):
    """A walk in a captured call, of which nothing is kept but the constants."""

    def __init__(self, nodes: Sequence[Node], backend: Backend, constants: Constants) -> None:
        super().__init__(nodes, backend)
        self.backend = _ConstantsApart(backend, constants)


# ---- which forms are known ----


class _Forms:
    """The recordings of one device, by form, and the forms that were met."""

    def __init__(self) -> None:
        self.recordings: Recent[Form, RecordedWalk] = Recent(_FORMS)
        #: Constants of captured walks, by what made them.
        self.constants: Constants = Recent(_CONSTANTS)
        #: Whether a form that was met may be recorded.
        self.met: Recent[Form, bool] = Recent(_FORMS)


_forms: WeakKeyDictionary[Backend, _Forms] = WeakKeyDictionary()
_lock = Lock()


def gradients(start: Variable, leaves: Container[Node] | None = None) -> Gradients:
    """Return what a walk back from a variable finds, by a recording where there is one.

    Raises GradientError for a leaf that is none of ``leaves``.
    """
    assert start.node is not None
    backend = start.value._backend
    if backend.level == 0:
        nodes = reached(start.node)
        form = form_of(start, nodes)
        if form is not None:
            known = _forms_of(backend)
            if capturing() is not None and _is_recordable(nodes):
                return _CapturedWalk(nodes, backend, known.constants).run(start, leaves)
            return _by_form(form, known, nodes, start, leaves)
    return Walk(backend).run(start, leaves)


def _forms_of(backend: Backend) -> _Forms:
    found = _forms.get(backend)
    if found is None:
        with _lock:
            found = _forms.setdefault(backend, _Forms())
    return found


def _by_form(
    form: Form,
    known: _Forms,
    nodes: Sequence[Node],
    start: Variable,
    leaves: Container[Node] | None,
) -> Gradients:
    backend = start.value._backend
    recording = known.recordings.get(form)
    if recording is not None:
        return _replayed(recording, nodes, backend, leaves)
    if known.met.get(form) is None:
        known.met.put(form, _is_recordable(nodes))
    elif known.met.get(form):
        walk = _RecordingWalk(nodes, backend)
        found = walk.run(start, leaves)
        if walk.backend.is_repeatable:
            known.recordings.put(form, walk.recording())
        else:
            known.met.put(form, False)
        return found
    return Walk(backend).run(start, leaves)


def _is_recordable(nodes: Sequence[Node]) -> bool:
    """Whether all ops are Pyrite's: the rules of others may depend on what no form shows."""
    return all(OPS.get(n.op.name) is n.op for n in nodes if isinstance(n, Applied))


def _replayed(
    recording: RecordedWalk,
    nodes: Sequence[Node],
    backend: Backend,
    leaves: Container[Node] | None,
) -> Gradients:
    found = Gradients()
    for node in nodes:
        if node.emissions:
            found.add_emissions(node.emissions)
        if isinstance(node, Leaf):
            require_own(node, leaves)
    found.add_all(*recording.replay(nodes, backend))
    return found
