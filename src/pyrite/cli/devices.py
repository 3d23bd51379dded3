"""``pyrite devices``: where Pyrite can compute on this machine."""

from __future__ import annotations

from dataclasses import dataclass

import pyrite
from pyrite.backend import default_device
from pyrite.backend.device import device_names, device_problem


@dataclass(frozen=True)
class DeviceReport:
    """A device name, and why it does not work here; None when it does."""

    name: str
    problem: str | None

    @property
    def works(self) -> bool:
        """Whether it computed a sum."""
        return self.problem is None


def device_reports() -> list[DeviceReport]:
    """Return a report per device name that Pyrite knows, from really computing on it."""
    return [DeviceReport(name, _problem(name)) for name in device_names()]


def devices() -> None:
    """List the devices, and say of each whether it works here, or why not."""
    default = default_device().name
    for report in device_reports():
        note = "default" if report.name == default else ""
        print(f"{report.name:<12} {report.problem or 'works':<8} {note}".rstrip())


def _problem(name: str) -> str | None:
    if problem := device_problem(name):
        return problem
    # A driver may raise anything, and one that is broken must not hide the others.
    try:
        total = pyrite.full((2, 3), 1.0, device=name).sum().item()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if total == 6 else f"computes wrongly: 2 × 3 ones sum to {total}"
