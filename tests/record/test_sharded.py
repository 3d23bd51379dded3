from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrite.errors import RecordError
from pyrite.record import ShardedCheckpoint, load_sharded, save_safetensors

INDEX = "model.safetensors.index.json"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    save_safetensors(tmp_path / "model-1.safetensors", {"a": np.ones(2), "b": np.zeros(3)})
    save_safetensors(tmp_path / "model-2.safetensors", {"c": np.arange(4)})
    write_index(tmp_path, a="model-1.safetensors", b="model-1.safetensors", c="model-2.safetensors")
    return tmp_path


def write_index(directory: Path, **shards: Any) -> None:
    table = {"metadata": {"total_size": 72}, "weight_map": shards}
    (directory / INDEX).write_text(json.dumps(table))


def test_a_directory_and_its_index_give_all_arrays(checkpoint: Path) -> None:
    for path in (checkpoint, checkpoint / INDEX):
        arrays = load_sharded(path)
        assert list(arrays) == ["a", "b", "c"]
        np.testing.assert_array_equal(arrays["c"], np.arange(4))


def test_a_shard_is_opened_when_an_array_of_it_is_asked_for(checkpoint: Path) -> None:
    (checkpoint / "model-2.safetensors").write_bytes(b"damaged")
    lazy = ShardedCheckpoint(checkpoint)
    assert "c" in lazy
    assert lazy["a"].tolist() == [1, 1]
    with pytest.raises(RecordError, match=r"model-2\.safetensors"):
        lazy["c"]
    with pytest.raises(KeyError):
        lazy["d"]


def test_missing_shards_are_all_in_one_error(checkpoint: Path) -> None:
    for shard in ("model-1.safetensors", "model-2.safetensors"):
        (checkpoint / shard).unlink()
    message = r"2 shards beside it, got 0; missing: model-1\.safetensors, model-2\.safetensors"
    with pytest.raises(RecordError, match=message):
        ShardedCheckpoint(checkpoint)


def test_an_array_that_its_shard_lacks_is_an_error(checkpoint: Path) -> None:
    write_index(checkpoint, a="model-1.safetensors", d="model-2.safetensors")
    with pytest.raises(RecordError, match=r"requires 'd' in 'model-2\.safetensors'"):
        load_sharded(checkpoint)


@pytest.mark.parametrize(
    "shard",
    ["../secret", "/etc/passwd", "a/b", "..", ".", "", "..\\x", "C:x", "a\0b", 3, None, ["a"]],
)
def test_a_shard_outside_the_directory_is_refused(checkpoint: Path, shard: object) -> None:
    write_index(checkpoint, a=shard)
    with pytest.raises(RecordError, match="plain file names beside it"):
        ShardedCheckpoint(checkpoint)


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{", b"{}", b'{"weight_map": []}', b'{"weight_map": {}}', b"\xff",
     b'{"weight_map": {"a": "x", "a": "y"}}', b"[" * 100_000],
)  # fmt: skip
def test_a_bad_index_is_one_error_that_names_it(checkpoint: Path, text: bytes) -> None:
    (checkpoint / INDEX).write_bytes(text)
    with pytest.raises(RecordError, match=r"index\.json"):
        ShardedCheckpoint(checkpoint)


def test_a_directory_without_an_index_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="requires a readable file"):
        ShardedCheckpoint(tmp_path)
