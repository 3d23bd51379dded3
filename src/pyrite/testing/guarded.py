"""A program: examples of ops on a guarded device, dense and as views, judged by NumPy.

    PYRITE_GUARD=after python -m pyrite.testing.guarded cpu --every 20 --seed 3

A kernel that leaves its operands ends it, is an error, or shows as NaN.  Prints the examples that
went wrong, and ends with how many it tried; the last line of standard error names the one that ran.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.errors import PyriteError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing.examples import Example, examples
from pyrite.types import Array, float32

#: What is allowed beside NumPy's values: faults show as NaN, or as numbers from elsewhere.
TOLERANCE = 1e-3

View = Callable[[Array, DeviceLike], Tensor]


def dense(array: Array, device: DeviceLike) -> Tensor:
    """Return the array as it is."""
    return tensor(array, device=device)


def every_second(array: Array, device: DeviceLike) -> Tensor:
    """Return the array in every second place of each axis, with others in between."""
    shape = tuple(2 * n + 1 for n in array.shape)
    places = (slice(1, None, 2),) * array.ndim
    whole = np.full(shape, 99).astype(array.dtype)
    whole[places] = array
    return tensor(whole, device=device)[places] if array.ndim else dense(array, device)


def reversed_rows(array: Array, device: DeviceLike) -> Tensor:
    """Return the array as a part of a larger one, whose axes run backwards and are swapped."""
    if array.ndim < 2:
        return every_second(array, device)
    # Rows beside it, before and behind.
    whole = np.full((array.shape[0] + 2, *array.shape[1:]), 99).astype(array.dtype)
    whole[1:-1] = array[::-1]
    x = tensor(np.ascontiguousarray(whole.swapaxes(-1, -2)), device=device)
    return x.swapaxes(-1, -2)[1:-1].flip(0)


VIEWS: tuple[View, ...] = (dense, every_second, reversed_rows)


def cases(every: int, seed: int) -> Iterator[tuple[Example, View]]:
    """Give one of so many examples and views, drawn by a seed."""
    chosen = random.Random(seed)
    for example in examples():
        for view in VIEWS:
            if chosen.randrange(every) == 0:
                yield example, view


def problem(example: Example, view: View, device: str) -> str | None:
    """Return what is wrong with an example on a device, in words."""
    arrays = example.arrays(float32)
    try:
        inputs = [view(a, device) if isinstance(a, np.ndarray) else a for a in arrays]
        found = [r.numpy() for r in example.call(inputs, device)]
        wanted = [r.numpy() for r in example.run(float32, "numpy")]
    except PyriteError as error:
        return f"{type(error).__name__}: {error}"
    for got, want in zip(found, wanted, strict=True):
        if got.shape != want.shape or not np.allclose(
            got.astype(np.float64), want.astype(np.float64), TOLERANCE, TOLERANCE, equal_nan=True
        ):
            return f"{got.ravel()[:4]} is not {want.ravel()[:4]}"
    return None


def main(arguments: Sequence[str]) -> int:
    """Run it; return 1 if something went wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("device")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0)
    given: Any = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    wrong = tried = 0
    for number, (example, view) in enumerate(cases(given.every, given.seed)):
        if number < given.skip:
            continue
        print(number, example.id, view.__name__, file=sys.stderr, flush=True)
        found = problem(example, view, given.device)
        tried += 1
        if found is not None:
            wrong += 1
            print(f"{example.id} {view.__name__}: {found}", flush=True)
    print(f"{tried} tried, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
