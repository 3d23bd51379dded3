"""The cache of compiled code: whole, right, bounded, and never in the way."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import pyrite
from pyrite.runtime import cache
from pyrite.runtime.cache import DiskCache, default_cache, source_version
from pyrite.runtime.folder import Folder, OwnedFolder, PlainFolder


def entries(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


def test_what_is_stored_is_found_by_another_instance(tmp_path: Path) -> None:
    DiskCache(tmp_path).put(b"code", "kernel", "cpu")
    other = DiskCache(tmp_path)

    assert other.get("kernel", "cpu") == b"code"
    assert other.get("kernel", "other cpu") is None
    assert other.counts == {"hits": 1, "misses": 1}


def test_keys_are_told_apart_by_their_parts(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path)
    disk.put(b"1", "a", "bc")

    assert disk.get("ab", "c") is None


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 100])
def test_a_damaged_file_is_no_entry_and_is_written_anew(tmp_path: Path, damage: bytes) -> None:
    disk = DiskCache(tmp_path)
    disk.put(b"code", "key")
    (file,) = entries(tmp_path)
    file.write_bytes(damage)

    assert disk.get("key") is None
    assert disk.counts["damaged"] == 1
    disk.put(b"code", "key")
    assert disk.get("key") == b"code"


def test_one_flipped_bit_is_damage(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path)
    disk.put(b"code", "key")
    (file,) = entries(tmp_path)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)

    assert disk.get("key") is None


def test_a_failed_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no room")

    disk = DiskCache(tmp_path)
    monkeypatch.setattr(os, "replace", refuse)
    disk.put(b"code", "key")

    assert entries(tmp_path) == []
    assert disk.counts["unwritable"] == 1


def test_a_folder_that_is_a_file_keeps_nothing_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    disk = DiskCache(tmp_path / "cache")
    disk.put(b"code", "key")

    assert disk.get("key") is None
    assert disk.counts == {"unwritable": 1, "misses": 1}


def test_no_folder_means_no_cache() -> None:
    disk = DiskCache(None)
    disk.put(b"code", "key")

    assert disk.get("key") is None


def test_the_oldest_entries_go_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(4):
        DiskCache(tmp_path).put(bytes(1000), f"{i}")
        for file in entries(tmp_path):
            past = file.stat().st_mtime - 100
            os.utime(file, (past, past))
    monkeypatch.setattr(cache, "limit", lambda: 3500)

    disk = DiskCache(tmp_path)
    disk.put(bytes(1000), "new")

    found = [key for key in ("0", "1", "2", "3", "new") if disk.get(key)]
    assert found == ["2", "3", "new"]


def test_one_process_alone_stays_within_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "limit", lambda: 10_000)
    disk = DiskCache(tmp_path)
    for i in range(100):
        disk.put(bytes(1000), f"{i}")
        found = disk.contents()
        assert found is not None
        assert found.nbytes <= 10_000 * (1 + 1 / 8)
    assert disk.get("99") is not None


def test_processes_that_write_little_look_seldom_and_stay_near_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    numbers = random.Random(3)
    monkeypatch.setattr(cache, "randbelow", numbers.randrange)
    monkeypatch.setattr(cache, "limit", lambda: 100_000)
    trim = cache._trim
    monkeypatch.setattr(cache, "_trim", lambda *given: looks.append(trim(*given)))
    for i in range(300):
        DiskCache(tmp_path).put(bytes(1000), f"{i}")

    found = DiskCache(tmp_path).contents()
    assert found is not None
    assert 90_000 < found.nbytes < 150_000
    assert 10 < len(looks) < 50


def test_what_is_there_is_told_and_removed(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path / "code")
    assert disk.contents() == (tmp_path / "code", 0, 0, 512 << 20)
    assert disk.clear() == 0
    for i in range(3):
        disk.put(bytes(1000), f"{i}")
    found = disk.contents()
    assert found is not None
    assert (found.files, found.nbytes > 3000) == (3, True)
    assert disk.clear() == 3
    assert disk.get("0") is None
    assert DiskCache(None).contents() is None
    assert DiskCache(None).clear() == 0


def test_the_setting_chooses_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyrite.config, "cache", str(tmp_path))
    assert default_cache().folder == tmp_path

    monkeypatch.setattr(pyrite.config, "cache", "off")
    assert default_cache().folder is None

    monkeypatch.setattr(pyrite.config, "cache", None)
    folder = default_cache().folder
    assert folder is not None
    assert folder.is_absolute()

    monkeypatch.setattr(pyrite.config, "cache", "~/code")
    assert default_cache().folder == Path.home() / "code"


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)

    assert default_cache().folder is None


def test_a_file_that_cannot_be_removed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(folder: Folder, name: str) -> None:
        raise PermissionError(name)

    DiskCache(tmp_path).put(bytes(1000), "old")
    monkeypatch.setattr(cache, "limit", lambda: 100)
    monkeypatch.setattr(OwnedFolder, "remove", refuses)
    monkeypatch.setattr(PlainFolder, "remove", refuses)

    disk = DiskCache(tmp_path)
    disk.put(bytes(1000), "new")

    assert disk.get("old") == disk.get("new") == bytes(1000)


def test_the_version_of_the_source_is_that_of_its_files() -> None:
    kernel, target = source_version("pyrite.kernel"), source_version("pyrite.kernel.target")

    assert kernel != target
    assert source_version("pyrite.kernel", "pyrite.kernel.target") not in (kernel, target)
