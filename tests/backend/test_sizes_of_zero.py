"""Every op of the table with sizes of 0: each device gives what NumPy gives, where it gives any.

An example of an op becomes many, in which axes of one size have size 0, all of them or some: of
those the record refuses what does not fit.  Nothing but an error of ours may come of it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.backend.device import device_names, device_problem
from pyrite.cli.digits import DigitNet
from pyrite.errors import PyriteError
from pyrite.op import Sample, Spec
from pyrite.tensor.creation import tensor, zeros
from pyrite.tensor.tensor import Tensor
from pyrite.testing import Example, examples
from pyrite.types import Array, float32, float64

pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")

WORKING = [n for n in device_names() if n != "numpy" and device_problem(n) is None]
EXAMPLES = list(examples())

#: Choices of axes of an example that a sampled run compares.
FEW = 3

#: Attributes that say sizes of the inputs or of the result.
_SIZES = ("shape", "size", "k")


@dataclass(frozen=True)
class Emptied:
    """An example with sizes of 0, and NumPy's results of it."""

    example: Example
    results: list[Array]


def emptied(example: Example, rng: random.Random | None = None) -> Iterator[Emptied]:
    """Give what becomes of an example with sizes of 0, where the op takes that.

    In the order in which they are made, or in a random one.
    """
    found = list(candidates(example))
    for candidate in found if rng is None else rng.sample(found, len(found)):
        if (results := taken(candidate)) is not None:
            yield Emptied(candidate, results)


def taken(example: Example) -> list[Array] | None:
    """Return NumPy's results, None where the op refuses."""
    try:
        return values(example, "numpy")
    except PyriteError:
        return None


def candidates(example: Example) -> Iterator[Example]:
    """Give the example with every choice of axes of one size emptied, which need not fit."""
    inputs, attrs = example.sample.inputs, example.sample.attrs
    for size, alike in axes_by_size(inputs).items():
        changed = {n: without(v, size) if n in _SIZES else v for n, v in attrs.items()}
        for count in range(1, len(alike) + 1):
            for chosen in combinations(alike, count):
                empty = tuple(with_zeros(x, p, chosen) for p, x in enumerate(inputs))
                for found in [attrs] if changed == attrs else [attrs, changed]:
                    yield replace(example, sample=Sample(empty, found))


def axes_by_size(inputs: Sequence[Any]) -> dict[int, list[tuple[int, int]]]:
    """Return which axes of which inputs have each size."""
    found: dict[int, list[tuple[int, int]]] = {}
    for position, x in enumerate(inputs):
        for axis, size in enumerate(x.shape if isinstance(x, Spec) else ()):
            found.setdefault(size, []).append((position, axis))
    return found


def with_zeros(x: Any, position: int, chosen: Sequence[tuple[int, int]]) -> Any:
    if not isinstance(x, Spec):
        return x
    shape = (0 if (position, axis) in chosen else n for axis, n in enumerate(x.shape))
    return replace(x, shape=tuple(shape))


def without(attribute: Any, size: int) -> Any:
    """Return an attribute with 0 for a size."""
    if isinstance(attribute, tuple):
        return tuple(without(n, size) for n in attribute)
    return 0 if type(attribute) is int and attribute == size else attribute


def values(example: Example, name: str) -> list[Array]:
    return [result.numpy() for result in example.run(float32, name)]


def gradients(example: Example, name: str) -> dict[int, Array]:
    """Return the gradient, by input, of a sum in which each element has its own weight."""
    arrays = example.arrays(float64)
    inputs = [tensor(a, device=name) if isinstance(a, np.ndarray) else a for a in arrays]

    def total(x: Tensor, position: int) -> Any:
        rng, found = np.random.default_rng(5), 0.0
        for result in example.call([*inputs[:position], x, *inputs[position + 1 :]], name):
            if result.dtype.is_float:
                weight = tensor(rng.uniform(-1, 1, result.shape), device=name)
                found = found + (result * weight).sum()
        return found

    return {
        p: grad(lambda x, p=p: total(x, p))(inputs[p]).numpy()
        for p, a in enumerate(arrays)
        if isinstance(a, np.ndarray) and a.dtype == np.float64 and example.is_differentiable(p)
    }


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.id)
@pytest.mark.parametrize("name", WORKING)
@pytest.mark.sample(1, by="example.op")
def test_sizes_of_zero_give_what_numpy_gives(
    name: str, example: Example, rng: random.Random, full: bool
) -> None:
    for want in islice(emptied(example, rng), None if full else FEW):
        got = values(want.example, name)
        for x, y in zip(got, want.results, strict=True):
            assert_close(x, y, want.example)
        reference = gradients(want.example, "numpy")
        for position, x in gradients(want.example, name).items():
            assert_close(x, reference[position], want.example)


def assert_close(got: Array, want: Array, example: Example) -> None:
    told = str(example.sample)
    assert (got.shape, got.dtype) == (want.shape, want.dtype), told
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=1e-5, atol=1e-5, err_msg=told
    )


def test_most_ops_take_a_size_of_zero() -> None:
    """Else the comparison above would compare nothing."""
    ops = {example.op.name for example in EXAMPLES}
    taking = {example.op.name for example in EXAMPLES if any(emptied(example))}

    assert len(taking) > 0.9 * len(ops)


@pytest.mark.parametrize("name", ["numpy", *WORKING])
def test_a_network_takes_an_empty_batch(name: str) -> None:
    net = DigitNet().to(name)

    assert net(zeros((0, 1, 8, 8), device=name)).shape == (0, 10)
