"""The list of devices, where there are several of a kind and where there is none."""

from __future__ import annotations

import pytest

from pyrite.backend import Backend, device
from pyrite.cli import devices
from pyrite.config import config
from pyrite.errors import DeviceError


def test_further_devices_of_a_kind_follow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"numpy", "abacus:1", "abacus:2", "abacus:4"}
    monkeypatch.setattr(devices, "device_names", lambda: ["abacus", "numpy"])
    monkeypatch.setattr(devices, "_problem", lambda name: None if name in there else "no beads")
    monkeypatch.setattr(devices, "device", lambda name: device("numpy"))

    found = [(report.name, report.works) for report in devices.device_reports()]

    # Numbers have no gaps, so there is no need to look behind one.
    assert found == [("abacus", False), ("abacus:1", True), ("abacus:2", True), ("numpy", True)]


def test_details_tell_how_many_ops_numpy_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "device_names", lambda: ["numpy"])
    monkeypatch.setattr(Backend, "falls_back", {"argsort": "always", "popcount": "always"})
    monkeypatch.setattr(Backend, "details", "beads")

    (report,) = devices.device_reports()

    assert report.details == "beads; lacks 2 ops"


def test_a_default_that_does_not_work_is_an_error_below_the_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(config, "device", "abacus")
    monkeypatch.setattr(devices, "device_names", lambda: ["numpy"])

    with pytest.raises(DeviceError, match=r"PYRITE_DEVICE: device requires one of .* got 'abacus'"):
        devices.devices()

    assert capsys.readouterr().out.split() == ["numpy", "works"]
