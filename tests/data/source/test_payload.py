"""The bytes of a file, plain or packed, and no more than were asked for."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pyrite.data.source.payload import MAX_EXPANSION, Payload
from pyrite.errors import DataError


@pytest.mark.parametrize("size", [0, 1, 3 << 20])
def test_packed_and_plain_bytes_are_the_same(tmp_path: Path, size: int) -> None:
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    for name, content in (("plain", data), ("packed", gzip.compress(data))):
        (tmp_path / name).write_bytes(content)
        with Payload(tmp_path / name, "test") as payload:
            assert payload.read(size, "values") == data
            payload.end()


def test_no_gzip_stream_is_denser_than_the_limit(tmp_path: Path) -> None:
    data = bytes(10_000_000)
    packed = gzip.compress(data)
    assert len(data) / len(packed) < MAX_EXPANSION
    path = tmp_path / "zeros.gz"
    path.write_bytes(packed)
    with Payload(path, "test") as payload:
        assert payload.read(len(data), "zeros") == data


def test_bytes_after_the_data_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"abc")
    with Payload(tmp_path / "long", "test") as payload:
        assert payload.read(2, "letters") == b"ab"
        with pytest.raises(DataError, match="test requires the file to end after its data"):
            payload.end()
