"""Files for readers to read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Write a file of a name, text in UTF-8 or bytes, and return where it is."""

    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
