"""Programs that are wrong are found when they run, said once, and not used any more."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.program import CubeProgram
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.backend.fusion.check import CheckedProgram
from pyrite.backend.fusion.reproduction import read_reproduction
from pyrite.backend.graph import Graph
from pyrite.config import Check
from pyrite.errors import ArgumentError, IndexRangeError
from pyrite.testing.planted_faults import Planted, kernel_faults, plan_faults
from pyrite.testing.random_graphs import RandomGraph
from pyrite.testing.random_steps import STEPS
from pyrite.types import Array

CPU = pyrite.device("cpu").backend.root
RNG = np.random.default_rng(11)
X, Y = RNG.standard_normal((24, 40), np.float32), RNG.standard_normal((24, 40), np.float32)
W = RNG.standard_normal((40, 40), np.float32)
#: A fault that moves no element by more than so many of its tensor's is none.
ROUNDINGS = 8


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pyrite.config, "reproductions", str(tmp_path))
    return tmp_path


def norms(x: Tensor, y: Tensor, w: Tensor) -> Sequence[Tensor]:
    h = (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True) + 1e-3).sqrt()
    return h.softmax(-1) * y, (h.exp() + y).sum(0)


def products(x: Tensor, y: Tensor, w: Tensor) -> Sequence[Tensor]:
    h = (x @ w).relu()
    g = (h @ w.mT) * y
    return (g.tanh() @ w).sum(-1), h * 2 + g


def moves(x: Tensor, y: Tensor, w: Tensor) -> Sequence[Tensor]:
    a = pyrite.concat([x * 2, y.flip(0)], axis=0)
    return (a[::2, 1:].clip(-1.0, 1.0) + 1.5).sqrt() * 2, a.max(-1), (w * 3 - 1).cumsum(0)


def steps(x: Tensor, y: Tensor, w: Tensor) -> Sequence[Tensor]:
    def loss(w: Tensor) -> Tensor:
        return ((x @ w).gelu() @ w.mT - y).square().mean()

    value, g = pyrite.value_and_grad(loss)(w)
    m = 0.9 * w + 0.1 * g
    return value, w - 0.01 * m / (g.square().sqrt() + 1e-3), m


PROGRAMS: tuple[Callable[[Tensor, Tensor, Tensor], Sequence[Tensor]], ...] = (
    norms, products, moves, steps,
)  # fmt: skip


def given(device: Device) -> list[Tensor]:
    return [pyrite.tensor(v, device=device) for v in (X, Y, W)]


@dataclass(frozen=True)
class Ran:
    """A program as it ran, and what it gave."""

    graph: Graph
    program: CubeProgram
    inputs: list[Any]

    def check(self, program: CubeProgram) -> tuple[bool, bool]:
        """Return whether a program in this one's place is wrong, and whether that is found."""
        noted = Noted(program)
        checked = CheckedProgram(CPU, self.graph, noted, "first")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pyrite.QuarantineWarning)
            checked.run(self.inputs, {})
        return self.is_felt(noted.found), checked.is_quarantined

    def is_felt(self, found: Sequence[Array]) -> bool:
        """Whether results differ by more than a few roundings of their largest element.

        What moves them by less, as the last term of a polynomial, no comparison can tell.
        """
        for x, y in zip(CPU.download_all(self.program.run(self.inputs, {})), found, strict=True):
            wide = x.astype(np.float64)
            with np.errstate(invalid="ignore"):
                is_near = np.abs(y - wide) <= ROUNDINGS * 2.0**-23 * np.abs(wide).max()
            if not is_near.all():
                return True
        return False


class Noted:
    """A program, and what it gave: memory that a fault leaves as it was may be right by chance."""

    def __init__(self, program: CubeProgram) -> None:
        self._program = program
        self.launches, self.checked, self.memory = program.launches, program.checked, program.memory
        self.found: list[Array] = []

    def run(self, inputs: Sequence[Any], sites: Any) -> Sequence[Any]:
        results = self._program.run(inputs, sites)
        self.found = CPU.download_all(results)
        return results


@pytest.fixture(scope="module")
def ran() -> list[Ran]:
    """The largest program of each function."""
    found: list[Ran] = []
    for function in PROGRAMS:
        fusion, made = Fusion(CPU), list[Ran]()
        compile = fusion.inner.compile

        def noted(
            graph: Graph, inputs: Any, donated: Any = (), made: Any = made, compile: Any = compile
        ) -> Any:
            program = compile(graph, inputs, donated)
            made.append(Ran(graph, program, list(inputs)))
            return program

        fusion.recorded.inner = _With(fusion.recorded.inner, compile=noted)  # type: ignore[assignment]
        results = function(*given(Device(fusion)))
        fusion.flush()
        assert all(np.isfinite(r.numpy()).all() for r in results)
        found.append(max(made, key=lambda one: one.program.launches))
    return found


class _With:
    """An object with another method."""

    def __init__(self, of: Any, **others: Any) -> None:
        self._of, self._others = of, others

    def __getattr__(self, name: str) -> Any:
        return self._others.get(name) or getattr(self._of, name)


def missed(one: Ran, faults: Iterable[Planted]) -> tuple[int, list[str]]:
    """Return how many faults are felt, and which of these are not found."""
    checked = [(name, *one.check(program)) for name, program in faults]
    felt = [(name, is_found) for name, is_felt, is_found in checked if is_felt]
    return len(felt), [name for name, is_found in felt if not is_found]


def test_a_fault_of_a_plan_is_found(ran: list[Ran], full: bool) -> None:
    of = [list(plan_faults(one.program)) for one in ran]
    if not full:
        of = [random.Random(0).sample(faults, min(12, len(faults))) for faults in of]
    counts = [missed(one, faults) for one, faults in zip(ran, of, strict=True)]
    assert sum(felt for felt, _ in counts) >= (25 if full else 10)
    assert [names for _, names in counts] == [[]] * len(ran)


def test_a_fault_of_a_kernel_is_found(ran: list[Ran], full: bool) -> None:
    most = 60 if full else 2
    counts = [
        missed(one, islice(kernel_faults(one.program, random.Random(1)), most)) for one in ran
    ]
    felt, names = sum(n for n, _ in counts), [x for _, of in counts for x in of]
    assert felt >= (90 if full else 2)  # 99 with AVX-512, whose kernels differ
    assert len(names) <= 0.05 * felt, (felt, names)


def test_programs_that_are_right_raise_no_alarm(ran: list[Ran]) -> None:
    for one in ran:
        assert one.check(one.program) == (False, False)


@pytest.mark.parametrize("first", range(0, 2000, 10))
@pytest.mark.sample(2)
def test_random_graphs_raise_no_alarm(first: int) -> None:
    device = Device(Fusion(CPU, check="always"))
    for seed in range(first, first + 10):
        RandomGraph(seed, STEPS).run(device)  # a warning is an error


def test_sums_of_repeated_terms_and_infinities_raise_no_alarm() -> None:
    """Seeds that did: equal terms round in one direction, infinities were subtracted, and long sums
    are rounded more often.
    """
    device = Device(Fusion(CPU, check="always"))
    for seed in (100838, 100842, 108768):
        RandomGraph(seed, STEPS).run(device)


# ---- what becomes of it ----


def wrong(program: CubeProgram) -> CubeProgram:
    """Return a program without its last launch."""
    return next(found for name, found in plan_faults(program) if name.endswith("dropped"))


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Programs lack a launch; noted is how many were made."""
    made: list[int] = []
    compile = CubeBackend.compile

    def planted(
        self: CubeBackend, graph: Graph, inputs: Sequence[Any], donated: Collection[int] = ()
    ) -> CubeProgram:
        program = compile(self, graph, inputs, donated)
        made.append(program.launches)
        return wrong(program)

    monkeypatch.setattr(CubeBackend, "compile", planted)
    return made


def test_a_wrong_program_runs_as_its_ops_and_is_said_once(faulty: list[int], folder: Path) -> None:
    device = pyrite.fusion("cpu", check="first", after=0)
    x, _, w = given(device)
    expected = np.tanh(X) * 2 @ W
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(4):
            z = (x.tanh() * 2) @ w  # the user's line
            np.testing.assert_allclose(z.numpy(), expected, rtol=1e-4, atol=1e-4)
    assert [w.category for w in caught] == [pyrite.QuarantineWarning]
    message = str(caught[0].message)
    assert "result 0 of 1, float32[24, 40], has " in message
    assert f"{__file__}:{_line('# the user' + chr(39) + 's line')}" in message
    assert Path(caught[0].filename).name == Path(__file__).name
    assert len(faulty) == 1
    (file,) = folder.iterdir()
    assert message.endswith(f"report it with {file}")


def _line(text: str) -> int:
    with open(__file__) as source:
        return next(n for n, row in enumerate(source, 1) if row.rstrip().endswith(text))


def test_the_file_runs_again_elsewhere(faulty: list[int], folder: Path) -> None:
    device = pyrite.fusion("cpu", check="first", after=0)
    x, y, _ = given(device)
    with pytest.warns(pyrite.QuarantineWarning):
        plain = ((x * 0.5 + y).astype("bfloat16").clip(-1.0, 2.0) + 1).sum(-1).numpy()
    (file,) = folder.iterdir()
    again = read_reproduction(file)
    assert [node.op.name for node in again.graph.nodes][:2] == ["multiply", "add"]
    np.testing.assert_array_equal(again.plain[0], plain)
    assert again.found[0].tobytes() != plain.tobytes()
    # NumPy's programs are lists of calls, and have no such fault.
    (right,) = again.run(pyrite.device("numpy").backend)
    np.testing.assert_allclose(right.astype(float), plain.astype(float), rtol=0.02)


def test_without_checks_nothing_is_compared_and_always_compares_each_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[Check] = []
    compare = CheckedProgram._compared

    def counted(self: CheckedProgram, *arguments: Any) -> Any:
        compared.append(self._check)
        return compare(self, *arguments)

    monkeypatch.setattr(CheckedProgram, "_compared", counted)
    for check in ("off", "first", "always"):
        device = pyrite.fusion("cpu", check=check, after=0)
        x, y, _ = given(device)
        for _ in range(3):
            (x * 2 + y).numpy()
    assert compared == ["first", "always", "always", "always"]


def test_an_index_outside_is_no_fault_of_a_program() -> None:
    device = pyrite.fusion("cpu", check="always", after=0)
    x = pyrite.tensor(X, device=device)
    index = pyrite.tensor([0, 30], device=device)
    with pytest.raises(IndexRangeError):
        (x * 2).take(index, axis=0).numpy()


def test_a_check_has_one_of_three_names() -> None:
    with pytest.raises(ArgumentError, match=r"requires one of \('off', 'first', 'always'\)"):
        pyrite.fusion("cpu", check="often")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"config.fusion_check requires one of"):
        pyrite.config.fusion_check = "often"  # type: ignore[assignment]
