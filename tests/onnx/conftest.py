"""These tests need the extra `onnx`."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("onnx") else ["test_*.py"]
