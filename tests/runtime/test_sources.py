"""The version of the sources: another for each change, none where code may be older than files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pyrite.runtime.cache import DiskCache
from pyrite.runtime.sources import Sources


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a folder of sources that are some seconds old, as far as this file system tells."""
    folder = tmp_path / "package"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.py").write_text("a = 1\n")
    (folder / "inner" / "b.ll").write_text("; b\n")
    (folder / "notes.txt").write_text("no source")
    return folder


def version(cache: DiskCache, folder: Path) -> str | None:
    """Return the version for a process that began to import the folder's files just now."""
    return Sources(cache, folder, time.time() + 1.0).version


def test_it_is_that_of_the_contents(package: Path, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache")
    first = version(cache, package)
    assert first is not None
    assert version(cache, package) == first == version(DiskCache(None), package)
    (package / "notes.txt").write_text("still none")
    os.utime(package / "a.py")
    assert version(cache, package) == first
    (package / "inner" / "b.ll").write_text("; c\n")
    second = version(cache, package)
    (package / "c.py").write_text("")
    third = version(cache, package)
    (package / "c.py").rename(package / "d.py")
    assert len({first, second, third, version(cache, package)}) == 4


def test_a_change_that_keeps_time_and_size_is_seen(package: Path, tmp_path: Path) -> None:
    cache, file = DiskCache(tmp_path / "cache"), package / "a.py"
    before, at = version(cache, package), file.stat()
    file.write_text("a = 2\n")
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert file.stat().st_mtime_ns == at.st_mtime_ns
    assert version(cache, package) != before


def test_there_is_none_where_a_file_is_newer_than_the_import(package: Path) -> None:
    at = time.time()
    assert Sources(DiskCache(None), package, at - 60.0).version is None


def test_a_change_after_it_is_noted(package: Path) -> None:
    sources = Sources(DiskCache(None), package, time.time() + 1.0)
    assert sources.version is not None
    assert sources.are_unchanged(since=time.monotonic())
    (package / "a.py").write_text("a = 12\n")
    assert not sources.are_unchanged(since=time.monotonic())
    # What was built in between is of nobody knows which.
    assert not sources.are_unchanged(since=time.monotonic())


def test_there_is_none_without_files(tmp_path: Path) -> None:
    assert Sources(DiskCache(None), tmp_path / "archive.zip", time.time()).version is None
    (tmp_path / "empty").mkdir()
    assert Sources(DiskCache(None), tmp_path / "empty", time.time()).version is None
