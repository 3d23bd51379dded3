"""Sizes that are drawn find their kernels, in the calls that benchmarks/new_size_cases.py draws.

Each op meets two sizes, and after a pause others.  Kernels are made for processors and for GPUs,
and run nowhere: which are asked for is counted.
"""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import optim  # noqa: F401  the ops of optimisers are known once it is imported
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube import ahead as module
from pyrite.backend.device import Device
from pyrite.config import config
from pyrite.kernel import Kernel
from pyrite.kernel.machine import Machine
from pyrite.op import OPS, Spec
from pyrite.runtime.interpreter import InterpretedKernel, InterpreterRuntime
from pyrite.testing import Example

PATH = Path(__file__).parents[4] / "benchmarks" / "new_size_cases.py"
FAMILIES = runpy.run_path(str(PATH))["FAMILIES"]
CASES = {name: case for cases in FAMILIES.values() for name, case in cases.items()}
MACHINES = {
    "cpu": Machine.cpu(),
    "gpu": Machine.gpu(32768, 1024, buffers=32, rounds=65535, argument_bytes=128, most_joined=1),
}
#: How many sizes come after the first two.
SIZES = 6

#: Cases with kernels of which one may be asked for by a size that no rehearsal met, and why.
TILES = "tiles are whole or cut at each side, with vectors that fit or not: some mixtures are rare"
PARTS = "a sum in parts has its own kernels by how many and whether they are whole"
STEPS = "a recurrent layer has kernels by the rows of a batch that go together"
RECURRENT = {
    name: STEPS for name, case in CASES.items() if case.op.startswith(("rnn", "gru", "lstm"))
}
LEFT: dict[str, dict[str, str]] = {
    "cpu": {
        **RECURRENT,
        "sum of all": PARTS,
    },
    "gpu": {
        **{
            name: TILES for name, case in CASES.items()
            if ("conv" in name and name != "conv_transpose1d") or "attention" in name
            or case.op in ("matmul", "linear", "linear_backward")
        },
        **RECURRENT,
        "sum of all": PARTS,
    },
}  # fmt: skip
#: They launch nothing.
VIEWS = {"split_heads"}
WANTED = [
    (kind, name) for kind, left in LEFT.items() for name in CASES if name not in VIEWS.union(left)
]  # fmt: skip


class Idle(InterpreterRuntime):
    """A device that runs no kernel."""

    name = "idle"

    def compile(self, kernel: Kernel) -> InterpretedKernel:
        """Return the kernel, which is not verified."""
        return InterpretedKernel(kernel)

    def launch(self, *_: Any) -> None:
        """Run nothing."""


@pytest.fixture(autouse=True)
def _ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "ahead", True)
    monkeypatch.setattr(module, "PAUSE", 0.0)


@pytest.fixture(params=WANTED, ids=" ".join)
def counted(request: pytest.FixtureRequest) -> Iterator[list[int]]:
    """Return how many kernels each of some sizes asked for that had to be made."""
    kind, name = request.param
    backend = CubeBackend(Idle(MACHINES[kind]))
    device, case, rng = Device(backend), CASES[name], Random(name)
    found = []
    for _ in range(2 + SIZES):
        example = Example(OPS[case.op], 0, case.draw(rng))
        inputs = [empty(x, device) if isinstance(x, Spec) else x for x in example.sample.inputs]
        before = backend.launcher.kernels
        example.call(inputs, device)
        found.append(backend.launcher.kernels - before)
        backend.launcher.ahead.finish()
    yield found
    backend.launcher.ahead.stop()


def empty(spec: Spec, device: Device) -> pyrite.Tensor:
    """Return zeros as an example wants them."""
    dtype = {"float": "float32", "int": "int32", "uint": "uint32", "bool": "bool"}[spec.kind]
    return pyrite.tensor(np.zeros(spec.shape, dtype), device=device)


@pytest.mark.sample(6)
def test_sizes_that_are_drawn_make_no_kernels(counted: list[int]) -> None:
    first, _, *others = counted
    assert first > 0
    assert others == [0] * SIZES


def test_no_case_is_left_out_that_is_none() -> None:
    assert {name for left in LEFT.values() for name in left} <= CASES.keys()
