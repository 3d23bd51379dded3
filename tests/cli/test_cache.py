"""`pyrite cache`, as its user calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrite.cli.cache import cache
from pyrite.config import config
from pyrite.errors import DeviceError
from pyrite.runtime.cache import DiskCache
from pyrite.runtime.folder import HAS_OWNERS

Shown = pytest.CaptureFixture[str]


def test_it_shows_and_removes_what_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Shown
) -> None:
    monkeypatch.setattr(config, "cache", str(tmp_path / "code"))
    monkeypatch.setattr(config, "cache_megabytes", 7)
    DiskCache(tmp_path / "code").put(bytes(3 << 19), "key")
    cache()
    cache(clear=True)
    cache()
    there = f"{tmp_path / 'code'}"
    assert capsys.readouterr().out.splitlines() == [
        f"{there}: 1 files, 1.5 MB of at most 7.0 MB (PYRITE_CACHE_MEGABYTES)",
        f"removed 1 files, 1.5 MB, from {there}",
        f"{there}: 0 files, 0.0 MB of at most 7.0 MB (PYRITE_CACHE_MEGABYTES)",
    ]


def test_a_cache_that_is_off_says_so(monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
    monkeypatch.setattr(config, "cache", "off")
    cache(clear=True)
    assert capsys.readouterr().out.startswith("off: nothing is kept")


@pytest.mark.skipif(not HAS_OWNERS, reason="folders have no owners here")
def test_a_folder_that_others_can_change_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "code").mkdir()
    monkeypatch.setattr(config, "cache", str(tmp_path / "code"))
    with pytest.raises(DeviceError, match="requires a folder that this user alone can change"):
        cache()
