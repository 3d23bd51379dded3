"""Whether a method of a tensor gives on a device what it gives on NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pyrite.backend.device import DeviceLike
from pyrite.tensor.creation import tensor
from pyrite.types import Array


def called(
    name: str, given: Sequence[Array | None], device: DeviceLike, **attrs: Any
) -> list[Array]:
    """Return the results of the method of that name of the first of some arrays, as arrays."""
    x, *rest = (a if a is None else tensor(a, device=device) for a in given)
    found = getattr(x, name)(*rest, **attrs)
    return [t.numpy() for t in (found if isinstance(found, tuple) else (found,))]


def assert_agrees(
    device: DeviceLike, name: str, given: Sequence[Array | None],
    tolerance: Mapping[str, float], *, note: object = "", **attrs: Any,
) -> None:  # fmt: skip
    """Compare types and values with NumPy's; the tolerance of a dtype is relative and absolute.

    ``note`` is shown where they differ.
    """
    want = called(name, given, "numpy", **attrs)
    for x, y in zip(called(name, given, device, **attrs), want, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        limit = tolerance[x.dtype.name]
        np.testing.assert_allclose(
            x.astype(np.float64), y.astype(np.float64), rtol=limit, atol=limit, err_msg=str(note)
        )
