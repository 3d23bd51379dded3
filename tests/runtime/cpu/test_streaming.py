"""Outputs past the caches: what is too large to stay in them is stored so, wherever it lies."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.kernel import KernelBuilder
from pyrite.kernel.extents_of_stores import extents_of_stores
from pyrite.kernel.ir import scalar
from pyrite.kernel.target.llvm import to_llvm
from pyrite.runtime.cpu.config import CpuConfig
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.symbol import Symbols
from pyrite.types import float32

CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "layer_norm": lambda x: x.layer_norm(),
    "instance_norm": lambda x: x.reshape((1, *x.shape)).instance_norm(),
    "interpolate": lambda x: x.reshape((1, 1, *x.shape)).interpolate(scale_factor=2),
    "pad": lambda x: x.pad(((1, 0), (0, 3))),
    "add": lambda x: x + 1,
}
VIEWS: list[Callable[[Tensor], Tensor]] = [lambda x: x, lambda x: x[::2, ::-1].mT]


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The code that is compiled from now on."""
    found: list[str] = []

    def noted(*args: Any, **kwargs: Any) -> str:
        found.append(to_llvm(*args, **kwargs))
        return found[-1]

    monkeypatch.setattr("pyrite.runtime.cpu.runtime.to_llvm", noted)
    return found


def streaming(folder: Any) -> Device:
    """Return a processor that stores nearly all past its caches, and has compiled nothing yet."""
    return Device(CubeBackend(CpuRuntime(config=CpuConfig(streamed=256), cache=folder)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.sample(1)
def test_rows_of_any_length_one_after_another_are_right(tmp_path: Any, dtype: str) -> None:
    device = streaming(tmp_path)
    bound = {"float32": 1e-5, "bfloat16": 0.05, "int8": 0}[dtype]
    # All but the first run what the first compiled, or a form of it for other multiples.
    for name, length in product(CALLS, (64, 33, 48, 1)):
        if dtype == "int8" and "norm" in name:
            continue
        values = np.random.default_rng(length).integers(-9, 9, (12, length)).astype(np.float32)
        for view in VIEWS:
            x = pyrite.tensor(values, device="numpy").astype(dtype)
            want = CALLS[name](view(x)).astype("float32").numpy()
            found = CALLS[name](view(x.to(device))).astype("float32").numpy()
            np.testing.assert_allclose(found, want, bound, bound, err_msg=f"{name} {length}")


@pytest.mark.parametrize(("length", "is_past"), [(64, True), (48, True), (33, False), (40, False)])
def test_whole_vectors_go_past_the_caches_also_where_sizes_are_given_at_launch(
    tmp_path: Any, texts: list[str], length: int, is_past: bool
) -> None:
    device = streaming(tmp_path)
    if device.backend.runtime.target.vector_bytes != 64:  # type: ignore[attr-defined]
        pytest.skip("vectors of other sizes begin at other multiples")
    pyrite.ones((4, 80), device=device).layer_norm().numpy()
    texts.clear()
    pyrite.ones((6, length), device=device).layer_norm().numpy()
    norms = [text for text in texts if "llvm.sqrt" in text]
    assert any("nontemporal" in text for text in norms) is is_past


def test_what_places_are_multiples_of_is_found_through_loops_and_sums() -> None:
    symbols = Symbols()
    rows, stride, length, lines = (symbols.symbol(n) for n in (3, 64, 60, 5))
    b = KernelBuilder("store")
    x, y = b.buffer("x", float32, "write"), b.buffer("y", float32, "write")
    row = b.workgroup_id(0)
    with b.if_(row < rows), b.for_(length, 2 * length) as loop:
        x.store(row % lines * stride + loop.index, b.const(1.0, scalar(float32)))
        y.store(row, b.const(1.0, scalar(float32)))
    kernel = b.build()
    texts = {argument.position: argument.text for argument in symbols.arguments}
    assert {texts[n] for n in extents_of_stores(kernel, [0])} == {"n1", "n2"}
    assert extents_of_stores(kernel, [1]) == ()
