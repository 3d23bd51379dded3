"""By what ops run is noted when it is chosen, and the table of it is that of the code."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.lowering import LOWERINGS
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.device import Device
from pyrite.backend.means import BODY, OWN, means_chosen
from pyrite.config import config
from pyrite.op import OPS, Op
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.tensor.creation import tensor
from pyrite.testing import all_records

ROOT = Path(__file__).resolve().parents[2]


def chosen_on(device: Device, op: str) -> set[str]:
    return {c.means for c in means_chosen() if (c.device, c.op) == (device.name, op)}


class Named(InterpreterRuntime):
    """The interpreter under a name that no other test has."""

    name = "interpreter of means"


def test_a_choice_is_noted_once_with_the_kernels_that_were_built() -> None:
    device = Device(CubeBackend(Named()))
    x = tensor(np.ones(5, np.float32), device=device)
    for _ in range(3):
        x.sum()
        x.exp()
    chosen = means_chosen()
    found = {means: chosen[device.name, "sum", means] for means in chosen_on(device, "sum")}

    assert {means: (c.times, c.kernels) for means, c in found.items()} == {"fold": (1, 1)}
    assert chosen_on(device, "exp") == {"scalar"}


@pytest.mark.parametrize(("name", "otherwise"), [("sum", "fold"), ("softmax", BODY)])
def test_rules_only_leaves_out_what_was_written_for_one_op(
    monkeypatch: pytest.MonkeyPatch, name: str, otherwise: str
) -> None:
    def own(launcher: Launcher, op: Op, inputs: Any, attrs: Any, out: Any) -> list[CubeTensor]:
        return [launcher.empty(type) for type in out]

    monkeypatch.setitem(LOWERINGS, name, own)
    found = []
    for rules_only in (False, True):
        monkeypatch.setattr(config, "rules_only", rules_only)
        runtime = type("Named", (InterpreterRuntime,), {"name": f"{name} {rules_only}"})
        device = Device(CubeBackend(runtime()))
        getattr(tensor(np.ones((2, 5), np.float32), device=device), name)()
        found.append(chosen_on(device, name))

    assert found == [{OWN}, {otherwise}]


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_rules_only_leaves_out_what_torch_has_for_ops_and_composites(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pyrite.backend.torch import Torch

    backend = Torch()
    kept = {}
    for rules_only in (False, True):
        monkeypatch.setattr(config, "rules_only", rules_only)
        x = tensor(np.ones((2, 5), np.float32), device=Device(backend))._handle
        kept[rules_only] = [backend.keeps(OPS[n], [x]) for n in ("sum", "softmax", "argsort")]

    # What is sorted has no class, and no body.
    assert kept == {False: [True, True, True], True: [False, False, True]}


@pytest.mark.skipif(find_spec("torch") is None, reason="reads its implementations")
def test_what_stands_beside_a_rule_is_measured_and_faster_somewhere() -> None:
    from pyrite.backend.torch import Torch

    ratios = json.loads((ROOT / "docs" / "design" / "own-ratios.json").read_text())
    records = all_records()
    own = {("cpu", "wgpu"): LOWERINGS, ("torch:cpu",): Torch._implementations}
    greatest = {
        (devices, name): max(max(ratios[d].get(name, [0])) for d in devices)
        for devices, names in own.items()
        for name in names
        if records[name].is_classed
    }

    # What takes many calls at once is not the faster for one.
    slower = {key for key, ratio in greatest.items() if ratio <= 1.03}
    assert slower <= {(("torch:cpu",), "gradient_scaled")}


@pytest.mark.skipif(not (find_spec("torch") and find_spec("candle")), reason="reads all backends")
def test_the_committed_table_of_rule_classes_is_that_of_the_code() -> None:
    command = [sys.executable, ROOT / "scripts" / "rule_table.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
