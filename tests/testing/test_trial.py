"""The trial of a device ends with a verdict, whatever the device does."""

from __future__ import annotations

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.errors import KernelError
from pyrite.testing import trial


def fails(x: Tensor) -> Tensor:
    if x.device != pyrite.device("numpy"):
        raise KernelError("kernel 'sum' requires a pipeline, got\nof the driver nothing")
    return x


def lies(x: Tensor) -> Tensor:
    return x if x.device == pyrite.device("numpy") else x + 1.0


@pytest.mark.parametrize(
    ("compute", "verdict"),
    [
        (fails, "cpu cannot compute sums: kernel 'sum' requires a pipeline, got"),
        (lies, "cpu computes sums wrongly"),
    ],
)
def test_a_device_that_fails_or_lies_is_told_in_one_line(
    compute: object, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ones = np.ones(3, np.float32)
    monkeypatch.setattr(trial, "_tasks", lambda: [("sums", compute, [ones])])

    assert trial.verdict("cpu") == verdict
