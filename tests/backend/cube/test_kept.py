"""Kernels on disk: found by another backend as it would write them, and by none that would not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.config import config
from pyrite.content import content_of
from pyrite.errors import ArgumentError, KernelError
from pyrite.kernel.choice import FINDERS
from pyrite.kernel.choice import kept as kept_by
from pyrite.kernel.machine import Machine
from pyrite.testing import examples
from pyrite.types import bfloat16, float16, float32, int8

pytest.importorskip("llvmlite")

from pyrite.backend.cube import kept_choice
from pyrite.backend.cube.kept import Kept, Written, _decoded, _encoded, kept_kernels
from pyrite.kernel import KernelBuilder
from pyrite.runtime.cache import DiskCache
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.runtime.kernel_cache import KernelCache
from pyrite.runtime.sources import Sources
from pyrite.symbol import Symbols

Make = Callable[[], CubeBackend]
EXAMPLES = list(examples())


@pytest.fixture(autouse=True)
def version(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have it that the sources did not change: somebody may edit them while tests run.

    After each test no choices are kept any more.
    """
    monkeypatch.setattr(Sources, "version", "of these tests")
    monkeypatch.setattr(Sources, "are_unchanged", lambda self, since: True)
    yield
    FINDERS.clear()


@pytest.fixture
def mode(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what chooses how kernels on disk are used."""
    return lambda value: monkeypatch.setattr(config, "kept_kernels", value)


@pytest.fixture
def make(tmp_path: Path, mode: Callable[[str], None]) -> Iterator[Make]:
    """Return what makes a backend that has only a folder in common with those before it."""
    made: list[CubeBackend] = []
    mode("use")

    def backend() -> CubeBackend:
        found = CubeBackend(CpuRuntime(cache=tmp_path, threads=1))
        made.append(found)
        return found

    yield backend
    for used in made:
        used.runtime.close()


def work(backend: CubeBackend, rows: int = 37) -> list[Any]:
    """Return results of kernels of several skeletons, of strided and broadcast operands."""
    device = Device(backend)
    rng = np.random.default_rng(3)
    found = []
    for dtype in (float32, float16, bfloat16):
        x = pyrite.tensor(rng.standard_normal((rows, 33)), dtype=dtype, device=device)
        w = pyrite.tensor(rng.standard_normal((33, 19)), dtype=dtype, device=device)
        y = (x @ w + w[:1]).gelu().softmax(axis=-1)
        found += [y, y.T.sum(axis=0), x[::2, 1:].mean(axis=1), x[:, :0].sum(axis=1)]
    n = pyrite.tensor(rng.integers(-9, 9, (rows, 5)), dtype=int8, device=device)
    found += [n.cumsum(axis=0), n.argsort(axis=1), (n * n[:, :1]).max(axis=0)]
    return [(t.dtype.name, t.numpy().tobytes()) for t in found]


def test_another_backend_writes_nothing_and_computes_the_same(make: Make) -> None:
    first, second = make(), make()
    results = work(first)
    before = first.launcher.kept_kernels.counts
    assert before["made"]
    assert not before["found"]
    assert not before["refused"]
    assert work(second) == results
    after = second.launcher.kept_kernels.counts
    assert after["found"] == before["made"]
    assert not after["made"]
    assert second.runtime.report().get("compiled", 0) == 0


def test_other_sizes_find_what_they_would_have_built(make: Make) -> None:
    first, second = make(), make()
    results = [work(first), work(first, 64), work(first, 1)]
    again = [work(second, 1), work(second, 64), work(second)]
    assert again == results[::-1]


def test_what_is_found_is_what_is_written(make: Make, mode: Callable[[str], None]) -> None:
    results = work(make())
    mode("check")
    checked = make()
    assert work(checked) == results
    assert not checked.launcher.kept_kernels.counts["found"]


def test_another_kernel_on_disk_is_an_error_where_it_is_checked(
    make: Make, mode: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    work(make())
    get = KernelCache.get

    def other(self: KernelCache, digest: str) -> bytes | None:
        found = get(self, digest)
        written = None if found is None else _decoded(found)
        if written is None:
            return None
        b = KernelBuilder("other")
        b.buffer("x", float32, "write").store(0, 1.0)
        return _encoded(Written(b.build(), written.symbols))

    monkeypatch.setattr(KernelCache, "get", other)
    mode("check")
    with pytest.raises(KernelError, match="requires what is on disk to be what is made"):
        work(make())


def test_off_is_none(make: Make, mode: Callable[[str], None]) -> None:
    mode("off")
    first = make()
    work(first)
    assert not first.launcher.kept_kernels.counts
    mode("use")
    second = make()
    work(second)
    assert not second.launcher.kept_kernels.counts["found"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_damaged_entries_are_written_anew(make: Make, tmp_path: Path, damage: str) -> None:
    results = work(make())
    for file in [f for f in tmp_path.rglob("*") if f.is_file()]:
        content = bytearray(file.read_bytes())
        if damage == "cut":
            content = content[: len(content) // 2]
        elif damage == "flipped":
            content[len(content) // 2] ^= 0x10
        else:
            content = content[: 0 if damage == "empty" else 9]
        file.write_bytes(bytes(content))
    second = make()
    assert work(second) == results
    assert not second.launcher.kept_kernels.counts["found"]
    third = make()
    assert work(third) == results
    assert not third.launcher.kept_kernels.counts["made"]


@pytest.mark.parametrize("kept", [b"", b"{}", b"[]\n", b"null\nx", b'[{"name": 1}, [0, [], []]]\n'])
def test_what_is_no_kernel_is_a_miss(kept: bytes) -> None:
    assert _decoded(kept) is None


def test_settings_and_devices_have_entries_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later: list[Callable[[], None]] = []

    def kernels(machine: Machine, target: str = "t") -> Kept[Written]:
        cache = KernelCache(DiskCache(tmp_path), (target,), lambda what: what())
        return kept_kernels(cache, machine)

    def written() -> Written:
        b = KernelBuilder("one")
        b.buffer("x", float32, "write").store(0, 1.0)
        return Written(b.build(), Symbols())

    machine, key = Machine.cpu(16), ("kernel", 1, 2)
    kernels(machine).found(key, written)

    def is_found(kept: Kept[Written], key: tuple[Any, ...] = key) -> bool:
        kept.found(key, written)
        return bool(kept.counts["found"])

    assert is_found(kernels(machine))
    assert not is_found(kernels(machine), ("kernel", 1, True))
    assert not is_found(kernels(replace(machine, threads=7)))
    assert not is_found(kernels(machine, "u"))
    monkeypatch.setattr(config, "static_sizes", True)
    assert not is_found(kernels(machine))
    monkeypatch.setattr(config, "static_sizes", False)
    monkeypatch.setattr(config, "image_pixels", 5)
    assert is_found(kernels(machine))
    assert not later


def test_a_setting_that_is_none_is_refused() -> None:
    with pytest.raises(ArgumentError, match="kept_kernels requires one of"):
        config.kept_kernels = "maybe"  # type: ignore[assignment]


OPS_OF_ONE_NAME = """
import numpy as np
import pyrite

FACTOR = {factor}

@pyrite.custom_op(scalar=lambda k, x: x * FACTOR + k.exp(x) * {inside})
def mine(x: pyrite.Tensor, /) -> pyrite.Tensor: ...

x = pyrite.tensor(np.arange(5.0), dtype=pyrite.float32, device="cpu")
print(mine(x).numpy().tolist())
"""


def test_two_ops_of_one_name_have_kernels_of_their_own(tmp_path: Path) -> None:
    def run(factor: float, inside: float) -> str:
        made = subprocess.run(
            [sys.executable, "-c", OPS_OF_ONE_NAME.format(factor=factor, inside=inside)],
            capture_output=True, text=True, check=True,
            env={**os.environ, "PYRITE_CACHE": str(tmp_path), "PYRITE_KEPT_KERNELS": "use"},
        )  # fmt: skip
        return made.stdout

    x = np.arange(5.0, dtype=np.float32)
    for factor, inside in ((2.0, 0.0), (3.0, 0.0), (3.0, 1.0), (2.0, 0.0)):
        want = x * np.float32(factor) + np.exp(x) * np.float32(inside)
        np.testing.assert_allclose(eval(run(factor, inside)), want, rtol=1e-6)


PROCESS = """
import sys
sys.path.insert(0, {tests!r})
from pyrite.config import config
from pyrite.backend.cube import CubeBackend
from pyrite.runtime.cpu.runtime import CpuRuntime
from test_kept import work
import hashlib
backend = CubeBackend(CpuRuntime())
results = repr(work(backend)).encode()
counts = backend.launcher.kept_kernels.counts
print(hashlib.sha256(results).hexdigest(), counts["found"], counts["made"])
"""


def test_processes_fill_one_folder_at_once(tmp_path: Path) -> None:
    source = PROCESS.format(tests=str(Path(__file__).parent))
    env = {**os.environ, "PYRITE_CACHE": str(tmp_path), "PYRITE_KEPT_KERNELS": "use"}

    def begin() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", source], stdout=subprocess.PIPE, text=True, env=env
        )

    both = [begin(), begin()]
    found = [p.communicate()[0].split() for p in both]
    last = begin().communicate()[0].split()
    assert {f[0] for f in found} == {last[0]}
    assert int(last[1]) > 0
    assert last[2] == "0"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the kernels of examples."""
    return tmp_path_factory.mktemp("kept")


@pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.id)
@pytest.mark.sample(40)
def test_kernels_of_each_op_are_found_as_written(
    filled: Path, mode: Callable[[str], None], example: Any
) -> None:
    results = []
    for value in ("use", "check", "use"):
        mode(value)
        backend = CubeBackend(CpuRuntime(cache=filled, threads=1))
        results.append(
            [(t.dtype, t.numpy().tobytes()) for t in example.run(float32, Device(backend))]
        )
        backend.runtime.close()
    assert results[0] == results[1] == results[2]
    counts = backend.launcher.kept_kernels.counts
    assert not counts["made"]


@dataclass(frozen=True)
class Cut:
    """A choice that is no record of Pyrite's."""

    rows: int


def test_choices_are_found_as_another_process_made_them(
    tmp_path: Path, mode: Callable[[str], None]
) -> None:
    asked: list[int] = []
    answer = [Machine.cpu(16, threads=3), None, 0.5, ("x", True)]

    @kept_by
    def choose(size: int, machine: Machine) -> tuple[Any, ...]:
        asked.append(size)
        return (*answer, size)

    caches: list[KernelCache] = []

    def forget() -> None:
        for cache in caches:
            cache.flush()  # as at the end of a process
        caches.append(KernelCache(DiskCache(tmp_path), ("t",), lambda what: what()))
        kept_choice.keep_choices(caches[-1])

    machine = Machine.cpu(16)
    assert choose(3, machine) == (*answer, 3)  # nothing is kept
    forget()
    assert choose(3, machine) == (*answer, 3)
    assert asked == [3, 3]
    forget()
    assert choose(3, machine) == (*answer, 3)
    assert choose(4, machine) == (*answer, 4)
    assert choose(3, replace(machine, threads=9)) == (*answer, 3)
    assert asked == [3, 3, 4, 3]
    answer[0] = Machine.cpu(32)
    mode("check")
    forget()
    with pytest.raises(KernelError, match=r"where .*Machine.* is right"):
        choose(3, machine)


def test_choices_look_at_no_sources_until_a_kernel_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Callable[[str], None]
) -> None:
    """That takes longer than to choose: 20 ms for each new size of a convolution."""
    looked: list[float] = []
    unchanged = [True]
    monkeypatch.setattr(
        Sources, "are_unchanged", lambda self, since: (looked.append(since), unchanged[0])[1]
    )
    cache = KernelCache(DiskCache(tmp_path), ("t",), lambda what: what())
    kept_choice.keep_choices(cache)

    def plain(size: int) -> tuple[int, str]:
        return size, "x"

    choose, name = kept_by(plain), f"{plain.__module__}.{plain.__name__}"
    looked.clear()

    assert [choose(n) for n in range(20)] == [(n, "x") for n in range(20)]
    assert not looked
    cache.put_later("kernel", lambda: b"written")
    assert len(looked) == 1
    assert cache.get("kernel") == b"written"
    again: Kept[Any] = Kept(
        cache, "choice", kept_choice.encoded, kept_choice.decoded, lambda x, y: bool(x == y)
    )
    assert again.found((name, content_of((7,))), lambda: None) == (7, "x")
    # What was made by other sources is not kept.
    choose(99)
    unchanged[0] = False
    cache.flush()
    assert again.found((name, content_of((99,))), lambda: None) is None


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b'{"class": ["os", "system"]}', b'{"class": ["pyrite.no", "No"]}', b'{"a": 1}'],
)
def test_what_is_no_choice_is_a_miss(text: bytes) -> None:
    assert kept_choice.decoded(text) is None


def test_a_choice_of_other_records_is_refused() -> None:
    with pytest.raises(TypeError, match="records of ours"):
        kept_choice.encoded((1, Cut(3)))
