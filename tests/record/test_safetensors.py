from __future__ import annotations

import errno
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import pyrite.record.atomic
from pyrite.errors import RecordError
from pyrite.record import SafetensorsFile, load_safetensors, save_safetensors
from pyrite.record.safetensors import DTYPES

safetensors = pytest.importorskip("safetensors.numpy")


def raw(header: bytes | dict[str, Any], data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(
    begin: int = 0, end: int = 8, shape: object = (2,), dtype: object = "F32"
) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def assert_same(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


text = st.text(st.characters(exclude_categories=["Cs"]))  # surrogates are not Unicode text
arrays = st.sampled_from(sorted(set(DTYPES.values()), key=str)).flatmap(
    lambda dtype: hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4).map(
        lambda shape: (np.arange(int(np.prod(shape))).reshape(shape) % 2).astype(dtype)
    )
)


@given(st.dictionaries(text.filter(lambda s: s != "__metadata__"), arrays, max_size=5),
       st.dictionaries(text, text, max_size=3))  # fmt: skip
def test_what_is_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory,
    saved: dict[str, np.ndarray[Any, Any]],
    metadata: dict[str, str],
) -> None:
    path = tmp_path_factory.mktemp("round") / "a.safetensors"
    save_safetensors(path, saved, metadata)
    file = SafetensorsFile(path)
    assert file.keys() == saved.keys()
    assert file.metadata == metadata
    for name, array in saved.items():
        assert_same(file[name], array)


@pytest.mark.parametrize("dtype", sorted({*DTYPES.values()}, key=str), ids=str)
def test_the_reference_library_reads_and_writes_the_same(
    tmp_path: Path, dtype: np.dtype[Any]
) -> None:
    saved = {"a": np.arange(6).reshape(2, 3).astype(dtype), "b.c": np.zeros((0, 2), dtype)}
    save_safetensors(tmp_path / "ours", saved, {"k": "v"})
    with safetensors.safe_open(tmp_path / "ours", "np") as file:
        assert set(file.keys()) == {"a", "b.c"}
        assert file.metadata() == {"k": "v"}
    if dtype.name in ("float8_e8m0fnu",):  # the library's NumPy writer lacks it
        return
    safetensors.save_file(saved, tmp_path / "theirs", {"k": "v"})
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    for name, array in load_safetensors(tmp_path / "theirs").items():
        assert_same(array, saved[name])


def test_equal_arrays_and_metadata_are_equal_bytes(tmp_path: Path) -> None:
    a, b = np.ones(3), np.ones(2, np.float16)
    save_safetensors(tmp_path / "1", {"a": a, "b": b}, {"x": "1", "y": "2"})
    save_safetensors(tmp_path / "2", {"b": b, "a": a}, {"y": "2", "x": "1"})
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[::-1, ::2],
        lambda a: a.astype(">f4"),
        lambda a: np.broadcast_to(a[0], (5, 4)),
    ],
    ids=["transposed", "strided", "big-endian", "broadcast"],
)
def test_any_layout_in_memory_is_saved_contiguous(
    tmp_path: Path, view: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
) -> None:
    array = view(np.arange(12, dtype=np.float32).reshape(3, 4))
    save_safetensors(tmp_path / "a", {"a": array})
    found = load_safetensors(tmp_path / "a")["a"]
    np.testing.assert_array_equal(found, array)
    assert found.dtype == np.float32


def test_loaded_arrays_are_read_only(tmp_path: Path) -> None:
    save_safetensors(tmp_path / "a", {"a": np.ones(3)})
    for copy in (False, True):
        with pytest.raises(ValueError, match="read-only"):
            load_safetensors(tmp_path / "a", copy=copy)["a"][0] = 2.0


def test_a_view_of_the_file_is_no_copy(tmp_path: Path) -> None:
    save_safetensors(tmp_path / "a", {"a": np.ones(3)})
    file = SafetensorsFile(tmp_path / "a")
    assert np.shares_memory(file["a"], file["a"])
    copied = load_safetensors(tmp_path / "a", copy=True)["a"]
    assert not np.shares_memory(copied, file["a"])


def test_arrays_outlive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    save_safetensors(path, {"a": np.ones(3)})
    mapped = load_safetensors(path)["a"]
    save_safetensors(path, {"a": np.zeros(3)})
    np.testing.assert_array_equal(mapped, np.ones(3))


def test_data_at_an_odd_byte_is_aligned_when_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    text = json.dumps({"a": entry()}).encode()
    text += b" " * (len(text) % 2 + 1 - 2 * (len(text) % 2))  # 8 + an odd length
    path.write_bytes(raw(text, struct.pack("<2f", 1.5, 2.5)))
    assert len(text) % 2 == 1
    array = load_safetensors(path)["a"]
    assert array.flags.aligned
    assert not array.flags.writeable
    assert array.tolist() == [1.5, 2.5]


DAMAGED = {
    "empty": (b"", "an empty file"),
    "short": (b"abc", "3 bytes that begin with"),
    "zip": (b"PK\x03\x04" + bytes(60), "a zip archive"),
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "length 2**63": (raw(b"{}", length=2**63), f"at most 100000000 bytes, got {2**63}"),
    "length beyond file": (raw(b"{}", length=1000), "requires 1008 bytes for its header, got 10"),
    "no header": (raw(b""), "requires a JSON object, got Expecting value"),
    "not JSON": (raw(b"{'a': 1}"), "requires a JSON object"),
    "not UTF-8": (raw(b'{"\xff\xfe": 1}'), "can't decode byte"),
    "deep": (raw(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "nesting too deep"),
    "huge number": (raw(b'{"a":' + b"9" * 10_000 + b"}"), "Exceeds the limit"),
    "name twice": (raw(b'{"a": 1, "a": 2}'), "got name 'a' twice"),
    "metadata of numbers": (raw({"__metadata__": {"a": 1}}), "requires __metadata__ of strings"),
    "metadata no object": (raw({"__metadata__": [1]}), "requires __metadata__ of strings"),
    "entry no object": (raw({"a": [1, 2]}), "at 'a' requires dtype, shape, data_offsets"),
    "field missing": (raw({"a": {"dtype": "F32"}}), "requires dtype, shape, data_offsets"),
    "unknown dtype": (raw({"a": entry(dtype="F4")}, bytes(8)), "requires a dtype of BOOL"),
    "dtype no text": (raw({"a": entry(dtype=["F32"])}, bytes(8)), "requires a dtype of BOOL"),
    "negative shape": (raw({"a": entry(shape=[-2])}, bytes(8)), r"shape of 0 or more, got \[-2\]"),
    "float shape": (raw({"a": entry(shape=[2.0])}, bytes(8)), "requires a shape of 0 or more"),
    "bool shape": (raw({"a": entry(0, 4, shape=[True])}, bytes(4)), "shape of 0 or more"),
    "rank": (raw({"a": entry(0, 4, shape=[1] * 65)}, bytes(4)), "requires a shape of 0 or more"),
    "shape beyond memory": (raw({"a": entry(shape=[2**62, 0])}), "fits in memory"),
    "offsets of one": (raw({"a": {**entry(), "data_offsets": [0]}}), r"\[begin, end\], got \[0\]"),
    "offsets negative": (raw({"a": entry(-8, 0)}, bytes(8)), r"\[begin, end\], got \[-8, 0\]"),
    "offsets reversed": (raw({"a": entry(8, 0)}, bytes(8)), "requires 8 bytes for shape"),
    "size differs": (raw({"a": entry(0, 4)}, bytes(4)), r"8 bytes for shape \(2,\) of float32"),
    "beyond file": (raw({"a": entry()}, bytes(7)), r"says, got \d+; it is truncated"),
    "overlap": (raw({"a": entry(), "b": entry(4, 12)}, bytes(12)), "'b' .* which overlaps"),
    "same bytes": (raw({"a": entry(), "b": entry()}, bytes(8)), "'b' .* which overlaps"),
    "hole": (raw({"a": entry(), "b": entry(16, 24)}, bytes(24)), "leaves a hole after"),
    "rest": (raw({"a": entry()}, bytes(9)), "bytes were added at its end"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "message"), DAMAGED.values(), ids=DAMAGED.keys())
def test_a_bad_file_is_one_error_that_names_it(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(data)
    with pytest.raises(RecordError, match=message) as caught:
        load_safetensors(path)
    assert "bad.safetensors" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_bool_that_is_neither_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(raw({"a": entry(0, 2, dtype="BOOL")}, b"\x01\x02"))
    with pytest.raises(RecordError, match="bools of 0 or 1"):
        load_safetensors(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.array(["text"])}, "requires arrays of BOOL|requires arrays of bool"),
        ({"a": np.ones(1, np.complex128)}, "got array 'a' of complex128"),
        ({"a": np.array([object()])}, "got array 'a' of object"),
        ({"__metadata__": np.ones(1)}, "got '__metadata__'"),
        ({"\ud800": np.ones(1)}, "Unicode"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(
    tmp_path: Path, arrays: dict[str, np.ndarray[Any, Any]], message: str
) -> None:
    with pytest.raises(RecordError, match=message):
        save_safetensors(tmp_path / "a", arrays)
    assert os.listdir(tmp_path) == []


class FullDisk:
    """A file that takes so many bytes and no more."""

    def __init__(self, file: BinaryIO, room: int) -> None:
        self.file, self.room = file, room

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def write(self, data: bytes | memoryview) -> int:
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(data)


@pytest.mark.parametrize("room", [0, 8, 100, 1000])
def test_a_full_disk_is_one_error_and_the_old_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    path = tmp_path / "a.safetensors"
    save_safetensors(path, {"a": np.ones(1000)})
    before = path.read_bytes()
    monkeypatch.setattr(
        pyrite.record.atomic, "open", lambda p, mode: FullDisk(open(p, mode), room), raising=False
    )
    with pytest.raises(RecordError, match=r"a\.safetensors.*No space left.*unchanged"):
        save_safetensors(path, {"a": np.zeros(1000)})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_bfloat16_is_read_without_torch(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(raw({"a": entry(0, 4, dtype="BF16")}, b"\xc0\x3f\x00\xc0"))
    array = load_safetensors(path)["a"]
    assert array.dtype == ml_dtypes.bfloat16
    assert array.tolist() == [1.5, -2.0]
