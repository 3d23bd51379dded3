"""Other runs in the folder of a run: what it can be compared with."""

from __future__ import annotations

from pathlib import Path


def neighbours(path: Path) -> list[Path]:
    """Return the folders beside a run's that hold events, the latest first."""
    own = path.resolve()
    found: list[tuple[float, Path]] = []
    try:
        folders = list(own.parent.iterdir())
    except OSError:
        return []
    for folder in folders:
        try:
            if folder != own and (folder / "events.jsonl").is_file():
                found.append(((folder / "events.jsonl").stat().st_mtime, folder))
        except OSError:  # what cannot be looked at cannot be read either
            continue
    return [folder for _, folder in sorted(found, reverse=True)]
