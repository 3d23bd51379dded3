"""Elementwise ops, copies, gathers and scatters of another size take the kernels of the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite

#: Whole vectors of a processor; and none of a GPU, whose vectors are as long as divides a row.
EVEN = [(20, 48), (24, 96), (36, 80), (32, 64)]
ODD = [(33, 51), (35, 79), (47, 55), (101, 99)]


@pytest.mark.parametrize("sizes", [EVEN, ODD], ids=["even", "odd"])
@pytest.mark.parametrize(
    "op",
    [
        lambda x, b: x * 2 + 1, lambda x, b: x + b, lambda x, b: x.mT + 1 + x.mT * b[:1],
        lambda x, b: (x.mT + 0.0).reshape(-1), lambda x, b: x[::2, 1:] + b[1:],
    ],
    ids=["numbers", "bias", "transposed", "copy", "part"],
)  # fmt: skip
def test_elementwise(op: Any, sizes: Any, built: Any, draw: Any) -> None:
    def case(device: Any, shape: tuple[int, int]) -> Any:
        x, b = draw(*shape), draw(shape[1])
        return op(*(pyrite.tensor(a, device=device) for a in (x, b))), op(x, b)

    first, *others = built(case, sizes)

    assert first > 0
    assert others == [0, 0, 0]


def test_rows_of_a_processor_end_anywhere(cpu_built: Any, draw: Any) -> None:
    """Its kernels for rows that are whole vectors, or not, are compiled with each other."""

    def case(device: Any, shape: tuple[int, int]) -> Any:
        x, b = draw(*shape), draw(shape[1])
        tensors = [pyrite.tensor(a, device=device) for a in (x, b)]
        return tensors[0].exp() + tensors[1], np.exp(x) + b

    for sizes in ([*EVEN, *ODD], [*ODD, *EVEN]):
        first, *others = cpu_built(case, sizes)

        assert first >= 0
        assert others == [0] * 7


@pytest.mark.parametrize("name", ["take", "embedding", "take_along_axis"])
def test_gathers(name: str, built: Any, draw: Any) -> None:
    def case(device: Any, sizes: tuple[int, int, int]) -> Any:
        rows, columns, count = sizes
        x = draw(rows, columns)
        i = np.arange(count) * 7 % rows
        if name == "take_along_axis":
            i = np.repeat(i[:, None], columns, 1)
        tensor, index = pyrite.tensor(x, device=device), pyrite.tensor(i, device=device)
        if name == "embedding":
            return pyrite.embedding(tensor, index), x[i]
        found = getattr(pyrite, name)(tensor, index, axis=0)
        return found, getattr(np, name)(x, i, axis=0)

    first, *others = built(case, [(30, 48, 100), (50, 80, 140), (99, 64, 120), (31, 32, 200)])

    assert first > 0
    assert sum(others) <= 1  # workgroups are smaller where there are few points


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_additions_at_indices(dtype: str, built: Any, draw: Any) -> None:
    def case(device: Any, sizes: tuple[int, int, int]) -> Any:
        rows, columns, count = sizes
        x, more = (draw(n, columns).astype(dtype) for n in (rows, count))
        i = np.arange(count) * 7 % rows
        wanted = x.copy()
        np.add.at(wanted, i, more)
        tensors = [pyrite.tensor(a, device=device) for a in (x, i, more)]
        return tensors[0].at[tensors[1]].add(tensors[2]), wanted

    first, *others = built(case, [(130, 48, 60), (150, 80, 70), (99, 64, 62)])

    assert first > 0
    assert sum(others) <= 2  # workgroups are smaller where there are few points
