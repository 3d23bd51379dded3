"""Subgroups on a CPU: lanes of a loop, judged by NumPy over rows of as many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.errors import UnsupportedKernelError
from pyrite.extension import kernel
from pyrite.extension.lanes import LANES

WORKGROUPS = 2

#: By name: what an invocation asks for, and what NumPy makes of one subgroup's values.
OPERATIONS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "add": (lambda k, x: k.subgroup_reduce("add", x), lambda r: [r.sum()] * len(r)),
    "mul": (lambda k, x: k.subgroup_reduce("mul", x), lambda r: [r.prod()] * len(r)),
    "min": (lambda k, x: k.subgroup_reduce("min", x), lambda r: [r.min()] * len(r)),
    "max": (lambda k, x: k.subgroup_reduce("max", x), lambda r: [r.max()] * len(r)),
    "scan": (lambda k, x: k.subgroup_scan("add", x), np.cumsum),
    "exclusive": (
        lambda k, x: k.subgroup_scan("max", x, is_inclusive=False),
        lambda r: [_lowest(r), *np.maximum.accumulate(r)[:-1]],
    ),
    "index": (lambda k, x: k.subgroup_shuffle(x, 2), lambda r: [r[2]] * len(r)),
    "xor": (lambda k, x: k.subgroup_shuffle(x, 1, "xor"), lambda r: [r[i ^ 1] for i in _of(r)]),
    "up": (lambda k, x: k.subgroup_shuffle(x, 3, "up"), lambda r: _moved(r, -3)),
    "down": (lambda k, x: k.subgroup_shuffle(x, 2, "down"), lambda r: _moved(r, 2)),
    "broadcast": (lambda k, x: k.subgroup_broadcast(x), lambda r: [r[0]] * len(r)),
}  # fmt: skip


def _lowest(row: Any) -> Any:
    return -np.inf if row.dtype.kind == "f" else np.iinfo(row.dtype).min


def _of(row: Any) -> range:
    return range(len(row))


def _moved(row: Any, by: int) -> list[Any]:
    return [row[i + by] if 0 <= i + by < len(row) else row[i] for i in _of(row)]


def op_of(function: Callable[..., None], size: int) -> Callable[[Tensor], Tensor]:
    made = kernel(workgroup_size=size, grid=lambda *_: (WORKGROUPS,))(function)

    @custom_op(infer=lambda x: x, kernels=[made])
    def op(x: Tensor, /) -> Tensor:
        """An op of that kernel."""
        ...

    return op


@pytest.mark.sample(8)
@pytest.mark.parametrize("size", [64, 24, 4])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_is_that_of_as_many_lanes(name: str, dtype: str, size: int) -> None:
    ask, wanted = OPERATIONS[name]

    def body(k: Any, x: Any, out: Any) -> None:
        i = k.global_id()
        total = ask(k, x[i])
        for _ in range(2):  # a loop that all invocations run
            total = ask(k, x[i])
        out[i] = total

    given = np.random.default_rng(0).integers(-3, 4, WORKGROUPS * size).astype(dtype)
    got = op_of(body, size)(pyrite.tensor(given[::-1].copy(), device="cpu")[::-1]).numpy()

    for workgroup in range(WORKGROUPS):
        for begin in range(0, size, LANES):
            one = slice(workgroup * size + begin, workgroup * size + min(begin + LANES, size))
            np.testing.assert_array_equal(got[one], np.array(wanted(given[one]), dtype))


def test_a_ballot_and_bools() -> None:
    def body(k: Any, x: Any, out: Any) -> None:
        i = k.global_id()
        bits = k.subgroup_ballot(x[i] > 0)
        every = k.subgroup_reduce("and", x[i] > -9)
        out[i] = k.cast(bits[0], "int32") + (1000000 if every else 0) + k.subgroup_lane()

    x = np.random.default_rng(1).integers(-3, 4, 2 * 32).astype(np.int32)
    got = op_of(body, 32)(pyrite.tensor(x, device="cpu")).numpy().reshape(-1, LANES)

    wanted = ((x.reshape(-1, LANES) > 0) << np.arange(LANES)).sum(1)
    np.testing.assert_array_equal(got, wanted[:, None] + 1000000 + np.arange(LANES))


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
def test_a_sum_by_subgroups_runs_on_every_device(device: str) -> None:
    @kernel(workgroup_size=64, grid=lambda x, out: (x.shape[0] // 64,), fill={"out": 0})
    def body(k: Any, x: Any, out: Any) -> None:
        total = k.subgroup_reduce("add", x[k.global_id()])
        if k.subgroup_lane() == 0:
            out.atomic("add", (), total)

    @custom_op(infer=lambda x: pyrite.types.TensorType((), x.dtype), kernels=[body])
    def total(x: Tensor, /) -> Tensor:
        """The sum."""
        ...

    x = np.arange(256, dtype=np.int32)
    try:
        assert total(pyrite.tensor(x, device=device)).item() == x.sum()
    except pyrite.errors.DeviceError as error:
        pytest.skip(str(error))


def test_where_only_some_come_by_the_device_has_none() -> None:
    def body(k: Any, x: Any, out: Any) -> None:
        i = k.global_id()
        out[i] = x[i]
        if x[i] > 0.0:
            out[i] = k.subgroup_reduce("add", x[i])

    with pytest.raises(UnsupportedKernelError, match="all invocations of a grid would have to"):
        op_of(body, 16)(pyrite.ones((32,), device="cpu"))
