"""Batches come in one order whatever the workers do; memory, errors and threads stay in bounds."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest

from pyrite.data import DataLoader, Dataset, InMemoryDataset
from pyrite.data.order import epoch_order
from pyrite.errors import ArgumentError, DataError, DTypeError, ShapeError

NUMBERS = InMemoryDataset(range(23))


def loader(dataset: Any = NUMBERS, batch_size: int = 4, **arguments: Any) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size, tensors=False, **arguments)


def lists(batches: Iterator[Any]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


#: Threads of loaders of other files' tests, which may be on their way to their end.
others: set[threading.Thread] = set()


def loader_threads() -> list[threading.Thread]:
    alive = [thread for thread in threading.enumerate() if "pyrite-loader" in thread.name]
    return [thread for thread in alive if thread not in others]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    others.clear()
    others.update(loader_threads())
    yield
    if loader_threads():
        gc.collect()  # of an iterator that was dropped inside a cycle
    for thread in loader_threads():
        thread.join(timeout=300)
    assert not loader_threads()


class Slow(Dataset[int]):
    """Items that return in another order than they were asked for."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int, /) -> int:
        threading.Event().wait(0.001 * (index * 7 % 4))
        return index


class Failing(Dataset[int]):
    """One item raises."""

    def __init__(self, at: int, error: Exception | None = None) -> None:
        self.at = at
        self.error = error or KeyError("no such pixel")

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int, /) -> int:
        if index == self.at:
            raise self.error
        return index


def test_without_shuffle_items_come_in_their_order() -> None:
    assert lists(iter(loader(batch_size=10))) == [
        list(range(10)),
        list(range(10, 20)),
        [20, 21, 22],
    ]


def test_a_rest_can_be_dropped() -> None:
    dropping = loader(batch_size=10, drop_last=True, shuffle=True)
    assert len(dropping) == 2
    assert dropping.num_items == 20
    assert [len(batch) for batch in dropping] == [10, 10]


@pytest.mark.parametrize("batch_size", [1, 4, 23, 50])
@pytest.mark.parametrize("drop_last", [True, False])
def test_the_length_is_the_number_of_batches(batch_size: int, drop_last: bool) -> None:
    made = loader(batch_size=batch_size, drop_last=drop_last)
    batches = list(made)
    assert len(made) == len(batches)
    assert made.num_items == sum(len(batch) for batch in batches)


def test_an_empty_dataset_has_no_batch() -> None:
    assert list(loader([], workers=2)) == []


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("prefetch", [0, 1, 7])
def test_batches_are_the_same_for_any_number_of_workers(workers: int, prefetch: int) -> None:
    alone = loader(Slow(), 3, shuffle=True, seed=5)
    together = loader(Slow(), 3, shuffle=True, seed=5, workers=workers, prefetch=prefetch)
    for _ in range(2):
        assert lists(iter(together)) == lists(iter(alone))


def test_iterations_are_the_epochs_in_turn() -> None:
    shuffled = loader(shuffle=True, seed=9)
    epochs = [lists(iter(shuffled)) for _ in range(3)]
    assert len({str(epoch) for epoch in epochs}) == 3
    for number, epoch in enumerate(epochs):
        assert lists(loader(shuffle=True, seed=9).epoch(number)) == epoch
        assert sorted(chain.from_iterable(epoch)) == list(range(23))
    shuffled.epoch(0)
    assert lists(iter(shuffled)) == lists(shuffled.epoch(3))


def test_the_shuffle_is_the_published_order_of_seed_and_epoch() -> None:
    flat = list(chain.from_iterable(lists(loader(shuffle=True, seed=3).epoch(6))))
    assert flat == epoch_order(23, seed=3, epoch=6).tolist()
    assert loader(shuffle=True, seed=3).order(6).tolist() == flat


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("start", [0, 2, 6])
def test_an_epoch_resumes_at_a_batch(workers: int, start: int) -> None:
    made = loader(shuffle=True, workers=workers)
    assert lists(made.epoch(2, start=start)) == lists(made.epoch(2))[start:]


@pytest.mark.parametrize("start", [-1, 7])
def test_a_start_outside_the_epoch_is_refused(start: int) -> None:
    with pytest.raises(ArgumentError, match=f"0 <= start <= 6 batches, got {start}"):
        loader().epoch(0, start=start)


@pytest.mark.parametrize(
    "arguments",
    [{"batch_size": 0}, {"workers": -1}, {"prefetch": -1}, {"seed": -1}, {"seed": 2**64}],
)
def test_settings_out_of_range_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="requires"):
        loader(**arguments)


def test_at_most_workers_and_prefetch_batches_are_alive() -> None:
    workers, prefetch = 3, 2
    lock = threading.Lock()
    alive = most_alive = made = taken = most_waiting = 0

    class Batch:
        def __init__(self) -> None:
            nonlocal alive, most_alive, made, most_waiting
            with lock:
                alive, made = alive + 1, made + 1
                most_alive = max(most_alive, alive)
                most_waiting = max(most_waiting, made - taken)

        def __del__(self) -> None:
            nonlocal alive
            with lock:
                alive -= 1

    batches = iter(
        loader(
            Slow(), 1, workers=workers, prefetch=prefetch, collate=lambda items: (items, Batch())[1]
        )
    )
    for _ in range(len(Slow())):
        batch = next(batches)
        taken += 1
        # While one is used all workers run ahead as far as they may.
        threading.Event().wait(0.005)
        del batch
    assert 1 < most_waiting <= workers + prefetch
    # A worker lets go of a batch a moment after it handed it over, which may be a long one.
    assert most_alive <= 2 * workers + prefetch
    del batches
    for thread in loader_threads():
        thread.join(timeout=300)
    assert alive == 0


def test_without_workers_nothing_is_read_ahead_and_no_thread_started() -> None:
    seen: list[int] = []
    batches = iter(loader(NUMBERS.map(lambda item: seen.append(item) or item)))
    assert seen == []
    next(batches)
    assert seen == [0, 1, 2, 3]
    assert not loader_threads()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_item_that_fails_is_named_after_the_batches_before_it(workers: int) -> None:
    batches = iter(loader(Failing(at=9), workers=workers))
    assert lists([next(batches), next(batches)]) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    with pytest.raises(DataError, match=r"every item to load, got KeyError.*for item 9") as caught:
        next(batches)
    assert isinstance(caught.value.__cause__, KeyError)
    assert list(batches) == []


def test_the_index_named_is_that_of_the_dataset_in_a_shuffled_epoch_too() -> None:
    with pytest.raises(DataError, match=r"for item 9$"):
        list(loader(Failing(at=9), shuffle=True, seed=2))


def test_an_item_that_ends_iteration_is_an_error_and_not_the_end() -> None:
    with pytest.raises(DataError, match=r"got StopIteration: .*for item 3"):
        list(loader(Failing(at=3, error=StopIteration())))


@pytest.mark.parametrize("workers", [0, 2])
def test_the_item_of_another_shape_is_named_by_its_index_in_the_dataset(workers: int) -> None:
    ragged = InMemoryDataset([np.zeros(3)] * 6 + [np.zeros(4)])
    with pytest.raises(ShapeError, match=r"\(3,\) for item 4 and \(4,\) for item 6"):
        list(loader(ragged, workers=workers))


def test_the_item_of_another_type_is_named_by_its_index_in_the_dataset() -> None:
    with pytest.raises(DTypeError, match="int for item 4 and str for item 5"):
        list(loader([0, 0, 0, 0, 0, "0"]))


def test_a_collate_that_fails_names_its_items() -> None:
    def collate(items: list[int]) -> int:
        return 1 // (items[0] - 4)

    with pytest.raises(DataError, match=r"ZeroDivisionError.*items \[4, 5, 6, 7\]") as caught:
        list(loader(collate=collate, workers=1))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_threads_end_when_the_iterator_is_exhausted() -> None:
    assert len(list(loader(workers=3))) == 6
    assert not loader_threads()


def test_threads_end_when_the_iterator_is_dropped() -> None:
    batches = iter(loader(Slow(), workers=3))
    next(batches)
    threads = loader_threads()
    assert threads
    del batches
    gc.collect()
    for thread in threads:
        thread.join(timeout=300)
    assert not loader_threads()


def test_threads_end_when_the_iterator_is_dropped_inside_a_reference_cycle() -> None:
    cycle: list[Any] = [iter(loader(Slow(), workers=3))]
    cycle.append(cycle)
    next(cycle[0])
    threads = loader_threads()
    del cycle
    gc.collect()
    for thread in threads:
        thread.join(timeout=300)
    assert not loader_threads()


def test_threads_end_when_the_loop_is_left_by_an_exception() -> None:
    def interrupted() -> None:
        for _ in loader(Slow(), workers=2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
def test_ctrl_c_while_waiting_for_a_worker_ends_the_threads() -> None:
    main = threading.main_thread().ident
    assert main is not None

    sent = threading.Event()

    def interrupt(item: int) -> int:
        # The first batch is held back until Ctrl-C came, so the main thread is waiting for it.
        if item == 0:
            sent.wait(60)
        if item == 16:
            signal.pthread_kill(main, signal.SIGINT)
            sent.set()
        return item

    batches = iter(loader(NUMBERS.map(interrupt), 4, workers=3, prefetch=2))
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    # Joined before the interrupt goes on, so none is left even while its traceback lives.
    assert not loader_threads()


def test_a_dropped_iterator_stops_its_workers_between_items() -> None:
    begun, gate = threading.Event(), threading.Event()
    seen: list[int] = []

    def wait(item: int) -> int:
        seen.append(item)
        if item == 4:
            begun.set()
            gate.wait(60)
        return item

    batches = iter(loader(NUMBERS.map(wait), 4, workers=1, prefetch=1))
    assert next(batches).tolist() == [0, 1, 2, 3]
    assert begun.wait(60)
    threads = loader_threads()
    del batches
    gate.set()
    for thread in threads:
        thread.join(timeout=300)
    assert seen == [0, 1, 2, 3, 4]


def test_two_iterations_at_once_do_not_disturb_each_other() -> None:
    made = loader(Slow(), 5, shuffle=True, workers=2)
    pairs = zip(made.epoch(1), made.epoch(1), strict=True)
    assert all(np.array_equal(first, second) for first, second in pairs)


def test_batches_are_tensors_on_the_device_asked_for() -> None:
    (batch,) = DataLoader([(1.0, 2), (3.0, 4)], 2, device="numpy")
    x, y = batch
    assert str(x.device) == "numpy"
    assert x.numpy().tolist() == [1.0, 3.0]
    assert y.numpy().dtype == np.int32
