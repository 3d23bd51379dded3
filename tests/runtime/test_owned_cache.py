"""Nobody else's code is loaded: what lies in or around the cache's folder, planted or loose."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pyrite
from pyrite.runtime import cache
from pyrite.runtime.cache import DiskCache, default_cache
from pyrite.runtime.folder import PlainFolder

if sys.platform == "win32":
    pytest.skip("files have no owners here", allow_module_level=True)

NOBODY = 65534
IS_ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not IS_ROOT, reason="only root gives files away")


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """End what hangs on a FIFO or an endless file."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(600)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def not_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_warned", False, raising=False)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can look into."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def filled(folder: Path) -> Path:
    """Fill a cache, and return the file of its entry ``key``, which has a right checksum."""
    DiskCache(folder).put(b"planted", "key")
    (file,) = (p for p in folder.rglob("*") if p.is_file())
    return file


def warned(make: Callable[[], Any]) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = make()
    return made, [str(w.message) for w in caught]


# ---- the folder ----


def give_away(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def loosen(mode: int) -> Callable[[Path], None]:
    return lambda path: path.chmod(mode)


def loosen_parent(mode: int) -> Callable[[Path], None]:
    return lambda path: path.parent.chmod(mode)


FOLDERS: dict[str, Callable[[Path], None]] = {
    "another user's": give_away,
    "a link": link,
    "writable by all": loosen(0o777),
    "writable by all, sticky": loosen(0o1777),
    "writable by its group": loosen(0o770),
    "writable by others": loosen(0o702),
    "in a folder writable by all": loosen_parent(0o777),
}


@pytest.mark.parametrize("what", list(FOLDERS))
def test_a_folder_that_others_can_change_is_not_used_and_one_warning_says_so(
    place: Path, what: str
) -> None:
    if what == "another user's" and not IS_ROOT:
        pytest.skip("only root gives files away")
    folder = place / "cache"
    filled(folder)
    FOLDERS[what](folder)
    disk = DiskCache(folder)

    got, texts = warned(lambda: (disk.get("key"), disk.put(b"own", "other"), disk.get("other")))

    assert got == (None, None, None)
    assert len(texts) == 1
    assert "PYRITE_CACHE" in texts[0]
    assert str(folder) in texts[0]
    assert warned(lambda: DiskCache(folder).get("key")) == (None, [])


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o705, 0o700])
def test_a_folder_that_others_can_only_read_is_closed_to_them(place: Path, mode: int) -> None:
    folder = place / "cache"
    filled(folder)
    folder.chmod(mode)

    assert warned(lambda: DiskCache(folder).get("key")) == (b"planted", [])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_sticky_folder_of_all_is_a_place_for_a_cache(place: Path) -> None:
    place.chmod(0o1777)
    filled(place / "cache")

    assert warned(lambda: DiskCache(place / "cache").get("key")) == (b"planted", [])


def test_a_link_above_the_folder_is_the_users_own(place: Path) -> None:
    (place / "disk").mkdir()
    (place / "home").symlink_to(place / "disk")
    filled(place / "home" / "cache")

    assert warned(lambda: DiskCache(place / "home" / "cache").get("key")) == (b"planted", [])


@pytest.mark.parametrize("what", [w for w in FOLDERS if "in a folder" not in w])
def test_a_folder_inside_that_others_can_change_holds_no_entry(place: Path, what: str) -> None:
    if what == "another user's" and not IS_ROOT:
        pytest.skip("only root gives files away")
    file = filled(place / "cache")
    FOLDERS[what](file.parent)

    assert warned(lambda: DiskCache(place / "cache").get("key"))[0] is None


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777])
def test_modes_do_not_depend_on_the_mask(place: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        file = filled(place / "new" / "cache")
    finally:
        os.umask(before)

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for folder in (file.parent, place / "new" / "cache", place / "new"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert DiskCache(place / "new" / "cache").get("key") == b"planted"


# ---- an entry ----


def put_in_place(make: Callable[[Path], Any]) -> Callable[[Path], None]:
    def planted(path: Path) -> None:
        path.unlink()
        make(path)

    return planted


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def make_endless(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 42)
    path.chmod(0o600)


def link_elsewhere(path: Path) -> None:
    path.symlink_to(path.parent.parent / "elsewhere")


def move_behind_a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


ENTRIES: dict[str, Callable[[Path], None]] = {
    "another user's": give_away,
    "writable by all": loosen(0o666),
    "writable by its group": loosen(0o660),
    "a link to a sound one": move_behind_a_link,
    "a link to nothing": put_in_place(link_elsewhere),
    "a link to an endless device": put_in_place(lambda p: p.symlink_to("/dev/zero")),
    "a FIFO": put_in_place(lambda p: os.mkfifo(p, 0o600)),
    "a socket": put_in_place(bind_socket),
    "a device": put_in_place(lambda p: os.mknod(p, 0o600 | stat.S_IFCHR, os.makedev(1, 5))),
    "an endless file": put_in_place(make_endless),
    "an empty file": put_in_place(lambda p: p.touch(0o600)),
}


@pytest.mark.parametrize("what", list(ENTRIES))
def test_what_is_no_file_of_this_user_is_no_entry_and_is_replaced(place: Path, what: str) -> None:
    file = filled(place / "cache")
    try:
        ENTRIES[what](file)
    except PermissionError as error:
        pytest.skip(f"not by this user: {error}")
    disk = DiskCache(place / "cache")

    assert disk.get("key") is None
    disk.put(b"own", "key")
    assert disk.get("key") == b"own"
    assert stat.S_ISREG(file.lstat().st_mode)


def test_a_folder_in_place_of_an_entry_is_no_entry(place: Path) -> None:
    file = filled(place / "cache")
    file.unlink()
    file.mkdir()
    disk = DiskCache(place / "cache")

    assert disk.get("key") is None
    disk.put(b"own", "key")
    assert disk.get("key") is None


def test_an_entry_that_is_too_large_is_not_kept(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "LARGEST", 100)
    disk = DiskCache(place / "cache")
    disk.put(bytes(200), "key")

    assert disk.get("key") is None


# ---- another user ----


def by_nobody(work: Callable[[], Any]) -> str:
    """Return the repr of what another user's process gets, without a new interpreter."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writer, repr(work()).encode())
        except BaseException as error:  # the only way out of a child is the pipe
            os.write(writer, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


@as_root
def test_another_user_neither_reads_nor_plants(place: Path) -> None:
    folder = place / "cache"
    os.umask(os.umask(0))
    filled(folder)

    def work() -> Any:
        disk = DiskCache(folder)
        return warned(lambda: (disk.get("key"), disk.put(b"theirs", "key")))[0]

    assert by_nobody(work) == "(None, None)"
    assert DiskCache(folder).get("key") == b"planted"


@as_root
def test_what_another_user_made_first_is_not_used(place: Path) -> None:
    place.chmod(0o1777)
    before = os.umask(0)
    try:
        assert by_nobody(lambda: DiskCache(place / "cache").put(b"theirs", "key")) == "None"
    finally:
        os.umask(before)
    assert (place / "cache").stat().st_uid == NOBODY

    got, texts = warned(lambda: DiskCache(place / "cache").get("key"))

    assert got is None
    assert len(texts) == 1
    assert by_nobody(lambda: DiskCache(place / "cache").get("key")) == repr(b"theirs")


# ---- the whole way ----


def test_an_entry_that_does_not_load_is_rebuilt(place: Path) -> None:
    pytest.importorskip("llvmlite")
    script = "import pyrite; x = pyrite.tensor([1.0, 2.0], device='cpu'); print((x * 3.0).tolist())"
    environment = os.environ | {"PYRITE_CACHE": str(place / "cache")}
    run = [sys.executable, "-W", "error", "-c", script]
    first = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert first.stdout == "[3.0, 6.0]\n", first.stderr
    found = [p for p in (place / "cache").rglob("*") if p.is_file()]
    # Objects; that the self-test was passed takes fewer bytes.
    files = [p for p in found if p.stat().st_size > 300]
    assert len(files) > 1
    for blob in (b"", b"no object", b"\x7fELF" + bytes(200)):
        for file in files:
            file.write_bytes(cache._MAGIC + cache._checksum(blob) + blob)

        again = subprocess.run(run, env=environment, capture_output=True, text=True)

        assert again.stdout == "[3.0, 6.0]\n", again.stderr
        assert all(len(file.read_bytes()) > 300 for file in files)


def test_a_relative_folder_of_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform == "darwin":
        pytest.skip("it is not asked for here")
    monkeypatch.setattr(pyrite.config, "cache", None)
    for folder in ("here", "./here", "../here", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", folder)
        assert default_cache().folder == Path.home() / ".cache" / "pyrite"
    monkeypatch.setenv("XDG_CACHE_HOME", "/there")
    assert default_cache().folder == Path("/there/pyrite")


# ---- where files have no owners ----


def test_a_folder_without_owners_keeps_files_of_a_bounded_size(tmp_path: Path) -> None:
    folder = PlainFolder(tmp_path / "cache")
    folder.write("ab/cd", b"one")
    folder.write("ab/cd", b"two")

    assert folder.read("ab/cd", 3) == b"two"
    assert [(used.name, used.size) for used in folder.used()] == [("ab/cd", 3)]
    with pytest.raises(OSError, match="more than 2"):
        folder.read("ab/cd", 2)
    folder.remove("ab/cd")
    os.mkfifo(tmp_path / "cache" / "ab" / "cd")
    with pytest.raises(OSError, match="a FIFO"):
        folder.read("ab/cd", 3)
