from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyrite.record import atomic_write

OLD, NEW = b"the old bytes", b"the new bytes, which are longer"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(OLD)
    return path


def assert_untouched(target: Path) -> None:
    assert target.read_bytes() == OLD
    assert os.listdir(target.parent) == [target.name]


def test_a_finished_block_replaces_the_file(target: Path) -> None:
    with atomic_write(target) as file:
        file.write(NEW)
        assert target.read_bytes() == OLD
    assert target.read_bytes() == NEW
    assert os.listdir(target.parent) == [target.name]


def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a") as file:
        file.write(NEW)
    (tmp_path / "b").write_bytes(NEW)
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit, GeneratorExit])
def test_an_error_in_the_block_leaves_the_old_file(
    target: Path, error: type[BaseException]
) -> None:
    def write_half() -> None:
        with atomic_write(target) as file:
            file.write(NEW)
            raise error

    with pytest.raises(error):
        write_half()
    assert_untouched(target)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_error_of_the_system_leaves_the_old_file(
    target: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(OSError, match="No space"), atomic_write(target) as file:
            file.write(NEW)
    assert_untouched(target)


def run(program: str, target: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, str(target)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "src"},
        cwd=Path(__file__).parents[2],
    )  # fmt: skip


def test_a_killed_process_leaves_the_old_file(target: Path) -> None:
    program = """
import os, sys
from pyrite.record.atomic import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half of the new")
    file.flush()
    os._exit(9)
"""
    assert run(program, target).returncode == 9
    assert target.read_bytes() == OLD


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no file size limit to set")
def test_a_real_limit_of_the_disk_leaves_the_old_file(target: Path) -> None:
    program = """
import resource, signal, sys
from pyrite.record.atomic import atomic_write
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with atomic_write(sys.argv[1]) as file:
        file.write(bytes(1_000_000))
except OSError as error:
    print("OSError", error.errno)
"""
    assert run(program, target).stdout == f"OSError {errno.EFBIG}\n"
    assert_untouched(target)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes, and few symbolic links")
def test_mode_and_symbolic_link_stay(target: Path) -> None:
    target.chmod(0o640)
    link = target.with_name("best.safetensors")
    link.symlink_to(target)
    with atomic_write(link) as file:
        file.write(NEW)
    assert link.is_symlink()
    assert target.read_bytes() == NEW
    assert target.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no /dev/null")
def test_a_device_is_never_replaced() -> None:
    with pytest.raises(OSError, match="not a regular file"), atomic_write("/dev/null"):
        pass


def test_a_write_protected_file_stays(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        os, "access", lambda *_: False
    )  # root, as in containers, may write anything
    with pytest.raises(PermissionError), atomic_write(target):
        pass
    assert_untouched(target)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError, match="nowhere"),
        atomic_write(tmp_path / "nowhere" / "a"),
    ):
        pass
