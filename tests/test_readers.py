"""Memory that ends inside a reader, at any of its lines, is the reader's own error."""

from __future__ import annotations

import gzip
import importlib
import json
import random
import sqlite3
import struct
import sys
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import pyrite
from pyrite import nn
from pyrite.data.source.cifar import cifar10
from pyrite.data.source.csv import read_csv
from pyrite.data.source.image_folder import EXTENSIONS, read_image, read_mask
from pyrite.data.source.json import read_json_rows
from pyrite.data.source.mnist import read_idx
from pyrite.data.source.sqlite import read_sqlite
from pyrite.errors import DataError, PyriteError, RecordError, TrainError
from pyrite.record import Record, load_pytorch, load_safetensors, load_sharded, save_safetensors
from pyrite.train.directory import RunDirectory

# ---- memory that ends ----


@dataclass
class Row:
    x: float


WEIGHTS = {"weight": np.ones((1, 2), np.float32), "bias": np.ones(1, np.float32)}


def safetensors(folder: Path) -> Path:
    save_safetensors(folder / "w.safetensors", WEIGHTS, {"format": "pt"})
    return folder / "w.safetensors"


def record(folder: Path) -> Path:
    Record(WEIGHTS, {"step": 1}).save(folder / "r.safetensors")
    return folder / "r.safetensors"


def sharded(folder: Path) -> Path:
    safetensors(folder)
    index = {"weight_map": dict.fromkeys(WEIGHTS, "w.safetensors")}
    (folder / "i.json").write_text(json.dumps(index))
    return folder / "i.json"


def pytorch(folder: Path) -> Path:
    torch = pytest.importorskip("torch")
    torch.save({n: torch.tensor(a) for n, a in WEIGHTS.items()}, folder / "w.pt")
    return folder / "w.pt"


def text(content: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "file").write_text(content)
        return folder / "file"

    return make


def image(folder: Path) -> Path:
    PIL.Image.new("RGB", (3, 2), (9, 99, 199)).save(folder / "i.png")
    return folder / "i.png"


def idx(folder: Path) -> Path:
    (folder / "file").write_bytes(gzip.compress(struct.pack(">HBBI", 0, 8, 1, 3) + b"abc"))
    return folder / "file"


def cifar(folder: Path) -> Path:
    (folder / "test_batch.bin").write_bytes(bytes(3073))
    return folder


def run(folder: Path) -> RunDirectory:
    made = RunDirectory(folder)
    made.write_manifest({"a": 1})
    return made


def parquet(folder: Path) -> Path:
    arrow = pytest.importorskip("pyarrow")
    importlib.import_module("pyarrow.parquet").write_table(
        arrow.table({"x": [1, None], "v": [[1.0], [2.0]]}), folder / "t.parquet"
    )
    return folder / "t.parquet"


def csv_of_two(folder: Path) -> Path:
    pytest.importorskip("pyarrow")
    importlib.import_module("pyrite.data.source.arrow")  # not among the lines that are counted
    return text("x,y\n1,a\n,b\n")(folder)


def csv_table(path: Path) -> Any:
    return importlib.import_module("pyrite.data.source.arrow").read_csv_table(path, missing="nan")


def parquet_table(path: Path) -> Any:
    return importlib.import_module("pyrite.data.source.arrow").read_parquet(path, missing="drop")


def database(folder: Path) -> Path:
    with closing(sqlite3.connect(folder / "d.db")) as connection:
        connection.executescript("CREATE TABLE t (x); INSERT INTO t VALUES (1), (2)")
    return folder / "d.db"


def mask(folder: Path) -> Path:
    PIL.Image.new("L", (3, 2), 1).save(folder / "m.png")
    return folder / "m.png"


def load(path: Path) -> Any:
    return nn.Linear(2, 1).load(path).weight.tolist()


READERS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any], type[PyriteError]]] = {
    "load_safetensors": (safetensors, load_safetensors, RecordError),
    "Record.load": (record, Record.load, RecordError),
    "load_sharded": (sharded, load_sharded, RecordError),
    "load_pytorch": (pytorch, load_pytorch, RecordError),
    "Module.load": (safetensors, load, RecordError),
    "Module.load of a record": (record, load, RecordError),
    "Module.load of PyTorch": (pytorch, load, RecordError),
    "Module.load of shards": (sharded, load, RecordError),
    "read_csv": (text("x\n1\n2\n"), lambda p: read_csv(p, Row), DataError),
    "read_json_rows": (text('{"x": 1}\n{"x": 2}\n'), lambda p: read_json_rows(p, Row), DataError),
    "read_image": (image, lambda p: read_image(p).tolist(), DataError),
    "read_idx": (idx, lambda p: read_idx(p).tolist(), DataError),
    "read_csv_table": (csv_of_two, csv_table, DataError),
    "read_parquet": (parquet, parquet_table, DataError),
    "read_sqlite": (database, lambda p: read_sqlite(p, "SELECT * FROM t"), DataError),
    "read_mask": (mask, lambda p: read_mask(p).tolist(), DataError),
    "cifar10": (cifar, lambda p: cifar10(p, "test"), DataError),
    "read_manifest": (run, RunDirectory.read_manifest, TrainError),
}

#: Where our own lines are traced; those that turn MemoryError into an error cannot run out of it.
_OURS = tuple(f"/pyrite/{part}" for part in ("record/", "data/", "train/", "nn/weights.py"))


def lines_of(work: Callable[[], Any], end_at: int | None = None) -> int:
    """Return how many lines of ours some work runs; at one of them memory may end."""
    seen = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal seen
        if not any(part in frame.f_code.co_filename for part in _OURS):
            return None
        if event == "line":
            seen += 1
            if seen == end_at:
                raise MemoryError
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return seen


# A file that is open when memory ends is closed when it is forgotten.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("name", list(READERS))
def test_memory_that_ends_anywhere_is_the_readers_own_error(tmp_path: Path, name: str) -> None:
    make, read, error = READERS[name]
    path = make(tmp_path)
    lines = lines_of(lambda: read(path))
    assert lines > 5

    for line in random.Random(0).sample(range(1, lines + 1), min(lines, 60)):
        with pytest.raises(error, match="memory"):
            lines_of(lambda: read(path), end_at=line)


# ---- images ----


@pytest.mark.parametrize("extension", sorted(EXTENSIONS))
def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    path = tmp_path / f"bomb{extension}"
    PIL.Image.new("L", (40, 30)).save(path)
    monkeypatch.setattr(pyrite.config, "image_pixels", 1200)
    assert read_image(path).shape == (3, 30, 40)

    def decoded(*_: Any) -> None:
        raise AssertionError("it was decoded")

    monkeypatch.setattr(pyrite.config, "image_pixels", 1199)
    monkeypatch.setattr(PIL.Image.Image, "convert", decoded)
    with pytest.raises(DataError, match=r"40 x 30.*pyrite\.config\.image_pixels"):
        read_image(path)


@pytest.mark.parametrize("side", [6_000, 12_000, 60_000])
def test_a_small_file_of_a_large_image_is_refused(tmp_path: Path, side: int) -> None:
    path = image(tmp_path)
    data = bytearray(path.read_bytes())
    data[16:24] = struct.pack(">II", side, side)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    path.write_bytes(data)

    with pytest.raises(DataError, match=r"pyrite\.config\.image_pixels"):
        read_image(path)


@pytest.mark.parametrize("count", [0, -1, 1.5, "many", True])
def test_the_bound_on_pixels_is_a_count(count: Any) -> None:
    with pytest.raises(pyrite.errors.ArgumentError, match=r"image_pixels requires a whole number"):
        pyrite.config.image_pixels = count
