"""Files that cost more than they weigh are refused before they cost it."""

from __future__ import annotations

import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyrite.errors import RecordError
from pyrite.record import load_pytorch, load_safetensors, read_pytorch
from pyrite.record.pytorch import MAX_PICKLE_BYTES
from pyrite.record.unpickler import MAX_OPCODES, unpickle


def header_of(text: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text + data


def empty_arrays(count: int) -> bytes:
    entry = b'"a.%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    return header_of(b"{" + b",".join(entry % i for i in range(count)) + b"}")


def many_names(count: int) -> bytes:
    """Names without a word that says that there are arrays."""
    return header_of(b"{" + b",".join(b'"%d":0' % i for i in range(count)) + b"}")


#: What reads a file.
READERS = ("pyrite.record", "pyrite.opening", "json", "pickletools", "zipfile")

HEADERS: dict[str, Callable[[], bytes]] = {
    "700,000 empty arrays": lambda: empty_arrays(700_000),
    "200,000 names": lambda: many_names(200_000),
}


def steps_of(work: Callable[[], Any]) -> int:
    """Return how many lines of the reader ran: a cost that no busy machine changes."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        # Not those of what another test has left to the garbage collector.
        count += event == "line" and frame.f_globals.get("__name__", "").startswith(READERS)
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        with pytest.raises(RecordError):
            work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("name", list(HEADERS))
def test_a_header_of_too_many_arrays_is_refused_before_it_is_looked_at(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "file.safetensors"
    path.write_bytes(HEADERS[name]())

    assert steps_of(lambda: load_safetensors(path)) < 1000


def test_as_many_arrays_as_are_allowed_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrite.record.safetensors.MAX_ENTRIES", 10)
    path = tmp_path / "file.safetensors"
    path.write_bytes(empty_arrays(10))
    assert len(load_safetensors(path)) == 10

    path.write_bytes(empty_arrays(11))
    with pytest.raises(RecordError, match="at most 10 arrays, got 11"):
        load_safetensors(path)


def write_pickle(path: Path, data: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", data)
        archive.writestr("a/byteorder", "little")
    return path


def test_a_pickle_of_a_long_string_is_refused_before_it_is_read(tmp_path: Path) -> None:
    text = b"x" * (MAX_PICKLE_BYTES + 1)
    pickled = b"\x80\x02X" + struct.pack("<I", len(text)) + text + b"."
    path = write_pickle(tmp_path / "file.pt", pickled)

    for load in (load_pytorch, read_pytorch):
        assert steps_of(lambda load=load: load(path)) < 10_000


@pytest.mark.parametrize("opcode", [b"N", b"}", b"]", b"(", b"h\x00", b"K\x01", b"\x88"])
def test_a_pickle_of_too_many_steps_is_refused(
    opcode: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrite.record.unpickler.MAX_OPCODES", 1000)
    data = b"\x80\x02Nq\x00" + opcode * 2000 + b"."

    with pytest.raises(RecordError, match="at most 1000 steps, got more"):
        unpickle(data, allowed={}, persistent=repr, owner="x")
    assert MAX_OPCODES > 1000
