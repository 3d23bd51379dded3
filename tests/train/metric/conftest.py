"""What tests of metrics share: a split seen in batches, and numbers that both sides can hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from pyrite.tensor.creation import tensor
from pyrite.train import Metric, Output

Over = Callable[..., float]


def output(predictions: Any, targets: Any, **fields: Any) -> Output:
    made = [tensor(x) if isinstance(x, np.ndarray) else x for x in (predictions, targets)]
    return Output(tensor(0.0), *made, **fields)


@pytest.fixture
def over() -> Over:
    """The value of a metric over items that were seen in batches, cut at random or where told."""

    def value(
        metric: Metric, predictions: Any, targets: Any, cuts: Sequence[int] | None = None
    ) -> float:
        count = len(targets)
        if cuts is None:
            cuts = np.random.default_rng(count).integers(0, count + 1, 2).tolist()
        places = sorted({0, *cuts, count})
        for start, end in pairwise(places):
            metric.update(output(predictions[start:end], targets[start:end]))
        return metric.compute().value

    return value
