"""Code that an LLVM makes wrong for a processor is found before any kernel runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from llvmlite import binding

from pyrite.config import config
from pyrite.errors import DeviceError
from pyrite.kernel.ir import Node
from pyrite.kernel.target.llvm import LLVMTarget
from pyrite.kernel.target.llvm.printer import Printer
from pyrite.runtime.cache import DiskCache
from pyrite.runtime.cpu import self_test
from pyrite.runtime.cpu.host import host_target
from pyrite.runtime.cpu.level import levels, targets
from pyrite.runtime.cpu.module import Compiler
from pyrite.runtime.cpu.self_test import compiler_for, failure_of

HOST = host_target()
Plant = Callable[..., None]


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has not tried any target."""
    monkeypatch.setattr(self_test, "_known", {})


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """plant(method, of the target): spell something wrongly where a target is such."""

    def plant(name: str, wrong: Callable[..., str], where: Callable[[LLVMTarget], bool]) -> None:
        right = getattr(Printer, name)

        def spell(self: Printer, *arguments: object) -> str:
            return (wrong if where(self.target) else right)(self, *arguments)

        monkeypatch.setattr(Printer, name, spell)

    return plant


def everywhere(target: LLVMTarget) -> bool:
    return True


def without_fence(printer: Printer, x: str, element: str, width: int) -> str:
    """What the printer did before: LLVM 22 makes one wide store of it on AVX-512."""
    return x


def all_lanes(printer: Printer, mask: Node, width: int) -> str:
    """A fault of any processor: the neighbours of a masked element are overwritten."""
    return "splat (i1 true)"


@pytest.mark.parametrize("target", [*targets()], ids=lambda t: t.cpu)
def test_every_level_passes(target: LLVMTarget) -> None:
    assert failure_of(Compiler(target, DiskCache(None))) is None


@pytest.mark.skipif(
    HOST.vector_bytes < 64 or binding.llvm_version_info > (22, 1, 0),
    reason="the fault is one of LLVM 22.1.0 and AVX-512",
)
def test_the_spelling_that_llvm_gets_wrong_is_found(plant: Plant) -> None:
    plant("fence", without_fence, everywhere)

    failure = failure_of(Compiler(HOST, DiskCache(None)))

    assert failure is not None
    assert failure.startswith("a store of bfloat16 as float32 under a mask of the lanes [0]: [2.0,")


def test_a_level_below_is_taken_with_one_warning(plant: Plant) -> None:
    plant("mask", all_lanes, lambda target: target == HOST)
    lower = levels()[0].cpu

    with pytest.warns(RuntimeWarning, match=f"self-test for {HOST.cpu}: .* for {lower}, as PYR"):
        compiler = compiler_for(None, DiskCache(None))

    assert compiler.target.cpu == lower


def test_a_level_that_was_asked_for_and_fails_is_an_error(plant: Plant) -> None:
    plant("mask", all_lanes, everywhere)

    with pytest.raises(DeviceError, match=rf"got for {HOST.cpu}: a .*; set PYRITE_CPU_LEVEL to on"):
        compiler_for(HOST, DiskCache(None))


def test_where_every_level_fails_the_device_is_an_error(plant: Plant) -> None:
    plant("mask", all_lanes, everywhere)

    with pytest.raises(DeviceError, match="install another version of llvmlite, or choose another"):
        compiler_for(None, DiskCache(None))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """For which processors the kernel ran."""
    found: list[str] = []

    def count(compiler: Compiler) -> str | None:
        found.append(compiler.target.cpu)
        return None

    monkeypatch.setattr(self_test, "_try", count)
    return found


def test_what_passed_is_not_tried_again_in_any_process(tmp_path: Path, runs: list[str]) -> None:
    compiler = Compiler(HOST, DiskCache(tmp_path))
    for _ in range(2):
        failure_of(compiler)
    self_test._known.clear()
    failure_of(compiler)

    assert runs == [HOST.cpu]


def test_without_a_cache_it_is_tried_once_in_a_process(runs: list[str]) -> None:
    for _ in range(2):
        failure_of(Compiler(HOST, DiskCache(None)))

    assert runs == [HOST.cpu]


def test_the_device_says_that_it_is_not_compiled_for_the_processor(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyrite.backend.cube.cpu import Cpu

    # The user's cache may say that this processor passed, of a run before.
    monkeypatch.setattr(config, "cache", "off")
    plant("mask", all_lanes, lambda target: target == HOST)

    with pytest.warns(RuntimeWarning, match="self-test"):
        backend = Cpu()

    assert backend.details.endswith(f" threads; not {HOST.cpu}, whose code fails the self-test")
