"""Reads Hugging Face checkpoints: an index that says which safetensors file holds which array.

Large models come as ``model.safetensors.index.json`` beside ``model-00001-of-00004.safetensors``
and so on.  The index is text from strangers, so a shard is a plain file name beside it or an error.
Invariant: only files named in the index's own directory are opened, and a shard only when an array
of it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyrite.errors import RecordError
from pyrite.opening import reader
from pyrite.record.atomic import PathLike
from pyrite.record.mapping import map_file
from pyrite.record.safetensors import MAX_HEADER_BYTES, SafetensorsFile, parse_json
from pyrite.types import Array

INDEX_NAME = "model.safetensors.index.json"


class ShardedCheckpoint(Mapping[str, Array]):
    """A sharded checkpoint's arrays by name; a shard is opened at the first array asked of it.

    ``path`` is the index file, or the directory that holds ``model.safetensors.index.json``.

    Raises RecordError when the index is bad, or shards are missing: all of them in one error.
    """

    @reader("sharded checkpoint", RecordError)
    def __init__(self, path: PathLike) -> None:
        given = Path(path)
        self.path = given / INDEX_NAME if os.path.isdir(given) else given
        self.shard_of = _read_index(self.path)
        self._open: dict[str, SafetensorsFile] = {}
        _require_present(self.path, set(self.shard_of.values()))

    def __getitem__(self, name: str) -> Array:
        shard = self.shard_of[name]
        if shard not in self._open:
            self._open[shard] = SafetensorsFile(self.path.parent / shard)
        if name not in self._open[shard].entries:
            raise RecordError(
                f"index {str(self.path)!r} requires {name!r} in {shard!r}, "
                "got a shard without it; the files are of different checkpoints"
            )
        return self._open[shard][name]

    def __contains__(self, name: object) -> bool:
        return name in self.shard_of  # Mapping's own would open the shard

    def __iter__(self) -> Iterator[str]:
        return iter(self.shard_of)

    def __len__(self) -> int:
        return len(self.shard_of)


@reader("sharded checkpoint", RecordError)
def load_sharded(path: PathLike) -> dict[str, Array]:
    """Return all arrays of a sharded checkpoint by name: read-only views of the mapped shards.

    Raises RecordError when the index or a shard is damaged or missing.
    """
    return dict(ShardedCheckpoint(path))


def _read_index(path: Path) -> dict[str, str]:
    """Return array name -> shard file name."""
    data = map_file(path)
    if len(data) > MAX_HEADER_BYTES:
        raise RecordError(
            f"index {str(path)!r} requires at most {MAX_HEADER_BYTES} bytes, got {len(data)}"
        )
    shards = parse_json(bytes(data), f"index {str(path)!r}").get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise RecordError(f"index {str(path)!r} requires a 'weight_map' of names to file names")
    for name, shard in shards.items():
        if not isinstance(shard, str) or not _is_plain_name(shard):
            raise RecordError(
                f"index {str(path)!r} requires shards that are plain file names beside it, "
                f"got {str(shard)[:80]!r} for {name!r}"
            )
    return shards


def _is_plain_name(shard: str) -> bool:
    """Whether ``shard`` names a file in the same directory on every platform."""
    return shard not in ("", ".", "..") and not any(c in shard for c in "/\\:\0")


def _require_present(index: Path, shards: set[str]) -> None:
    missing = sorted(shard for shard in shards if not os.path.isfile(index.parent / shard))
    if missing:
        raise RecordError(
            f"index {str(index)!r} requires {len(shards)} shards beside it, "
            f"got {len(shards) - len(missing)}; missing: {', '.join(missing[:20])}"
            + (" ..." if len(missing) > 20 else "")
        )
