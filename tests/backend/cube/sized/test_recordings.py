"""What is made for a size from a recording of symbols is what the lowering records for it.

Each call of benchmarks/new_size_cases.py is learned when it comes; later ones that find what was
learned are judged by the lowering itself, kernel by kernel and number by number.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import optim  # noqa: F401  the ops of optimisers are known once it is imported
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.recorder import record
from pyrite.backend.cube.recording import Recording
from pyrite.backend.cube.sized import SizedCall, SizedRecordings, recordings
from pyrite.backend.cube.sized.classes import SizeClasses
from pyrite.backend.cube.sized.launcher import Unsized
from pyrite.backend.cube.sized.recording import SizedRecording
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.device import Device
from pyrite.config import config
from pyrite.errors import IndexRangeError
from pyrite.kernel import Kernel
from pyrite.kernel.machine import Machine
from pyrite.op import OPS, Op, sample
from pyrite.runtime.interpreter import InterpretedKernel, InterpreterRuntime
from pyrite.runtime.protocol import Fixed
from pyrite.sized import Miss, SizeSymbols
from pyrite.testing import Example

PATH = Path(__file__).parents[4] / "benchmarks" / "new_size_cases.py"
FAMILIES = runpy.run_path(str(PATH))["FAMILIES"]
CASES = {name: case for cases in FAMILIES.values() for name, case in cases.items()}
MACHINES = {"cpu": Machine.cpu(), "gpu": Machine.gpu(32768, 1024, buffers=32)}
#: Sizes of each case, of which the first is built in, and the second learned.
SIZES = 7
#: What a plan of memory for other sizes may take of one for these, and bytes beside for a part.
MOST, SLACK = 1.25, 256
#: Views launch nothing.
ALONE = {"split_heads"}
WANTED = [(kind, name) for kind in MACHINES for name in CASES if name not in ALONE]


class UncompiledRuntime(InterpreterRuntime):
    """A runtime that compiles nothing: what is asked of it is looked at, and run nowhere."""

    def compile(self, kernel: Kernel) -> InterpretedKernel:
        """Return the kernel as it is."""
        return InterpretedKernel(kernel)

    def launch(self, *_: Any) -> None:
        """Run nothing."""

    def bundle(self, launches: Any) -> Any:
        """Run nothing."""
        return UncompiledBundle()


class UncompiledBundle:
    """Launches that are not made."""

    def launch(self, operands: Any) -> None:
        """Run nothing."""


class Judge:
    """Learns each call at once, and compares what is made of what was learned."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.judged = self.learned = 0
        self._ops: dict[Hashable, Op] = {}
        self._made, self._learn = SizedRecordings.recording, SizedRecordings.learn
        patch.setattr(SizedRecordings, "recording", lambda *given: self._recording(*given))
        patch.setattr(SizedRecordings, "learn_later", lambda *given, **_: self._learn_now(*given))

    def _recording(
        self, known: SizedRecordings, kind: Hashable, call: SizedCall
    ) -> Recording | None:
        made = self._made(known, kind, call)
        if made is not None:
            op = self._ops[kind]
            lowering = known.choose(op, call.inputs, call.attrs)
            assert lowering is not None, f"{op.name} is expanded"
            wanted, _, _ = record(
                known._launcher, lowering, op, call.inputs, call.attrs, call.out, comes_first=False
            )
            given = sum(isinstance(x, CubeTensor) for x in call.inputs)
            done, want = what_it_does(made, given), what_it_does(wanted, given)
            assert done == want, (op.name, call.sizes)
            assert made.planned <= MOST * wanted.planned + SLACK * len(made.parts)
            self.judged += 1
        return made

    def _learn_now(self, known: SizedRecordings, kind: Hashable, op: Op, call: SizedCall) -> None:
        self._ops[kind] = op
        with suppress(Unsized):
            self._learn(known, kind, op, call)
            self.learned += 1


def what_it_does(of: Recording, given: int) -> tuple[Any, ...]:
    """Return all that a recording for so many inputs says, its kernels by identity.

    Not where its buffers lie, but which launch wrote what is read there.
    """
    steps = [
        (id(s.executable), s.grid, [repr(b) for b in s.bindings if isinstance(b, Fixed)], s.stepped)
        for s in of.steps
    ]
    return (
        of.faults, of.arguments, steps, [rest for _, *rest in of.results], sources(of, given),
        of.name, [type for _, type in of.new], [type for _, type in of.large], of.donated,
        of.split, of.shares_rooms,
    )  # fmt: skip


def sources(of: Recording, given: int) -> list[Any]:
    """Return for all that launches read, and all results, the launch that wrote there last.

    What is written over before it is read, or by parts of a buffer that meet, has another source
    than where each slot has memory of its own.
    """
    regions = regions_of(of, given)
    last: dict[int, Any] = {}
    found: list[Any] = []
    for n, step in enumerate(of.steps):
        places = [
            (place, at, parameter.attr[2])
            for place, (at, parameter) in enumerate(
                zip(step.bindings, step.executable.kernel.parameters, strict=True)
            )
            if parameter.kind == "buffer" and isinstance(at, int)
        ]
        found += [(n, place, last.get(at, at < given and at)) for place, at, _ in places]
        for place, at, access in places:
            if access != "read":
                for other in regions if at in regions else ():
                    if other != at and meet(regions[other], regions[at]):
                        last[other] = "written over"
                last[at] = (n, place)
    # What a launch writes was anything before.
    reads = [(n, place, x) for n, place, x in found if reads_of(of, n, place)]
    return [*reads, *[last.get(at, at < given and at) for at, *_ in of.results]]


def reads_of(of: Recording, launch: int, place: int) -> bool:
    """Whether a launch reads what it binds there."""
    access: str = of.steps[launch].executable.kernel.parameters[place].attr[2]
    return access != "write"


def regions_of(of: Recording, given: int) -> dict[int, tuple[int, int, int]]:
    """Return of operands the buffer, and the first byte and that behind the last."""
    found = {given + n: (n, 0, size) for n, size in enumerate(of.sizes)}
    for n, part in enumerate(of.parts, start=given + len(of.sizes)):
        size = of.block if part.buffer == -1 else of.sizes[part.buffer]
        assert 0 <= part.offset <= part.offset + part.nbytes <= size
        found[n] = (part.buffer, part.offset, part.offset + part.nbytes)
    return found


def meet(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    """Whether two regions have bytes in common."""
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


@pytest.fixture(autouse=True)
def _nothing_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "ahead", False)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Judge:
    """One that watches all backends."""
    return Judge(monkeypatch)


def call_of(name: str, device: Device, rng: Random) -> Callable[[], Any]:
    """Return a call of a case at sizes that are drawn."""
    case = CASES[name]
    example = Example(OPS[case.op], 0, case.draw(rng))
    inputs = [
        pyrite.tensor(x, device=device) if hasattr(x, "shape") else x
        for x in example.arrays(pyrite.float32)
    ]
    return lambda: example.call(inputs, device)


@pytest.mark.sample(24)
@pytest.mark.parametrize(("kind", "name"), WANTED)
def test_calls_are_recorded_as_by_the_lowering(kind: str, name: str, judge: Judge) -> None:
    device = Device(CubeBackend(UncompiledRuntime(MACHINES[kind])))
    rng = Random(name)

    for _ in range(SIZES):
        call_of(name, device, rng)()


@pytest.mark.parametrize(
    "name",
    [
        "gelu", "softmax", "layer_norm, gradients", "linear", "take", "conv2d 3x3",
        "conv2d 3x3, gradient of w", "conv2d depthwise",
    ],
)  # fmt: skip
def test_most_sizes_find_what_others_learned(name: str, judge: Judge) -> None:
    device = Device(CubeBackend(UncompiledRuntime(MACHINES["cpu"])))
    rng = Random(0)

    for _ in range(20):
        call_of(name, device, rng)()

    assert judge.judged > judge.learned


def test_a_guard_that_is_forgotten_is_found(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SizeSymbols, "ask", lambda self, text, answer: answer)
    device = Device(CubeBackend(UncompiledRuntime(MACHINES["gpu"])))
    rng = Random(0)
    calls = [call_of("attention, gradients", device, rng) for _ in range(SIZES)]

    with pytest.raises(AssertionError):
        [call() for call in calls]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_values_of_later_sizes_are_those_of_numpy(dtype: str, judge: Judge) -> None:
    device = pyrite.device("cpu")
    known = device.backend.root._sized
    rng = np.random.default_rng(0)
    before = known.served

    for rows, columns in [(5, 33), (3, 17), (4, 16), (7, 33), (9, 35), (6, 48), (2, 65), (31, 19)]:
        data = rng.integers(-4, 5, (rows, 2 * columns)).astype(dtype)
        whole = pyrite.tensor(data, device=device)
        for cut in (np.s_[:], np.s_[:, ::2], np.s_[::-1], np.s_[:, 1:columns]):
            given, x = data[cut], whole[cut]
            highest = x.maximum(x.flip(0)).numpy()
            np.testing.assert_array_equal(highest, np.maximum(given, given[::-1]))
            np.testing.assert_allclose(x.max(axis=1).numpy(), given.max(axis=1))
            np.testing.assert_allclose(x.mT.sum(axis=0).numpy(), given.sum(axis=1), rtol=1e-2)

    assert known.served > before


def test_an_error_of_indices_names_the_sizes_of_its_call(judge: Judge) -> None:
    device = pyrite.device("cpu")

    for size in (40, 50, 60, 70, 80):
        x = pyrite.tensor(np.zeros((size, 33), "float32"), device=device)
        with pytest.raises(IndexRangeError, match=f"-{size} <= index < {size}"):
            x.take(pyrite.tensor(np.full(9, size), device=device), axis=0).numpy()


def test_what_has_too_many_classes_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "MOST_CLASSES", 2)
    backend = CubeBackend(UncompiledRuntime(MACHINES["cpu"]))
    known = SizedRecordings(backend.launcher, backend.lowering_of_call)
    kinds: list[Any] = []
    monkeypatch.setattr(
        SizedRecordings, "learn_later",
        lambda _, kind, op, call, **_given: (kinds.append(kind), known.learn(kind, op, call)),
    )  # fmt: skip
    device = Device(backend)

    for columns in (7, 16, 33, 3, 31):
        pyrite.tensor(np.ones((5, columns), "float32"), device=device).softmax(-1)

    assert known.known > 2
    assert all(len(known._classes.get(kind) or ()) <= 2 for kind in kinds)


def test_a_kind_whose_calls_are_all_of_other_classes_is_given_up(
    monkeypatch: pytest.MonkeyPatch, judge: Judge
) -> None:
    monkeypatch.setattr(recordings, "MOST_MISSED", 2)
    monkeypatch.setattr(SizedRecording, "recording", lambda *_: None)
    device = Device(CubeBackend(UncompiledRuntime(MACHINES["cpu"])))
    images = [
        pyrite.tensor(np.ones((2, 4, n, n), "float32"), device=device)
        for n in (9, 20, 50, 110, 220)
    ]
    weight = pyrite.tensor(np.ones((4, 4, 3, 3), "float32"), device=device)

    for x in images:
        x.conv2d(weight)

    known = device.backend.root._sized
    assert known.known == 2
    assert not any(known._classes.young.values())


def test_a_call_asks_few_of_many_classes_and_finds_the_same(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device(CubeBackend(UncompiledRuntime(MACHINES["cpu"])))
    known, rng = device.backend.root._sized, Random(0)
    calls, find = list[tuple[Hashable, SizedCall]](), SizedRecordings.recording
    monkeypatch.setattr(
        SizedRecordings, "recording", lambda *given: (calls.append(given[1:]), find(*given))[1]
    )
    for _ in range(40):
        call_of("grid_sample", device, rng)()
    classes, asked = known._classes.get(calls[-1][0]), list[int]()
    assert len(classes) > 4

    def counting(at: int, numbers: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *sizes: (asked.append(at), numbers(*sizes))[1]

    watched = [replace(of, numbers=counting(at, of.numbers)) for at, of in enumerate(classes)]
    for kind, call in calls:
        assert kind == calls[-1][0]
        like = [of for of in classes if of.small == call.small]
        every = [of.numbers(*call.sizes) for of in like]
        found = [numbers for _, numbers in SizeClasses(watched).matches(call)]
        assert found == [x for x in every if not isinstance(x, Miss)]
    assert len(asked) < len(calls) * len(classes) / 2


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("op", ["rnn", "rnn_backward", "lstm_backward"])
def test_all_lengths_of_a_sequence_share_a_recording(
    op: str, is_reversed: bool, judge: Judge
) -> None:
    device = Device(CubeBackend(UncompiledRuntime(MACHINES["cpu"])))
    batch, size = 4, 8
    gates, states = (4, 2) if op.startswith("lstm") else (1, 1)
    x, weight, bias, state = (batch, size), (gates * size, size), (gates * size,), (batch, size)
    kept = [None] * states if gates > 1 else []

    for steps in (5, 9, 3, 14, 40):
        layer = [(steps, *x), weight, weight, bias, bias, *[state] * states]
        given = [(steps, *x), *[state] * states, (steps, *x)] if op.endswith("backward") else []
        attrs = {"argnums": tuple(range(5 + states))} if given else {}
        call = sample(*given, *layer, *(kept if given else []), is_reversed=is_reversed, **attrs)
        example = Example(OPS[op], 0, call)
        inputs = [
            pyrite.tensor(x, device=device) if hasattr(x, "shape") else x
            for x in example.arrays(pyrite.float32)
        ]
        example.call(inputs, device)

    # The first is no class's, the second is learned.
    assert (judge.learned, judge.judged) == (1, 3)


@pytest.mark.parametrize(
    ("found", "learned"), [((True, True), 1), ((False, True), 0), ((False, True, True), 1)]
)
def test_a_call_is_learned_at_once_where_one_of_its_kind_waits(
    found: tuple[bool, ...], learned: int
) -> None:
    """Both of them found their kernels; other ops may have had some built between."""
    backend = CubeBackend(UncompiledRuntime(MACHINES["cpu"]))
    known = SizedRecordings(backend.launcher, backend.lowering_of_call)
    device, op = Device(backend), OPS["softmax"]

    for rows, found_kernels in enumerate(found, start=5):
        data = np.ones((rows, 33), "float32")
        pyrite.tensor(data, device=device).softmax(-1)
        x = backend.upload(data)
        call = SizedCall(op, [x], {"axis": -1}, (x.type,))
        known.learn_later("softmax", op, call, found_kernels=found_kernels)
        pyrite.ones((rows,) * (rows - 3), device=device).sum()  # a kernel of another op

    assert known.known == learned
    assert known.serve("softmax", call) is bool(learned)
