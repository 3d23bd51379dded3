"""Valid files of each format are damaged everywhere: one RecordError, or sound arrays."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrite.errors import RecordError
from pyrite.record import (
    Record,
    load_pytorch,
    load_safetensors,
    load_sharded,
    save_safetensors,
)

Arrays = Mapping[str, np.ndarray[Any, Any]]
ARRAYS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "n": np.array([1, 2], np.int64),
    "mask": np.array([True, False]),
}


def make_safetensors(path: Path) -> Path:
    save_safetensors(path, ARRAYS, {"key": "value"})
    return path


def make_record(path: Path) -> Path:
    Record({**ARRAYS, "tied": ARRAYS["w"]}, {"step": 3, "nested": [1.5, None]}).save(path)
    return path


def make_index(path: Path) -> Path:
    save_safetensors(path.with_name("shard.safetensors"), ARRAYS)
    path.write_text(json.dumps({"weight_map": dict.fromkeys(ARRAYS, "shard.safetensors")}))
    return path


def make_pytorch(path: Path) -> Path:
    torch = pytest.importorskip("torch")
    torch.save({name: torch.tensor(array) for name, array in ARRAYS.items()}, path)
    return path


FORMATS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Arrays]]] = {
    "safetensors": (make_safetensors, load_safetensors),
    "record": (make_record, lambda path: Record.load(path).arrays),
    "index": (make_index, load_sharded),
    "pytorch": (make_pytorch, load_pytorch),
}


def damage(data: bytes) -> Iterator[bytes]:
    """Truncations and changes of one byte and of one block, at up to 400 places."""
    draw = random.Random(0)
    places = range(len(data)) if len(data) <= 400 else sorted(draw.sample(range(len(data)), 400))
    for i in places:
        yield data[:i]
        yield data[:i] + bytes([data[i] ^ (1 << draw.randrange(8))]) + data[i + 1 :]
        yield data[:i] + bytes([draw.randrange(256)]) + data[i + 1 :]
        yield data[:i] + draw.randbytes(8) + data[i + 8 :]
        yield data[:i] + data[i + 1 :]
        yield data[:i] + b"\xff" * 8 + data[i:]


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_one_error_or_sound_arrays(name: str, tmp_path: Path) -> None:
    make, load = FORMATS[name]
    path = make(tmp_path / "file")
    refused = read = 0
    for data in damage(path.read_bytes()):
        path.write_bytes(data)
        try:
            arrays = load(path)
        except RecordError as error:
            refused += 1
            text = str(error)
            if str(path) not in text and "shard" not in text:
                pytest.fail(f"does not name the file: {text}")
            continue
        read += 1
        # safetensors has no checksum, so other values, names or dtypes can result; but every array
        # is whole, and can be read to the last byte.
        for array in arrays.values():
            assert array.size <= 12
            assert len(array.tobytes()) == array.nbytes
    assert refused > read


def test_damage_to_the_values_of_a_pytorch_file_is_always_seen(tmp_path: Path) -> None:
    path = make_pytorch(tmp_path / "file")
    for data in damage(path.read_bytes()):
        path.write_bytes(data)
        try:
            arrays = load_pytorch(path)
        except RecordError:
            continue
        assert arrays.keys() == ARRAYS.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, ARRAYS[name])


def test_a_damaged_pickle_with_a_right_checksum_is_one_error_or_sound_arrays(
    tmp_path: Path,
) -> None:
    path = make_pytorch(tmp_path / "file")
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    pickled = next(name for name in entries if name.endswith("/data.pkl"))
    for data in damage(entries[pickled]):
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in entries.items():
                archive.writestr(name, data if name == pickled else content)
        try:
            arrays = load_pytorch(path)
        except RecordError as error:
            if str(path) not in str(error):
                pytest.fail(f"does not name the file: {error}")
            continue
        for array in arrays.values():
            assert len(array.tobytes()) == array.nbytes <= 2**10
