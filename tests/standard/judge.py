"""A call of the array API standard, made of Pyrite and of array-api-strict; whether they agree.

A call is drawn once, with tensors and Pyrite's dtypes in it; array-api-strict gets arrays of the
same values and its own dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import array_api_strict as strict
import numpy as np

import pyrite
from pyrite import DType, Tensor

strict.set_array_api_strict_flags(api_version="2024.12")

#: What the standard calls the default dtypes is 32 bits wide here, and 64 in array-api-strict.
DEFAULTS = {"int64": "int32", "uint64": "uint32", "float64": "float32"}

#: Functions, and fields of results, that are positions or counts: of the default dtype always.
INDICES = {
    "argmax", "argmin", "argsort", "count_nonzero", "nonzero", "searchsorted",
    "counts", "indices", "inverse_indices",
}  # fmt: skip

#: How far floats may be apart, relative to the greatest value of the result.
TOLERANCE = {"float32": 2e-5, "float64": 1e-11}

#: What adds up and may cancel is as exact as its terms are large: so many factors a term has.
CANCELLING = {
    "sum": 1, "mean": 1, "cumulative_sum": 1, "std": 1, "var": 2, "matmul": 2, "tensordot": 2,
    "vecdot": 2,
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """The arguments of one call."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def on(self, device: str) -> Call:
        """The call with its tensors on a device."""
        return self._mapped(lambda x: x.to(device) if isinstance(x, Tensor) else x)

    def of_strict(self) -> Call:
        """The call as array-api-strict takes it."""
        return self._mapped(as_strict)

    def dtypes(self) -> set[str]:
        """The names of all dtypes that stand in it."""
        found: set[str] = set()

        def note(x: Any) -> Any:
            if isinstance(x, Tensor | DType):
                found.add((x.dtype if isinstance(x, Tensor) else x).name)
            return x

        self._mapped(note)
        return found

    def _mapped(self, change: Callable[[Any], Any]) -> Call:
        return Call(
            tuple(mapped(change, a) for a in self.args),
            {name: mapped(change, a) for name, a in self.kwargs.items()},
        )


def mapped(change: Callable[[Any], Any], x: Any) -> Any:
    """Change every leaf of lists and tuples."""
    return type(x)(mapped(change, i) for i in x) if type(x) in (list, tuple) else change(x)


def as_strict(x: Any) -> Any:
    """The same of array-api-strict."""
    if isinstance(x, Tensor):
        return strict.asarray(x.numpy().copy())
    return getattr(strict, x.name) if isinstance(x, DType) else x


def assert_agree(name: str, call: Call, device: str, function: Any = None) -> None:
    """Make the call of both, and assert that they return the same."""
    ours = (function or (lambda *a, **k: getattr(pyrite, name)(*a, **k)))(
        *call.on(device).args, **call.on(device).kwargs
    )
    theirs_function = function or getattr(strict, name)
    with np.errstate(all="ignore"):
        theirs = theirs_function(*call.of_strict().args, **call.of_strict().kwargs)
    assert_same(name, ours, theirs, call)


def size_of_terms(name: str, call: Call) -> float:
    """How large the terms are of what a function adds up; 0 for one that adds nothing up."""
    if name not in CANCELLING:
        return 0.0
    arrays = [a.numpy().astype(float) for a in call.args if isinstance(a, Tensor) and a.size]
    greatest = max((float(np.abs(a).max()) for a in arrays), default=0.0)
    return greatest ** CANCELLING[name]


def assert_same(name: str, ours: Any, theirs: Any, call: Call) -> None:
    """Assert that two results are of one structure, type, shape and value."""
    if isinstance(theirs, list | tuple):
        assert isinstance(ours, list) == isinstance(theirs, list)
        assert getattr(ours, "_fields", None) == getattr(theirs, "_fields", None)
        assert len(ours) == len(theirs)
        names = getattr(theirs, "_fields", [name] * len(theirs))
        for field_name, one, other in zip(names, ours, theirs, strict=True):
            assert_same(field_name, one, other, call)
    elif isinstance(ours, Tensor):
        given = set() if name in INDICES else call.dtypes()
        assert_equal_arrays(ours, theirs, given, size_of_terms(name, call))
    elif isinstance(ours, DType):
        assert theirs == as_strict(ours)
    else:
        assert ours == theirs


def assert_equal_arrays(ours: Tensor, theirs: Any, given: set[str], terms: float = 0.0) -> None:
    """Assert that a tensor and an array have one dtype, shape and values.

    A default dtype may be the other's, unless it is that of an argument, by name in ``given``;
    floats may differ as far as terms of that size round.
    """
    want = np.asarray(theirs._array)
    name = want.dtype.name
    if ours.dtype.name != name:
        assert DEFAULTS.get(name) == ours.dtype.name, f"{ours.dtype.name}, not {name}"
        assert name not in given, f"{ours.dtype.name}, not {name}"
        with np.errstate(all="ignore"):
            want = want.astype(ours.dtype.numpy)
    got = ours.numpy()
    assert got.shape == want.shape
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    rtol = TOLERANCE[want.dtype.name]
    finite = np.abs(want[np.isfinite(want)])
    scale = max(float(finite.max(initial=0)), terms)
    # Subnormal numbers have few bits: each step of a product rounds by half of the smallest.
    steps = got.size and 4 * float(np.finfo(want.dtype).smallest_subnormal)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, want, rtol=rtol, atol=max(rtol * min(scale, 1e30), steps))
