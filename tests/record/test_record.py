from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.errors import RecordError
from pyrite.record import Record, SafetensorsFile, load_safetensors, save_safetensors

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
metadata = st.dictionaries(
    text,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | text,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
        max_leaves=10,
    ),
    max_size=4,
)


@given(metadata)
def test_what_is_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, metadata: dict[str, Any]
) -> None:
    record = Record({"a": np.array([np.nan, -0.0]), "b": np.ones((), ml_dtypes.bfloat16)}, metadata)
    path = tmp_path_factory.mktemp("record") / "r.safetensors"
    record.save(path)
    assert Record.load(path) == record


def test_tied_arrays_are_saved_once_and_tied_again(tmp_path: Path) -> None:
    w = np.arange(1000.0).reshape(10, 100)
    record = Record({"embed": w, "head": w, "head.T": w.T, "same": w[:], "equal": w.copy()})
    record.save(tmp_path / "r")
    assert set(SafetensorsFile(tmp_path / "r").entries) == {"embed", "head.T", "equal"}
    loaded = Record.load(tmp_path / "r")
    assert loaded == record
    assert np.shares_memory(loaded.arrays["embed"], loaded.arrays["head"])
    assert np.shares_memory(loaded.arrays["embed"], loaded.arrays["same"])
    assert not np.shares_memory(loaded.arrays["embed"], loaded.arrays["equal"])
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").stat().st_size == (tmp_path / "r").stat().st_size


def test_empty_arrays_are_not_tied(tmp_path: Path) -> None:
    Record({"a": np.ones(0), "b": np.ones(0)}).save(tmp_path / "r")
    assert set(SafetensorsFile(tmp_path / "r").entries) == {"a", "b"}


def test_equal_records_are_equal_bytes(tmp_path: Path) -> None:
    for name in "12":
        Record({"a": np.ones(2)}, {"x": [1, 2.5], "y": {"z": None}}).save(tmp_path / name)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_a_record_is_a_value(tmp_path: Path) -> None:
    array, nested = np.ones(2), {"step": [1]}
    record = Record({"a": array}, {"state": nested})
    nested["step"].append(2)
    assert record.metadata["state"] == {"step": [1]}
    with pytest.raises(ValueError, match="read-only"):
        record.arrays["a"][0] = 2.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.arrays = {}  # type: ignore[misc]
    with pytest.raises(TypeError):
        record.arrays["b"] = array  # type: ignore[index]
    with pytest.raises(TypeError):
        hash(record)
    assert array.flags.writeable  # the owner's own array is left as it was


def test_a_loaded_record_does_not_hold_the_file(tmp_path: Path) -> None:
    path = tmp_path / "r"
    Record({"a": np.ones(2)}).save(path)
    loaded = Record.load(path)
    path.write_bytes(b"")  # in place, which would kill a process that had it mapped
    assert loaded.arrays["a"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        (Record({"a": np.array([1.0, np.nan])}, {"x": [1]}), True),
        (Record({"a": np.array([1.0, 2.0])}, {"x": [1]}), False),
        (Record({"a": np.array([1.0, np.nan], np.float32)}, {"x": [1]}), False),
        (Record({"a": np.array([[1.0, np.nan]])}, {"x": [1]}), False),
        (Record({"b": np.array([1.0, np.nan])}, {"x": [1]}), False),
        (Record({"a": np.array([1.0, np.nan])}, {"x": [2]}), False),
        (3, False),
    ],
)
def test_equality_is_of_names_bits_and_metadata(other: object, equal: bool) -> None:
    assert (Record({"a": np.array([1.0, np.nan])}, {"x": (1,)}) == other) is equal


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [0, np.float32(1)]}, r"metadata\.x\.a\[1\] requires JSON values, got float32"),
        (np.ones(2), "got ndarray; put arrays into arrays"),
        ({1: 2}, "requires text as keys, got 1"),
        ({1, 2}, "got set"),
        (b"raw", "got bytes"),
        (1 << 9000, "8192-bit integers"),
        (CYCLE, "at most 64 deep"),
    ],
)
def test_metadata_that_json_would_change_is_refused_where_it_is(
    value: object, message: str
) -> None:
    with pytest.raises(RecordError, match=message):
        Record({}, {"x": value})


def test_a_run_that_diverged_can_be_saved(tmp_path: Path) -> None:
    Record({}, {"loss": [math.nan, math.inf, -math.inf]}).save(tmp_path / "r")
    loss = Record.load(tmp_path / "r").metadata["loss"]
    assert math.isnan(loss[0])
    assert loss[1:] == [math.inf, -math.inf]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({}, "got a plain safetensors file; for its arrays use load_safetensors"),
        ({"pyrite.record": "2"}, "requires record format 1, got '2'; upgrade pyrite"),
        ({"pyrite.record": "x"}, "got 'x'"),
        ({"pyrite.record": "9" * 5000}, "requires record format 1"),
        ({"pyrite.record": "1", "pyrite.metadata": "[1]"}, "metadata requires a JSON object"),
        ({"pyrite.record": "1", "pyrite.metadata": "{"}, "metadata requires a JSON object"),
        ({"pyrite.record": "1", "pyrite.aliases": '{"b": "c"}'}, "got 'b' for 'c'"),
        ({"pyrite.record": "1", "pyrite.aliases": '{"a": "a"}'}, "got 'a' for 'a'"),
        ({"pyrite.record": "1", "pyrite.aliases": '{"b": ["a"]}'}, r"got 'b' for \['a'\]"),
    ],
)
def test_a_file_that_is_no_record_is_one_clear_error(
    tmp_path: Path, header: dict[str, str], message: str
) -> None:
    path = tmp_path / "r.safetensors"
    save_safetensors(path, {"a": np.ones(1)}, header)
    with pytest.raises(RecordError, match=message) as caught:
        Record.load(path)
    assert "r.safetensors" in str(caught.value)


def test_a_record_opens_as_plain_safetensors(tmp_path: Path) -> None:
    Record({"a": np.ones(2)}, {"step": 3}).save(tmp_path / "r")
    assert load_safetensors(tmp_path / "r")["a"].tolist() == [1, 1]


def test_repr_is_one_line_without_values() -> None:
    w = np.ones(1000)
    record = Record({"a": w, "b": w}, {"step": 3})
    assert repr(record) == "Record(2 arrays, 8000 bytes, metadata: 'step')"
