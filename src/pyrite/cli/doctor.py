"""``pyrite doctor``: what works on this machine, what is missing, and the command that gets it."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass

import typer

from pyrite.backend import default_device
from pyrite.backend.default import PREFERENCE, problem_as_default
from pyrite.cli.devices import default_problem, device_reports
from pyrite.config import config
from pyrite.train.environment import DEPENDENCIES, environment, installed

#: Import names that are not the package's own name.
MODULES = {"Pillow": "PIL"}
#: Optional packages: what each is for, and the extra of Pyrite that brings it.
OPTIONAL = {
    "torch": ("to share tensors with PyTorch, and to judge Pyrite in its tests", "torch"),
    "textual": ("for the dashboard of pyrite train and pyrite watch", "tui"),
    "candle-nn": ("for the device candle; on x86-64 Linux only", "candle"),
}


@dataclass(frozen=True)
class Finding:
    """One line of the report: is it well, missing though optional, or broken; and what to do."""

    state: str
    subject: str
    detail: str
    fix: str | None = None

    def __str__(self) -> str:
        line = f"{self.state:<8} {self.subject:<12} {self.detail}"
        return line if self.fix is None else f"{line}\n{'':<21} get it: {self.fix}"


def doctor() -> None:
    """Check this installation; exits with 1 when something that is needed does not work."""
    found = [*_platform(), *_needed(), *_optional(), *_devices(), *_default()]
    print("\n".join(map(str, found)))
    if any(finding.state == "broken" for finding in found):
        raise typer.Exit(1)


def _platform() -> list[Finding]:
    here = environment()
    return [
        Finding("ok", "pyrite", here["pyrite"]),
        Finding("ok", "python", f"{here['python']} ({sys.executable})"),
        Finding("ok", "platform", f"{here['platform']}, {os.cpu_count()} processors"),
    ]


def _needed() -> list[Finding]:
    return [_package(name) for name in DEPENDENCIES]


def _package(name: str) -> Finding:
    fix = f"{sys.executable} -m pip install --force-reinstall {name}"
    try:
        importlib.import_module(MODULES.get(name, name))
    except Exception as error:  # a broken extension module raises anything
        return Finding("broken", name, f"{type(error).__name__}: {error}", fix)
    return Finding("ok", name, installed(name) or "of unknown version")


def _optional() -> list[Finding]:
    found = []
    for name, (purpose, extra) in OPTIONAL.items():
        version = installed(name)
        fix = None if version else f"{sys.executable} -m pip install 'pyrite[{extra}]'"
        state = "ok" if version else "missing"
        found.append(Finding(state, name, version or f"optional: {purpose}", fix))
    return found


def _devices() -> list[Finding]:
    return [
        Finding("ok", report.name, ": ".join(filter(None, ["device works", report.details])))
        if report.works
        else Finding("missing", report.name, f"device does not work here: {report.problem}")
        for report in device_reports()
    ]


def _default() -> list[Finding]:
    """Say which device is the default, and why not a better one, from trying them anew."""
    if problem := default_problem():
        return [Finding("broken", "default", f"PYRITE_DEVICE: {problem}")]
    if config.device is not None:
        return [Finding("ok", "default", f"{default_device().name}, as PYRITE_DEVICE says")]
    better = PREFERENCE[: PREFERENCE.index(default_device().name)]
    reasons = (f"not {name}: {problem_as_default(name, anew=True)}" for name in better)
    return [Finding("ok", "default", "; ".join([default_device().name, *reasons]))]
