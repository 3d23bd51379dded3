"""Recurrent layers over sequences of other lengths, and of other batches."""

from __future__ import annotations

from typing import Any

from pyrite import nn
from pyrite.tensor.creation import tensor


def test_steps_of_other_sequences_take_the_kernels_of_the_first(cpu_built: Any, draw: Any) -> None:
    layer = nn.LSTM(5, 6)

    def case(device: Any, sizes: tuple[int, int]) -> Any:
        batch, length = sizes
        x = draw(batch, length, 5)
        return layer.to(device)(tensor(x, device=device))[0], layer(tensor(x))[0].numpy()

    sizes = [(26, 7), (26, 9), (38, 11), (39, 5), (57, 2)]
    first, same_batch, second_batch, *further = cpu_built(case, sizes)

    assert first > 0
    assert same_batch == 0
    # The batch that comes first has a config of its own, and all others share few.
    assert second_batch <= 1
    assert further == [0, 0]
