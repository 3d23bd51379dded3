from __future__ import annotations

from pathlib import Path

import pytest

from pyrite.errors import RecordError
from pyrite.record.mapping import describe, map_file


def test_a_mapping_is_read_only(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    data = map_file(path)
    assert bytes(data) == b"abc"
    assert data.readonly


def test_an_empty_file_maps_to_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    assert bytes(map_file(path)) == b""


@pytest.mark.parametrize("name", ["absent", "", "a\0b"])
def test_what_cannot_be_read_is_one_clear_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecordError, match="requires a readable file, got"):
        map_file(f"{tmp_path}/{name}")


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"", "an empty file"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"),
        (b"\n<!DOCTYPE html>", "HTML"),
        (b"PK\x03\x04....", "zip"),
        (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9 j", "before version 1.6"),
        (b"\x80\x04\x95", "pickle"),
        (b"\x10" + bytes(7) + b"{}", "safetensors"),
        (b"x" * 257 + b"ustar", "tar"),
        (b"GGUF", "GGUF"),
        (b"hello", "5 bytes that begin with b'hello'"),
    ],
)
def test_a_foreign_file_is_named(head: bytes, kind: str) -> None:
    assert kind in describe(memoryview(head))
