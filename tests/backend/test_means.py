"""By what ops run is noted when it is chosen, and the table of it is that of the code."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.backend.means import OWN, means_chosen
from pyrite.config import config
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.tensor.creation import tensor

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


def test_rules_only_leaves_out_what_was_written_for_one_op(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Other(Named):
        name = "interpreter of rules"

    devices = []
    for rules_only in (False, True):
        monkeypatch.setattr(config, "rules_only", rules_only)
        device = Device(CubeBackend(Named() if rules_only else Other()))
        tensor(np.ones(5, np.float32), device=device).astype("int32")
        devices.append(device)

    assert [chosen_on(device, "astype") for device in devices] == [{OWN}, {"scalar"}]


@pytest.mark.skipif(not (find_spec("torch") and find_spec("candle")), reason="reads all backends")
def test_the_committed_table_of_rule_classes_is_that_of_the_code() -> None:
    command = [sys.executable, ROOT / "scripts" / "rule_table.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
