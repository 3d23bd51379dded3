from __future__ import annotations

import os
import pickle  # noqa: TID251  (to write what must not be run)
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyrite.errors import RecordError
from pyrite.record import load_pytorch, read_pytorch

PROTO, STOP = b"\x80\x02", b"."
TYPES = {
    "FloatStorage": np.float32, "DoubleStorage": np.float64, "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16, "LongStorage": np.int64, "IntStorage": np.int32,
    "ShortStorage": np.int16, "CharStorage": np.int8, "ByteStorage": np.uint8,
    "BoolStorage": np.bool_, "ComplexFloatStorage": np.complex64,
}  # fmt: skip


def op(value: Any) -> bytes:
    """Pickle opcodes that push a value, without the frame around them."""
    if isinstance(value, bytes):  # opcodes already
        return value
    if isinstance(value, tuple):
        return b"(" + b"".join(map(op, value)) + b"t"
    if isinstance(value, dict):
        return b"}(" + b"".join(op(k) + op(v) for k, v in value.items()) + b"u"
    return pickle.dumps(value, 2)[2:-1].split(b"q\x00")[0]


def storage(kind: str = "FloatStorage", key: str = "0", count: object = 6) -> bytes:
    return op(("storage", f"ctorch\n{kind}\n".encode(), key, "cpu", count)) + b"Q"


def tensor(
    of: bytes | None = None,
    offset: object = 0,
    shape: object = (2, 3),
    strides: object = (3, 1),
    *rest: object,
) -> bytes:
    """Opcodes of a tensor; by default float32 of shape (2, 3) over storage "0"."""
    arguments = (of or storage(), offset, shape, strides, False, {}, *rest)
    return b"ctorch._utils\n_rebuild_tensor_v2\n" + op(arguments) + b"R"


def archive(
    pickled: bytes, storages: dict[str, bytes] | None = None, **entries: bytes
) -> dict[str, bytes]:
    data = {"0": struct.pack("<6f", *range(6))} if storages is None else storages
    return {
        "a/data.pkl": PROTO + pickled + STOP,
        **{f"a/{name}": value for name, value in entries.items()},
        **{f"a/data/{key}": value for key, value in data.items()},
    }


def write(path: Path, entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in entries.items():
            file.writestr(name, data)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.pt"


def test_a_tensor_is_read(path: Path) -> None:
    write(path, archive(op({"w": tensor()})))
    array = load_pytorch(path)["w"]
    assert array.dtype == np.float32
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert not array.flags.writeable
    assert array.flags.aligned


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("order", ["little", "big"])
def test_every_dtype_of_either_byte_order_is_read(path: Path, kind: str, order: str) -> None:
    expected = (np.arange(6) % 2).astype(TYPES[kind])
    stored = expected if order == sys.byteorder else expected.byteswap()
    entries = archive(
        op({"w": tensor(storage(kind), 0, (6,), (1,))}), {"0": stored.tobytes()},
        byteorder=order.encode(),
    )  # fmt: skip
    array = load_pytorch(write(path, entries))["w"]
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array, expected)


def test_an_unknown_byte_order_is_refused(path: Path) -> None:
    write(path, archive(op({"w": tensor()}), byteorder=b"middle"))
    with pytest.raises(RecordError, match="requires byteorder 'little' or 'big', got b'middle'"):
        load_pytorch(path)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((0, (3, 2), (1, 3)), [[0, 3], [1, 4], [2, 5]]),
        ((1, (2,), (2,)), [1, 3]),
        ((4, (), ()), 4),
        ((5, (1, 1), (99, 99)), [[5]]),
        ((2, (3,), (0,)), [2, 2, 2]),
        ((0, (2, 0), (1, 1)), [[], []]),
        ((6, (0,), (1,)), []),
    ],
    ids=["transposed", "strided", "scalar", "unused strides", "expanded", "empty", "empty at end"],
)
def test_strided_views_are_read(
    path: Path, arguments: tuple[object, ...], expected: object
) -> None:
    write(path, archive(op({"w": tensor(None, *arguments)})))
    assert load_pytorch(path)["w"].tolist() == expected


BAD_TENSORS = {
    "offset": (tensor(None, 1), "inside its storage of 24 bytes"),
    "shape": (tensor(None, 0, (3, 3)), "inside its storage"),
    "strides": (tensor(None, 0, (2, 3), (4, 1)), "inside its storage"),
    "negative stride": (tensor(None, 5, (2,), (-1,)), "requires strides of 0 or more"),
    "negative offset": (tensor(None, -1), "requires storage offset of 0 or more"),
    "negative shape": (tensor(None, 0, (-2, 3)), "requires shape of 0 or more"),
    "float shape": (tensor(None, 0, (2.0, 3)), "requires shape of 0 or more"),
    "shape no tuple": (tensor(None, 0, 6), "requires shape of 0 or more"),
    "ranks differ": (tensor(None, 0, (6,), (1, 1)), "one stride per axis"),
    "rank": (tensor(None, 0, (1,) * 65, (1,) * 65), "one stride per axis"),
    "beyond 2**63": (tensor(None, 0, (2**63, 2**63), (0, 0)), "fits in memory"),
    "beyond 2**63 but empty": (tensor(None, 0, (2**63, 0), (0, 0)), "fits in memory"),
    "expanded": (tensor(None, 0, (2**40,), (0,)), "when expanded"),
    "storage short": (tensor(storage(count=7)), "requires 28 bytes in storage '0', got 24"),
    "storage of 2**70": (tensor(storage(count=2**70)), "bytes in storage '0'"),
    "storage negative": (tensor(storage(count=-1)), "references to storages"),
    "storage absent": (tensor(storage(key="1")), "requires the storage 'a/data/1'"),
    "storage outside": (tensor(storage(key="../data.pkl")), "requires the storage"),
    "no storage": (tensor(op(5)), "typed storage"),
    "odd reference": (op(("module", "x")) + b"Q", "references to storages"),
    "lazy": (tensor(None, 0, (2, 3), (3, 1), {"neg": True}), "resolve_neg"),
    "too few arguments": (b"ctorch._utils\n_rebuild_tensor_v2\n)R", "well-formed pickle"),
}


@pytest.mark.parametrize(("pickled", "message"), BAD_TENSORS.values(), ids=BAD_TENSORS.keys())
def test_a_bad_tensor_is_one_error_that_names_the_file(
    path: Path, pickled: bytes, message: str
) -> None:
    write(path, archive(op({"w": pickled})))
    with pytest.raises(RecordError, match=message) as caught:
        load_pytorch(path)
    assert "model.pt" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_bools_that_are_neither_are_an_error(path: Path) -> None:
    write(path, archive(op({"w": tensor(storage("BoolStorage"))}), {"0": b"\0\1\2\3\4\5"}))
    with pytest.raises(RecordError, match="bools of 0 or 1"):
        load_pytorch(path)


class System:
    def __reduce__(self) -> Any:
        return os.system, ("echo owned > owned",)


def test_a_file_that_would_run_a_program_is_refused_and_runs_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    write(path, {"a/data.pkl": pickle.dumps({"w": System()}, 2)})
    with pytest.raises(RecordError, match=r"got the global '(posix|nt)\.system'"):
        load_pytorch(path)
    assert os.listdir() == ["model.pt"]


def test_nested_containers_have_dotted_names_and_key_selects_a_part(path: Path) -> None:
    inner = op({"fc": {"w": tensor()}})
    layers = b"](" + tensor() + tensor() + b"e"
    write(path, archive(op({"epoch": 3, "model": inner, "layers": layers, 7: tensor()})))
    assert list(load_pytorch(path)) == ["model.fc.w", "layers.0", "layers.1", "7"]
    assert list(load_pytorch(path, key="model")) == ["fc.w"]
    assert list(load_pytorch(path, key="model.fc")) == ["w"]
    assert read_pytorch(path)["epoch"] == 3
    with pytest.raises(RecordError, match=r"requires a key 'modell'.*did you mean 'model'"):
        load_pytorch(path, key="modell")
    with pytest.raises(RecordError, match="requires tensors at key='epoch'"):
        load_pytorch(path, key="epoch")


def test_values_that_are_no_tensors_are_not_named_one_by_one(path: Path) -> None:
    write(path, archive(op({"losses": [0.5] * 20_000, "x" * 2000: 1, "w": tensor()})))

    assert list(load_pytorch(path)) == ["w"]


def test_two_tensors_of_one_dotted_name_are_an_error(path: Path) -> None:
    write(path, archive(op({"a.b": tensor(), "a": {"b": tensor()}})))
    with pytest.raises(RecordError, match=r"got two 'a\.b'"):
        load_pytorch(path)


def test_a_dict_within_itself_is_an_error(path: Path) -> None:
    write(path, archive(b"}q\x01X\x01\x00\x00\x00ah\x01s"))
    with pytest.raises(RecordError, match="64 deep"):
        load_pytorch(path)


def test_shared_containers_do_not_multiply_without_limit(path: Path) -> None:
    laughs = b"]q\x00" + b"".join(
        b"](" + b"h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(40)
    )
    nested = op({"w": tensor(), "laughs": b"](" + laughs + b"e"})
    write(path, archive(nested))
    with pytest.raises(RecordError, match="at most 1000000 values"):
        load_pytorch(path)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"other": b"x"}, "requires one data.pkl, got 0"),
        ({"a/data.pkl": b".", "b/data.pkl": b"."}, "requires one data.pkl, got 2"),
        ({"a/data.pkl": b".", "a/constants.pkl": b""}, "got a TorchScript program"),
    ],
)
def test_another_zip_archive_is_named(path: Path, entries: dict[str, bytes], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        load_pytorch(write(path, entries))


def test_a_compressed_entry_is_refused(path: Path) -> None:
    write(path, archive(op({"w": tensor()})), zipfile.ZIP_DEFLATED)
    with pytest.raises(RecordError, match="uncompressed entries"):
        load_pytorch(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_entry_given_twice_is_refused(path: Path) -> None:
    write(path, archive(op({"w": tensor()})))
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("a/data.pkl", b"another")
    with pytest.raises(RecordError, match="each entry once"):
        load_pytorch(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "an empty file"),
        (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9 j\xa8P\x19.", "before version 1.6; if .* re-save"),
        (b"x" * 257 + b"ustar" + bytes(300), "a tar archive"),
        (b"\x10" + bytes(7) + b"{}", "a safetensors file"),
        (b"PK\x03\x04 and no more", "truncated"),
    ],
)
def test_a_foreign_file_is_one_error_that_says_what_it_is(
    path: Path, data: bytes, message: str
) -> None:
    path.write_bytes(data)
    with pytest.raises(RecordError, match=message):
        load_pytorch(path)


def test_a_wrong_checksum_is_an_error_and_an_absent_one_is_not(path: Path) -> None:
    write(path, archive(op({"w": tensor()})))
    with zipfile.ZipFile(path) as file:
        info = file.getinfo("a/data/0")
    data = bytearray(path.read_bytes())
    checksum = struct.pack("<I", info.CRC)
    path.write_bytes(data.replace(checksum, b"\0\0\0\0"))
    assert load_pytorch(path)["w"][1, 2] == 5
    path.write_bytes(data.replace(checksum, b"\1\0\0\0"))
    with pytest.raises(RecordError, match="wrong checksum or size in 'a/data/0'"):
        load_pytorch(path)
