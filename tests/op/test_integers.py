"""An integer is one: a float in its place, which int() would cut off, is refused everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.errors import ArgumentError, PyriteError
from pyrite.testing.examples import Example, examples
from pyrite.types import float32

#: Each attribute of each op that is an integer in one of its samples.
ATTRIBUTES: dict[tuple[str, str], Example] = {
    (example.op.name, name): example
    for example in examples()
    for name in example.op.integers & example.sample.attrs.keys()
    if isinstance(example.sample.attrs[name], int)
}


def test_most_integers_of_ops_are_tried() -> None:
    assert len(ATTRIBUTES) > 80


@pytest.mark.parametrize("extra", [0.5, 0.0, np.float32(0)])
def test_no_op_takes_a_float_for_an_integer(extra: float) -> None:
    taken = []
    for (op, name), example in ATTRIBUTES.items():
        attrs = {**example.sample.attrs, name: example.sample.attrs[name] + extra}
        call = replace(example, sample=replace(example.sample, attrs=attrs))
        try:
            call.run(float32, "numpy")
            taken.append((op, name))
        except PyriteError:
            pass
    assert not taken


X = pyrite.ones((4, 6))
LOG_PROBS = pyrite.zeros((4, 1, 3))
JOINT = pyrite.zeros((1, 4, 2, 3))
LABEL = pyrite.tensor([[1]])
THETA = pyrite.ones((1, 2, 3))

#: Of what is no op itself.
CALLS: dict[str, Callable[[float], Any]] = {
    "rot90": lambda n: X.rot90(n),  # type: ignore[arg-type]
    "linspace": lambda n: pyrite.linspace(0, 1, n),  # type: ignore[arg-type]
    "eye": lambda n: pyrite.eye(3, k=n),  # type: ignore[arg-type]
    "tril": lambda n: X.tril(n),  # type: ignore[arg-type]
    "diff": lambda n: X.diff(n),  # type: ignore[arg-type]
    "topk": lambda n: X.topk(n),  # type: ignore[arg-type]
    "round": lambda n: X.round(n),  # type: ignore[arg-type]
    "affine_grid": lambda n: pyrite.affine_grid(THETA, size=(1, 1, n, 2)),  # type: ignore[arg-type]
    "ctc_loss": lambda n: pyrite.ctc_loss(LOG_PROBS, LABEL, [n], [1]),  # type: ignore[list-item]
    "rnnt_loss": lambda n: pyrite.rnnt_loss(JOINT, LABEL, [n], [1]),  # type: ignore[list-item]
}


@pytest.mark.parametrize("name", CALLS)
def test_no_function_takes_a_float_for_an_integer(name: str) -> None:
    CALLS[name](1)
    with pytest.raises(PyriteError):
        CALLS[name](1.5)


@pytest.mark.parametrize("lengths", [([5], [1]), ([-1], [1]), ([4], [2]), ([4], [-1])])
def test_lengths_that_the_host_knows_lie_within_what_there_is(
    lengths: tuple[list[int], list[int]],
) -> None:
    for loss, log_probs in ((pyrite.ctc_loss, LOG_PROBS), (pyrite.rnnt_loss, JOINT)):
        with pytest.raises(ArgumentError, match=r"requires 0 <= \w+_lengths <= [14], got"):
            loss(log_probs, LABEL, *lengths)


def test_more_differences_than_elements_are_none() -> None:
    assert X.diff(2**40).shape == (4, 0)
    assert X.diff(7, axis=0, prepend=X).shape == (1, 6)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_random_numbers_lie_between_finite_ones(number: float) -> None:
    with pytest.raises(ArgumentError, match="uniform requires a finite high"):
        pyrite.uniform((2,), 0, number)
    with pytest.raises(ArgumentError, match="normal requires a finite mean"):
        pyrite.normal((2,), number)


@pytest.mark.parametrize("p", [-1, float("nan")])
def test_distances_have_a_norm(p: float) -> None:
    with pytest.raises(ArgumentError, match="cdist requires p >= 0"):
        X.cdist(X, p)
