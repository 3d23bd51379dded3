"""Whatever stands in place of a file: every reader gives its own error, and none waits."""

from __future__ import annotations

import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyrite import nn
from pyrite.cli.picture import read_digit
from pyrite.data.source.cifar import cifar10
from pyrite.data.source.csv import read_csv
from pyrite.data.source.image_folder import read_image
from pyrite.data.source.json import read_json_rows
from pyrite.data.source.mnist import read_idx
from pyrite.errors import DataError, PyriteError, RecordError, TrainError
from pyrite.opening import open_file, read_at_most, regular
from pyrite.record import (
    Record,
    load_pytorch,
    load_safetensors,
    load_sharded,
)
from pyrite.train.directory import RunDirectory

if os.name == "nt":
    pytest.skip("there are no FIFOs here", allow_module_level=True)


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(600)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@dataclass
class Row:
    x: int


#: What reads a file, by the suffix that it goes by, and the error of what it cannot read.
READERS: dict[str, tuple[str, Callable[[Any], Any], type[PyriteError]]] = {
    "Module.load": ("safetensors", lambda p: nn.Linear(1, 1).load(p), RecordError),
    "Module.load of PyTorch": ("pt", lambda p: nn.Linear(1, 1).load(p), RecordError),
    "Module.load of an index": ("json", lambda p: nn.Linear(1, 1).load(p), RecordError),
    "Module.load of anything": ("file", lambda p: nn.Linear(1, 1).load(p), RecordError),
    "Record.load": ("safetensors", Record.load, RecordError),
    "load_safetensors": ("safetensors", load_safetensors, RecordError),
    "load_sharded": ("json", load_sharded, RecordError),
    "load_pytorch": ("pt", load_pytorch, RecordError),
    "read_csv": ("csv", lambda p: read_csv(p, Row), DataError),
    "read_json_rows": ("jsonl", lambda p: read_json_rows(p, Row), DataError),
    "read_image": ("png", read_image, DataError),
    "read_digit": ("png", read_digit, DataError),
    "read_idx": ("idx", read_idx, DataError),
    "a run's events": ("jsonl", lambda p: run_with(p, "events"), TrainError),
    "a run's manifest": ("json", lambda p: run_with(p, "manifest"), TrainError),
    "cifar": ("bin", lambda p: cifar_with(p), DataError),
}


def run_with(path: Any, name: str) -> Any:
    run = RunDirectory(os.path.dirname(path) or ".")
    file = run.events if name == "events" else run.manifest
    if "\0" in str(path) or not os.path.lexists(path):
        raise TrainError("a run names its files itself")
    os.rename(path, file)
    return run.read_history() if name == "events" else run.read_manifest()


def cifar_with(path: Any) -> Any:
    if "\0" in str(path) or not os.path.lexists(path):
        return cifar10(path, "test")
    os.rename(path, Path(path).with_name("test_batch.bin"))
    return cifar10(Path(path).parent, "test")


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


PLANTED: dict[str, Callable[[Path], Any]] = {
    "a FIFO": os.mkfifo,
    "a link to a FIFO": lambda p: (os.mkfifo(p.with_name("f")), p.symlink_to("f")),
    "a socket": bind,
    "an endless device": lambda p: p.symlink_to("/dev/zero"),
    "an empty device": lambda p: p.symlink_to("/dev/null"),
    "a terminal": lambda p: p.symlink_to("/dev/tty"),
    "a device": lambda p: os.mknod(p, 0o600 | stat.S_IFCHR, os.makedev(1, 5)),
    "a folder": lambda p: p.mkdir(),
    "a link to itself": lambda p: p.symlink_to(p.name),
    "a link to nothing": lambda p: p.symlink_to("nothing"),
    "nothing": lambda p: None,
}
NAMES = {"a NUL": "a\0b", "half a character": "a\ud800b", "too long": "a" * 300, "empty": ""}


@pytest.mark.parametrize("what", list(PLANTED))
@pytest.mark.parametrize("reader", list(READERS))
def test_what_is_no_file_is_the_readers_own_error(tmp_path: Path, reader: str, what: str) -> None:
    suffix, read, error = READERS[reader]
    path = tmp_path / f"file.{suffix}"
    try:
        PLANTED[what](path)
    except PermissionError as refused:
        pytest.skip(f"not by this user: {refused}")

    with pytest.raises(error):
        read(path)


@pytest.mark.parametrize("what", list(NAMES))
@pytest.mark.parametrize("reader", list(READERS))
def test_what_is_no_name_is_the_readers_own_error(reader: str, what: str) -> None:
    suffix, read, error = READERS[reader]

    with pytest.raises(error):
        read(NAMES[what] + f".{suffix}" * (what != "empty"))


def test_a_file_that_becomes_a_fifo_after_the_first_look_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    look = os.stat

    def swapped(*args: Any, **kwargs: Any) -> os.stat_result:
        status = look(*args, **kwargs)
        path.unlink()
        os.mkfifo(path)
        return status

    monkeypatch.setattr(os, "stat", swapped)

    with pytest.raises(OSError, match="a FIFO"):
        open_file(path)


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    file = regular(path, os.O_RDONLY)
    try:
        assert read_at_most(file, 3, "file") == b"abc"
        with pytest.raises(OSError, match="more than 2"):
            read_at_most(file, 2, "file")
    finally:
        os.close(file)
