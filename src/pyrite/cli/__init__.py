"""The command line: ``pyrite train``, ``watch``, ``predict``, ``devices`` and ``doctor``."""

from pyrite.cli.app import main as main

__all__ = ["main"]
