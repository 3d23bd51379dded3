"""The backend under test on each runtime that works here."""

from __future__ import annotations

import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.runtime.interpreter import InterpreterRuntime


@pytest.fixture(scope="session")
def interpreter() -> Device:
    """CubeBackend on the interpreter: every access of every kernel is checked."""
    return Device(CubeBackend(InterpreterRuntime()))


@pytest.fixture
def fresh() -> Device:
    """The same, with nothing compiled and nothing in memory."""
    return Device(CubeBackend(InterpreterRuntime()))
