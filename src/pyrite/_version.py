"""The version of Pyrite: its one home, read by `pyproject.toml` and by `pyrite --version`."""

__version__ = "0.1.0"
