"""Streams need no length, resume by their state or say that they cannot; shards share batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrite.data import (
    DataLoader,
    Draws,
    InMemoryDataset,
    IterableDataset,
    LengthBuckets,
    LinesDataset,
    ResumableDataset,
)
from pyrite.errors import ArgumentError, DataError


class Numbers(IterableDataset[int]):
    """Declares no state."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(23))


class Endless(ResumableDataset[int]):
    """Its state is the next number; epochs begin at thousands."""

    def read(self, epoch: int, state: Any) -> Iterator[tuple[int, Any]]:
        for number in count(1000 * epoch if state is None else state):
            yield number, number + 1


class Foreign:
    """As Hugging Face's: an iterable with a state of its own."""

    def __init__(self) -> None:
        self.at = self.epoch = 0

    def __iter__(self) -> Iterator[dict[str, int]]:
        while self.at < 10:
            self.at += 1
            yield {"x": self.at}
        self.at = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


def loader(stream: Any, size: int = 4, **arguments: Any) -> DataLoader[Any]:
    return DataLoader(stream, size, tensors=False, **arguments)


def lists(batches: Any) -> list[Any]:
    return [batch.tolist() for batch in batches]


@pytest.mark.parametrize("workers", [0, 3])
def test_a_stream_is_batched_in_its_order_by_any_workers(workers: int) -> None:
    batches = lists(loader(Numbers(), workers=workers))
    assert batches == [list(range(i, min(i + 4, 23))) for i in range(0, 23, 4)]
    assert len(list(loader(Numbers(), workers=workers, drop_last=True))) == 5
    assert lists(loader(iter(range(6)), workers=workers)) == [[0, 1, 2, 3], [4, 5]]
    assert lists(loader((n for n in range(5)), workers=workers)) == [[0, 1, 2, 3], [4]]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_resumes_at_its_state_with_the_same_draws(workers: int) -> None:
    def augment(item: int, draws: Any) -> tuple[int, float]:
        return item, draws.uniform()

    made = loader(Endless(), workers=workers, max_batches=7, augment=augment, seed=3)
    assert len(made) == 7
    whole, states = [], []
    for batch in made.epoch(2):
        whole.append(np.stack(batch).tolist())
        states.append(made.state)
    drawn = [Draws(3, 2, position).uniform() for position in range(28)]
    np.testing.assert_allclose([x for batch in whole for x in batch[1]], drawn, rtol=1e-6)
    assert states == [2000 + 4 * (k + 1) for k in range(7)]
    rest = [np.stack(batch).tolist() for batch in made.epoch(2, start=3, state=states[2])]
    assert rest == whole[3:]
    assert list(made.epoch(2, start=7)) == []
    doubled = loader(Endless().map(lambda number: 2 * number), max_batches=3)
    assert lists(doubled.epoch(0, start=2, state=8)) == [[16, 18, 20, 22]]


def test_a_foreign_state_is_used_and_a_foreign_epoch_told() -> None:
    stream = Foreign()
    made = loader(stream)
    first = next(made.epoch(5))
    assert first["x"].tolist() == [1, 2, 3, 4]
    assert stream.epoch == 5
    assert made.state == {"at": 4}
    rest = made.epoch(5, start=1, state={"at": 4})
    assert [batch["x"].tolist() for batch in rest] == [[5, 6, 7, 8], [9, 10]]


def test_lines_resume_at_a_byte_of_a_file(tmp_path: Path) -> None:
    texts = ["one\ntwo\r\n", "", "drei\nvier ü\nfünf"]
    paths = [tmp_path / f"{i}.txt" for i in range(3)]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text.encode())
    lines = LinesDataset(paths)
    assert list(lines) == ["one", "two", "drei", "vier ü", "fünf"]
    pairs = list(lines.read(0, None))
    for position, (_, state) in enumerate(pairs):
        assert [line for line, _ in lines.read(0, state)] == list(lines)[position + 1 :]
    paths[1].write_bytes(b"\xff\n")
    with pytest.raises(DataError, match=r"UTF-8 text, got .* of .*1.txt"):
        list(lines)
    paths[1].unlink()
    with pytest.raises(DataError, match=r"readable file, got .*1.txt"):
        list(lines)
    with pytest.raises(ArgumentError, match="list of paths"):
        LinesDataset(str(paths[0]))  # type: ignore[arg-type]


class Counted(ResumableDataset[int]):
    """Numbers up to an end, and how many were read."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.reads = 0

    def read(self, epoch: int, state: Any) -> Iterator[tuple[int, Any]]:
        for number in range(state or 0, self.end):
            self.reads += 1
            yield number, number + 1


@pytest.mark.parametrize("size", [1, 7, 40])
def test_a_shuffled_stream_with_states_goes_on_exactly(size: int) -> None:
    stream = Counted(30).map(lambda n: 3 * n).shuffle(size, seed=2).map(str)
    pairs = json.loads(json.dumps(list(stream.read(1, None))))
    unresumable = Numbers().shuffle(size, seed=2)
    assert not isinstance(unresumable, ResumableDataset)
    assert sorted(int(item) for item, _ in pairs) == list(range(0, 90, 3))
    assert [item for item, _ in pairs] == list(stream.epoch(1))
    for position, (_, state) in enumerate(pairs):
        assert [list(pair) for pair in stream.read(1, state)] == pairs[position + 1 :]
    twice = Counted(30).shuffle(size).shuffle(3, seed=1)
    again = list(twice.read(0, None))
    assert list(twice.read(0, again[11][1])) == again[12:]
    with pytest.raises(ArgumentError, match=r"size=\d+ and seed=2, got size=\d+ and seed=3"):
        list(Counted(30).shuffle(size, seed=3).read(1, pairs[0][1]))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_of_a_shuffled_stream_resumes_within_an_epoch(workers: int) -> None:
    made = loader(Counted(50).shuffle(9, seed=4), workers=workers)
    whole, states = [], []
    for batch in made.epoch(3):
        whole.append(batch.tolist())
        states.append(made.state)
    assert sorted(chain(*whole)) == list(range(50))
    for start in (1, 6, 12):
        assert lists(made.epoch(3, start=start, state=states[start - 1])) == whole[start:]


def test_a_resumed_shuffle_reads_few_items_again() -> None:
    source = Counted(100_000)
    state = [after for _, after in islice(source.shuffle(64).reading(0, None), 20_000)][-1]()
    source.reads = 0
    next(source.shuffle(64).reading(0, state))
    assert source.reads < 64 * 20  # 64 ln(64) is 266


def test_a_shuffled_stream_has_every_item_once_and_an_order_for_each_epoch() -> None:
    shuffled = Numbers().map(lambda n: n * 2).shuffle(8, seed=1)
    epochs = [list(shuffled.epoch(number)) for number in (0, 0, 1)]
    assert epochs[0] == epochs[1] != epochs[2]
    for epoch in epochs:
        assert sorted(epoch) == list(range(0, 46, 2))
        assert max(position - epoch.index(2 * position) for position in range(23)) <= 23
        assert max(n // 2 - position for position, n in enumerate(epoch)) < 8
    assert list(Numbers().shuffle(1)) == list(range(23))
    assert lists(loader(shuffled).epoch(1)) == lists(loader(shuffled, workers=2).epoch(1))


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda: loader(Numbers()).epoch(0, start=2), ArgumentError, "state of the stream after 2"),
        (
            lambda: next(loader(Numbers()).epoch(0, start=2, state=1)),
            ArgumentError,
            "declares no",
        ),
        (lambda: len(loader(Numbers())), TypeError, "a stream, Numbers; pass max_batches="),
        (lambda: loader(Numbers()).num_items, TypeError, "got a stream"),
        (lambda: loader(Numbers(), shuffle=True), ArgumentError, r"stream.shuffle\(1000\)"),
        (lambda: list(loader(Numbers(), max_batches=9)), DataError, "max_batches=9 batches, got 6"),
        (lambda: loader([1, 2], max_batches=9), ArgumentError, "requires a stream"),
        (lambda: lists(loader(iter([1])).epoch(1)), DataError, "read once"),
        (lambda: Numbers().shuffle(0), ArgumentError, "size >= 1"),
    ],
)
def test_what_a_stream_cannot_do_is_refused(act: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        act()


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_the_batches_of_all_parts_together_are_the_whole_loaders(parts: int) -> None:
    numbers = InMemoryDataset(range(23))

    def augment(item: int, draws: Any) -> tuple[int, float]:
        return item, draws.uniform()

    buckets = LengthBuckets(np.arange(23), batch_size=4, bounds=[10, 22])
    for dataset, settings in (
        (numbers, {"batch_size": 4, "shuffle": True, "seed": 2}),
        (numbers, {"batch_sampler": buckets, "shuffle": True}),
        (Numbers(), {"batch_size": 4}),
    ):
        whole = DataLoader(dataset, augment=augment, device="numpy", **settings)  # type: ignore[arg-type]
        loaders = whole.split(["numpy"] * parts)
        together = zip(*[part.epoch(1) for part in loaders], strict=True)
        for batch, shares in zip(whole.epoch(1), together, strict=True):
            joined = chain.from_iterable(_pairs(share) for share in shares)
            assert sorted(joined) == sorted(_pairs(batch))
        assert "shard" in loaders[0].settings
        assert "shard" not in whole.settings


def _pairs(batch: Any) -> list[Any]:
    return list(zip(*[part.numpy().tolist() for part in batch], strict=True))


def test_parts_that_would_get_nothing_are_refused() -> None:
    whole = loader([1, 2, 3, 4, 5], 4)
    with pytest.raises(DataError, match="2 items or more to share among 2, got 1"):
        list(whole.split([None, None])[0])
    assert len(lists(loader([1, 2, 3, 4, 5], 4, drop_last=True).split([None, None])[1])) == 1
    for devices, of in (([], whole), ([None], whole.split([None])[0])):
        with pytest.raises(ArgumentError, match="not itself a part"):
            of.split(devices)
    for shard in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(ArgumentError, match="0 <= i < n"):
            loader([1], shard=shard)
