"""Windows as columns, and back, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.errors import ShapeError
from pyrite.tensor.creation import tensor

RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.uniform(-1, 1, shape)


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ({"kernel_size": 3}, (2, 3, 6, 5)),
        ({"kernel_size": (2, 3), "stride": (2, 1), "padding": (1, 2)}, (2, 3, 6, 5)),
        ({"kernel_size": 2, "dilation": 3, "stride": 4}, (1, 2, 9, 8)),
    ],
)
def test_unfold_and_fold_are_torchs(arguments: Any, shape: Any) -> None:
    torch = pytest.importorskip("torch")
    x = floats(*shape)
    expected = torch.nn.functional.unfold(torch.tensor(x), **arguments)
    columns = tensor(x).unfold4d(**arguments)
    np.testing.assert_array_equal(columns.numpy(), expected.numpy())
    back = torch.nn.functional.fold(expected, shape[2:], **arguments)
    folded = columns.fold4d(shape[2:], **arguments)
    np.testing.assert_allclose(folded.numpy(), back.numpy())


def test_fold_names_the_shape_that_it_wants() -> None:
    with pytest.raises(ShapeError, match=r"fold4d requires x of shape \(N, C \* 4, 9\)"):
        tensor(floats(1, 4, 8)).fold4d((4, 4), 2)
