"""Worker processes make what threads make; their errors, deaths and hangs are one clear error."""

from __future__ import annotations

import gc
import multiprocessing
import operator
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from pyrite.data import DataLoader, InMemoryDataset
from pyrite.data.augment import Compose, Mixup, RandomCrop, RandomErasing, RandomHorizontalFlip
from pyrite.errors import ArgumentError, DataError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and limits")


def wait_until(holds: Any, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        threading.Event().wait(0.02)


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def commands(*calls: Any, **arguments: Any) -> DataLoader[Any]:
    """One process that makes what each call returns, one a batch, and only what is asked for."""
    settings: dict[str, Any] = {"workers": 1, "prefetch": 0, "processes": True, "tensors": False}
    dataset: Any = InMemoryDataset(calls).map(operator.call)
    return DataLoader(dataset, 1, **{**settings, **arguments})


def only(loader: DataLoader[Any], number: int) -> Any:
    return next(loader.epoch(0, start=number))


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    processes, threads = set(multiprocessing.active_children()), set(threading.enumerate())
    yield
    gc.collect()
    wait_until(lambda: not {*multiprocessing.active_children()} - processes)
    wait_until(
        lambda: not [t for t in {*threading.enumerate()} - threads if "pyrite-loader" in t.name]
    )


def test_processes_give_the_bits_that_threads_and_the_consumer_give() -> None:
    rng = np.random.default_rng(0)
    images = [(rng.random((3, 8, 8), np.float32), int(i) % 3, f"n{i}") for i in range(23)]
    augment = Compose(RandomCrop(8, padding=2), RandomHorizontalFlip(), RandomErasing(1.0))
    settings: dict[str, Any] = {
        "shuffle": True, "seed": 3, "augment": augment, "mix": Mixup(0.4, 3), "tensors": False,
    }  # fmt: skip

    def bits(batches: Any) -> list[Any]:
        return [
            (part.dtype, part.shape, part.tobytes()) if isinstance(part, np.ndarray) else part
            for batch in batches
            for part in batch
        ]

    alone = DataLoader(InMemoryDataset(images), 4, **settings)
    processes = DataLoader(InMemoryDataset(images), 4, workers=2, processes=True, **settings)
    for epoch in (0, 1):
        assert bits(processes.epoch(epoch)) == bits(alone.epoch(epoch))
    assert bits(processes.epoch(1, start=4)) == bits(alone.epoch(1, start=4))
    # Two iterations share the processes, and one that is dropped disturbs no other.
    dropped = processes.epoch(5)
    next(dropped)
    del dropped
    pairs = zip(processes.epoch(2), processes.epoch(2), strict=True)
    assert all(bits([first]) == bits([second]) for first, second in pairs)
    kept = list(processes.epoch(0))
    assert bits(kept) == bits(alone.epoch(0))
    kept[0][0][:] = 0  # a batch is its consumer's own


#: What the process that made the loader's gets in the middle of an item.
INTERRUPT = """
import os, signal, time
os.kill(os.getppid(), signal.SIGINT)
time.sleep(600)
"""


def test_errors_values_and_limits_of_one_process() -> None:
    loader = commands(
        os.getpid,
        partial(operator.truediv, 1, 0),
        partial(np.zeros, 3),
        partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1 << 16, -1)),
        partial(np.zeros, 1 << 20),
        partial(int, "7"),
        dict,
        threading.Lock,
        os.getpid,
        partial(exec, INTERRUPT),
    )
    (pid,) = only(loader, 0)
    assert pid != os.getpid()
    with pytest.raises(DataError, match=r"ZeroDivisionError: .*for item 1$") as caught:
        only(loader, 1)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    (note,) = caught.value.__notes__
    assert "In worker process 0" in note
    assert "operator.call" in note or "dataset.py" in note
    assert only(loader, 2).shape == (1, 3)
    with pytest.raises(DataError, match="NoneType"):
        only(loader, 3)
    with pytest.raises(DataError, match=r"reaches another process, got OSError: .*too large"):
        only(loader, 4)
    assert only(loader, 5).tolist() == [7]
    with pytest.raises(DataError, match="lock"):
        only(loader, 7)
    # After all of this it is the same process.
    assert only(loader, 8).tolist() == [pid]
    # Ctrl-C, which the item itself sends here, ends it at once, in the middle of the item.
    with pytest.raises(KeyboardInterrupt):
        only(loader, 9)
    wait_until(lambda: not is_alive(pid))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (partial(os._exit, 3), "ended with exit code 3 while it read batch 1 of epoch 0"),
        (partial(signal.raise_signal, signal.SIGKILL), "killed by SIGKILL .*memory short"),
        (partial(time.sleep, 600), "within 1 s, got none from worker 0"),
    ],
)
def test_a_process_that_dies_or_hangs_is_an_error_and_another_takes_its_place(
    call: Any, message: str
) -> None:
    loader = commands(os.getpid, call, timeout=600)
    (first,) = only(loader, 0)
    # What answers may take its time, however loaded the machine is; only what hangs does not.
    (worker,) = loader._pool._workers  # type: ignore[union-attr]
    worker._timeout = 1 if "within" in message else None
    with pytest.raises(DataError, match=message):
        only(loader, 1)
    worker._timeout = 600
    wait_until(lambda: not is_alive(first))
    assert only(loader, 0)[0] not in (first, os.getpid())


def test_what_does_not_pickle_is_refused_before_a_process_starts() -> None:
    before = {process.pid for process in multiprocessing.active_children()}
    for part in ("augment", "collate", "mix"):
        with pytest.raises(ArgumentError, match=r"mix that pickle, got .*lambda.*processes=False"):
            list(commands(int, **{part: lambda item, *_: item}))
    # Those of earlier tests may end meanwhile.
    assert {process.pid for process in multiprocessing.active_children()} <= before


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_that_is_none_is_refused(timeout: float) -> None:
    with pytest.raises(ArgumentError, match="timeout > 0"):
        commands(int, timeout=timeout)


SCRIPT = """
import os, time
from pyrite.data import DataLoader

def pid_and_sleep(_):
    print(os.getpid(), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    loader = DataLoader([0, 1], 1, workers=2, processes=True, tensors=False,
                        collate=pid_and_sleep)
    list(loader)
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, None])
def test_processes_of_a_script_end_with_it_in_the_middle_of_an_item(
    how: int | None, tmp_path: Any
) -> None:
    path = tmp_path / "script.py"
    if how is None:
        path.write_text(SCRIPT.replace('if __name__ == "__main__":', "if True:"))
        ended = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300)
        assert ended.returncode == 1
        assert "DataError: loader requires its worker processes to live" in ended.stderr
        assert '`if __name__ == "__main__":`' in ended.stderr
        return
    path.write_text(SCRIPT)
    script = subprocess.Popen(
        [sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert script.stdout is not None
    pids = [int(script.stdout.readline()) for _ in range(2)]
    # Ctrl-C reaches the whole group of a terminal.
    os.killpg(script.pid, how) if how == signal.SIGINT else script.send_signal(how)
    _, printed = script.communicate(timeout=300)
    for pid in pids:
        wait_until(lambda pid=pid: not is_alive(pid))
    if how == signal.SIGINT:
        assert printed.count("Traceback") == 1, printed
        assert printed.strip().endswith("KeyboardInterrupt")
