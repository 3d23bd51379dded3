"""The doctor's findings about installations that this one is not."""

from __future__ import annotations

import pytest
import typer

from pyrite.backend import device
from pyrite.cli import devices, doctor


def test_a_missing_option_comes_with_the_command_that_gets_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "OPTIONAL", {"no-such-package": ("for nothing", "torch")})
    doctor.doctor()
    shown = capsys.readouterr().out
    assert "missing  no-such-package optional: for nothing" in shown
    assert "-m pip install 'pyrite[torch]'" in shown


def test_a_broken_dependency_is_a_failure_with_a_fix(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "DEPENDENCIES", ("no_such_package",))
    with pytest.raises(typer.Exit) as caught:
        doctor.doctor()
    assert caught.value.exit_code == 1
    shown = capsys.readouterr().out
    assert "broken   no_such_package ModuleNotFoundError" in shown
    assert "pip install --force-reinstall no_such_package" in shown


def test_a_device_that_does_not_work_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "device_names", lambda: ["numpy", "abacus"])
    numpy, abacus = devices.device_reports()
    assert numpy.works
    assert abacus.problem is not None
    assert abacus.problem.startswith("device requires one of")


def test_the_default_is_said_with_what_is_wrong_with_better_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor.config, "device", None)
    monkeypatch.setattr(doctor, "problem_as_default", lambda name, anew: f"{name} burns")
    monkeypatch.setattr(doctor, "default_device", lambda: device("cpu"))
    doctor.doctor()
    assert "default      cpu; not wgpu: wgpu burns" in capsys.readouterr().out


def test_a_default_that_does_not_work_is_a_finding_among_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor.config, "device", "abacus")
    with pytest.raises(typer.Exit):
        doctor.doctor()
    shown = capsys.readouterr().out
    assert "ok       numpy        device works" in shown
    assert "broken   default      PYRITE_DEVICE: device requires one of" in shown
