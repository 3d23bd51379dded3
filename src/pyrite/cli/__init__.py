"""The command line: ``pyrite train``, ``predict``, ``devices`` and ``doctor``."""

from pyrite.cli.app import main as main

__all__ = ["main"]
