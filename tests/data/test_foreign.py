"""PyTorch's and Hugging Face's datasets are taken as they are, by positions and as streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pyrite.data import DataLoader, PadCollate


def test_pytorchs_datasets() -> None:
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch.utils.data")
    tensors = data.TensorDataset(torch.arange(6.0).reshape(3, 2), torch.arange(3))
    for dataset in (tensors, data.Subset(tensors, [0, 1, 2])):
        (batch,) = DataLoader(dataset, 3, workers=1, device="numpy")
        assert batch[0].tolist() == [[0, 1], [2, 3], [4, 5]]
        assert batch[1].tolist() == [0, 1, 2]

    # Each of several processes gets the tensors.
    settings: dict[str, Any] = {"workers": 2, "processes": True, "tensors": False}
    assert [batch[1].tolist() for batch in DataLoader(tensors, 2, **settings)] == [[0, 1], [2]]

    class Stream(data.IterableDataset):  # type: ignore[misc]
        """Has a length, and a __getitem__ that is inherited and raises."""

        def __iter__(self) -> Iterator[Any]:
            return iter(torch.arange(5))

        def __len__(self) -> int:
            return 5

    for loader in (DataLoader(Stream(), 2, tensors=False, workers=w) for w in (0, 2)):
        assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4]]


def test_hugging_faces_datasets() -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"x": [[1, 2, 3], [4], [5, 6]], "t": ["a", "b", "c"]})
    (batch,) = DataLoader(rows, 3, collate=PadCollate({"x": 0}), tensors=False)
    assert batch["x"].values.tolist() == [[1, 2, 3], [4, 0, 0], [5, 6, 0]]
    assert batch["t"] == ["a", "b", "c"]
    numbers = datasets.Dataset.from_dict({"x": list(range(10))})
    loader = DataLoader(numbers.to_iterable_dataset(num_shards=2), 3, tensors=False)
    next(loader.epoch(0))
    rest = list(loader.epoch(0, start=1, state=loader.state))
    assert np.concatenate([batch["x"] for batch in rest]).tolist() == list(range(3, 10))
