"""Devices by name: which names there are, and what is said of those that do not work."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrite.backend import Device, device
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import BACKENDS, Entry, _opened, device_problem
from pyrite.backend.fusion import Fusion
from pyrite.config import Config, config
from pyrite.errors import DeviceError


@pytest.fixture
def abacus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The module of a device that needs the package beads; a test writes it."""
    entry = Entry("abacus:Abacus", needs="beads", install="'pyrite[beads]'", only="in Rome")
    monkeypatch.setitem(BACKENDS, "abacus", entry)
    monkeypatch.delitem(sys.modules, "abacus", raising=False)
    monkeypatch.delitem(_opened, "abacus", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "abacus.py"
    _opened.pop("abacus", None)


def test_a_missing_package_is_one_line_with_the_command_that_gets_it(abacus: Path) -> None:
    abacus.write_text("import beads\n")

    assert device_problem("abacus") == (
        "abacus requires the package beads, which is not installed here; "
        "pip install 'pyrite[beads]' (in Rome only)"
    )


@pytest.mark.parametrize(
    "raised", ["ImportError('libbeads.so: cannot open')", "OSError('libbeads.so: cannot open')"]
)
def test_a_package_that_cannot_be_imported_is_a_device_error(abacus: Path, raised: str) -> None:
    abacus.write_text(f"raise {raised}\n")

    with pytest.raises(DeviceError, match=r"can be imported, got \w+: libbeads\.so: cannot open; "):
        device("abacus")


def test_another_projects_package_of_that_name_is_told_apart(abacus: Path) -> None:
    abacus.write_text("from json import wires\n")

    with pytest.raises(DeviceError, match="cannot import name 'wires' from 'json'"):
        device("abacus")


def test_a_package_may_use_pyrite_while_it_is_imported(abacus: Path) -> None:
    abacus.write_text(
        "from pyrite.backend import device\n"
        "from pyrite.backend.numpy import NumPy\n"
        "device('numpy')\n"
        "class Abacus(NumPy): name = 'abacus'\n"
    )
    opened: list[Device] = []
    opening = threading.Thread(target=lambda: opened.append(device("abacus")), daemon=True)
    opening.start()
    opening.join(timeout=60)
    assert [found.name for found in opened] == ["abacus"]


def test_a_fault_of_our_own_is_not_laid_on_the_package(abacus: Path) -> None:
    abacus.write_text("import pyrite.no_such_module\n")

    with pytest.raises(ModuleNotFoundError, match=r"pyrite\.no_such_module"):
        device("abacus")


@pytest.mark.parametrize("name", ["abacus", "wgpu:", "wgpu:-1", "cpu:0", "torch", "torch:cpu:1"])
def test_a_name_of_no_device_is_an_error_that_lists_them(name: str) -> None:
    with pytest.raises(DeviceError, match=r"device requires one of numpy, cpu, .* got '.*'; try"):
        device(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("cuda", "'torch:cuda' or 'wgpu'"),
        ("cuda:1", "'torch:cuda' or 'wgpu'"),
        ("mps", "'torch:mps' or 'wgpu'"),
        ("gpu", "'wgpu'"),
        ("CPU", "'cpu' or 'torch:cpu'"),
        ("torch", "'torch:cpu' or 'torch:cuda' or 'torch:mps'"),
        ("abacus", "'pyrite devices'"),
    ],
)
def test_a_name_of_another_library_says_what_it_is_here(name: str, meant: str) -> None:
    with pytest.raises(DeviceError, match=f"got '{name}'; try {meant}$") as caught:
        device(name)
    assert str(caught.value.location).startswith(f"{__file__}:")


def test_a_device_of_pytorch_is_named_as_here() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(
        DeviceError, match=r"got device\(type='cuda', index=1\); say 'torch:cuda:1'$"
    ):
        device(torch.device("cuda:1"))


def test_what_is_no_name_is_an_error_that_shows_it() -> None:
    wrong: Any = Path("cpu")
    with pytest.raises(DeviceError, match=r"a Device or a Backend, got \w*Path\('cpu'\)"):
        device(wrong)


def test_numbers_follow_the_kinds_that_may_be_several() -> None:
    assert BACKENDS["wgpu"].has("1")
    assert BACKENDS["torch"].has("cuda:1")
    assert not BACKENDS["torch"].has("cuda:first")


@pytest.mark.parametrize("is_fused", [True, False])
def test_fusion_stands_above_cpu_unless_it_is_taken_away(
    monkeypatch: pytest.MonkeyPatch, is_fused: bool
) -> None:
    pytest.importorskip("llvmlite")
    assert Config().fusion
    off = Config.from_environment({"PYRITE_FUSION": "off"})
    monkeypatch.setattr(config, "fusion", is_fused or off.fusion)
    monkeypatch.delitem(_opened, "cpu", raising=False)
    backend: Any = device("cpu").backend
    try:
        assert isinstance(backend, Fusion if is_fused else CubeBackend)
        assert isinstance(backend.root, CubeBackend)
    finally:
        del _opened["cpu"]
        backend.root.runtime.close()
