"""Few long rows, and rows in pieces, are folded part by part: the values of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite import Tensor, custom_op
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.body import region_run as bodies
from pyrite.backend.device import Device
from pyrite.tensor.creation import tensor
from pyrite.types import Array, TensorType

Body = Callable[[Any, Any], Any]

#: Bodies of x and y, and what NumPy makes of them.
CASES: dict[str, tuple[Body, Body]] = {
    "sum of products": (lambda x, y: (x * y).sum(), lambda x, y: (x * y).sum()),
    "mean of squares": (
        lambda x, y: (x - y).square().mean(),
        lambda x, y: np.square(x - y).mean(),
    ),
    "greatest and least": (
        lambda x, y: ((x + y).max(), (x + y).min()),
        lambda x, y: ((x + y).max(), (x + y).min()),
    ),
    "deviation": (lambda x, y: (x - x.mean()).square().mean().sqrt(), lambda x, y: x.std()),
    "place of the greatest": (lambda x, y: (x * y).argmax(), lambda x, y: (x * y).argmax()),
    "a row of each channel": (
        lambda x, y: ((x * y).sum((0, 2)), (x + y).max((0, 2))),
        lambda x, y: ((x * y).sum((0, 2)), (x + y).max((0, 2))),
    ),
    "what is left of a mean": (lambda x, y: x - x.mean(), lambda x, y: x - x.mean()),
}


def op_of(body: Body, want: Any) -> Callable[..., Any]:
    """Return an op of an application that computes what NumPy did."""
    types = tuple(TensorType(np.shape(a), tensor(a).dtype) for a in want)

    @custom_op(body=body, infer=lambda x, y: types if len(types) > 1 else types[0])
    def of_two(x: Tensor, y: Tensor, /) -> Any: ...

    return of_two


def agree(device: Device, name: str, x: Array, y: Array, *, turned: bool) -> None:
    body, judge = CASES[name]
    want = judge(x.astype(np.float64), y.astype(np.float64))
    want = want if isinstance(want, tuple) else (want,)
    integer = name.startswith("place")
    of_two = op_of(body, [np.asarray(a, np.int32 if integer else np.float32) for a in want])
    given = [tensor(a, device=device) for a in (x, y)]
    if turned:
        order = tuple(reversed(range(x.ndim)))
        flipped = [np.ascontiguousarray(a.transpose(order)) for a in (x, y)]
        given = [tensor(a, device=device).permute_dims(order) for a in flipped]
    found = of_two(*given)
    for got, array in zip(found if isinstance(found, tuple) else (found,), want, strict=True):
        np.testing.assert_allclose(got.numpy(), array, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(4, 3, 64), (7, 5, 3), (2, 2, 1), (1, 1, 96)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_rows_in_parts_are_those_of_numpy(
    interpreter: Device, name: str, shape: tuple[int, ...], turned: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Every row is long here, so that all are cut that can be."""
    monkeypatch.setattr(bodies, "LONG", 1)
    rng = np.random.default_rng(sum(shape))
    x, y = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    agree(interpreter, name, x, y, turned=turned)


@pytest.mark.parametrize("parts", [2, 4, 7, 8])
def test_any_number_of_parts_is_right(
    interpreter: Device, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as the first axis is long, more, fewer, and such that divide nothing."""
    monkeypatch.setattr(bodies, "LONG", 1)
    monkeypatch.setattr(bodies, "FEW_GROUPS", parts)
    for shape in ((4, 3, 8), (8, 1, 5), (7, 2, 2), (4,)):
        x, y = (np.random.default_rng(n).normal(size=shape).astype(np.float32) for n in range(2))
        for name in ("sum of products", "deviation", "greatest and least"):
            agree(interpreter, name, x, y, turned=False)


def test_a_long_row_is_cut(fresh: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    monkeypatch.setattr(bodies, "LONG", 256)
    monkeypatch.setattr(bodies, "FEW_GROUPS", 8)
    x, y = (np.arange(1024, dtype=np.float32) % 7 for _ in range(2))
    agree(fresh, "sum of products", x, y, turned=False)

    # The parts, and what they give together: nothing of the length of a row is written.
    assert backend.runtime.report()["launches"] == 2
