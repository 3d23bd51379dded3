"""``pyrite devices``: where Pyrite can compute on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, takewhile

import pyrite
from pyrite.backend import Backend, default_device, device
from pyrite.backend.device import device_names, device_problem
from pyrite.errors import DeviceError


@dataclass(frozen=True)
class DeviceReport:
    """A device name, what computes there, and why it does not work here; None when it does."""

    name: str
    problem: str | None
    details: str = ""

    @property
    def works(self) -> bool:
        """Whether it computed a sum."""
        return self.problem is None


def device_reports() -> list[DeviceReport]:
    """Return a report per device name that Pyrite knows, from really computing on it.

    After a name come the further devices of its kind that work: ``wgpu:1``, ``torch:cuda:1``.
    """
    return [report for name in device_names() for report in (_report(name), *_further(name))]


def default_problem() -> str | None:
    """Return why the device that PYRITE_DEVICE names cannot be the default; None when it can."""
    try:
        default_device()
    except DeviceError as error:
        return str(error)
    return None


def devices() -> None:
    """List the devices, and say of each whether it works here, or why not."""
    problem = default_problem()
    default = None if problem else default_device().name
    for report in device_reports():
        note = "default" if report.name == default else ""
        print(
            f"{report.name:<12} {report.problem or 'works':<8} {note:<8} {report.details}".rstrip()
        )
    if problem:
        raise DeviceError(f"PYRITE_DEVICE: {problem}")


def _further(name: str) -> Iterator[DeviceReport]:
    numbered = (_report(f"{name}:{number}") for number in count(1))
    return takewhile(lambda report: report.works, numbered)


def _report(name: str) -> DeviceReport:
    problem = _problem(name)
    return DeviceReport(name, problem, "" if problem else _details(device(name).backend))


def _details(backend: Backend) -> str:
    """Return what computes there, and how many ops NumPy may have to run for it."""
    lacks = f"lacks {len(backend.falls_back)} ops" if backend.falls_back else ""
    return "; ".join(part for part in (backend.details, lacks) if part)


def _problem(name: str) -> str | None:
    if problem := device_problem(name):
        return problem
    # A driver may raise anything, and one that is broken must not hide the others.
    try:
        total = pyrite.full((2, 3), 1.0, device=name).sum().item()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if total == 6 else f"computes wrongly: 2 × 3 ones sum to {total}"
