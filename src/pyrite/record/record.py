"""Checkpoints: arrays by name together with what else a run has to remember, in one file.

A Record is one safetensors file.  Its JSON metadata stands in the header and not in a file beside
it, because only one file can be replaced in one step: two would need a transaction to belong
together after a crash, and one copied without the other would be worthless.  It opens in every
safetensors reader; nothing in it is pickled.  Invariant: ``Record.load`` gives what ``save`` was
given, bit for bit, ties between arrays included.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from pyrite.errors import RecordError
from pyrite.opening import reader
from pyrite.record.atomic import PathLike
from pyrite.record.safetensors import (
    SafetensorsFile,
    brief,
    parse_json,
    read_only,
    save_safetensors,
)
from pyrite.types import Array

#: Raised when an old reader would misread a new file; not for additions that it may ignore.
FORMAT_VERSION = "1"
#: Nesting of metadata: deeper is a mistake, and far below what the JSON reader refuses.
MAX_DEPTH = 64
#: Python converts no number of more than 4300 digits; random states need a few hundred bits.
MAX_INT_BITS = 8192

#: Stands in the metadata of a checkpoint, of which the part "model" is the weights.
CHECKPOINT = "checkpoint"

_VERSION, _METADATA, _ALIASES = "pyrite.record", "pyrite.metadata", "pyrite.aliases"


@dataclass(frozen=True, eq=False)
class Record:
    """Arrays by dotted name, and metadata of JSON values: configuration, step, random state.

    Arrays are held as read-only views, not copied: hand over what nobody writes to any more.  Names
    under which the same array stands (tied weights) are saved once.  Metadata is copied; tuples
    become lists; NaN and infinities are kept, as Python's json writes them, for a run that diverged
    must still be able to save.

    Raises RecordError when metadata holds anything but JSON values, and names where.

    >>> record = Record({"w": np.ones(2)}, {"step": 3})
    >>> record.arrays["w"], record.metadata["step"]
    (array([1., 1.]), 3)
    """

    arrays: Mapping[str, Array]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arrays = {name: read_only(np.asarray(array)) for name, array in self.arrays.items()}
        object.__setattr__(self, "arrays", MappingProxyType(arrays))
        metadata = _json_value(self.metadata, "metadata")
        object.__setattr__(self, "metadata", MappingProxyType(metadata))

    def part(self, name: str) -> Record:
        """Return the record of one part of several in this one: what stands under its name.

        >>> both = Record({"model.w": np.ones(2), "optimizer.w": np.ones(2)}, {"model": {"a": 1}})
        >>> list(both.part("model").arrays), both.part("model").metadata["a"]
        (['w'], 1)
        """
        metadata = self.metadata.get(name)
        return Record(
            {
                path.removeprefix(f"{name}."): array
                for path, array in self.arrays.items()
                if path.startswith(f"{name}.")
            },
            metadata if isinstance(metadata, Mapping) else {},
        )

    def save(self, path: PathLike) -> None:
        """Write one safetensors file that replaces ``path`` as a whole.

        Raises RecordError when the file cannot be written; what was at ``path`` is then unchanged.
        """
        stored, aliases = _untie(self.arrays)
        header = {
            _VERSION: FORMAT_VERSION,
            _METADATA: json.dumps(dict(self.metadata), ensure_ascii=False),
            _ALIASES: json.dumps(aliases, ensure_ascii=False),
        }
        save_safetensors(path, stored, header)

    @classmethod
    @reader("record", RecordError)
    def load(cls, path: PathLike) -> Record:
        """Return the record that was saved at ``path``, read into memory.

        Raises RecordError when the file is missing, damaged, or not a record.
        """
        owner = f"record {os.fspath(path)!r}"
        file = SafetensorsFile(path)
        _require_version(file.metadata, owner)
        arrays = {name: array.copy() for name, array in file.items()}
        metadata = parse_json(file.metadata.get(_METADATA, "{}").encode(), f"{owner} metadata")
        aliases = parse_json(file.metadata.get(_ALIASES, "{}").encode(), f"{owner} aliases")
        for alias, name in aliases.items():
            if alias in arrays or not isinstance(name, str) or name not in file.entries:
                raise RecordError(
                    f"{owner} requires aliases of its arrays, got {brief(alias)} for {brief(name)}"
                )
            arrays[alias] = arrays[name]
        return cls(arrays, metadata)

    def __eq__(self, other: object) -> bool:
        """Whether names, metadata, and the bits of all arrays are equal; NaN equals itself."""
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.arrays.keys() == other.arrays.keys()
            and _canonical(self.metadata) == _canonical(other.metadata)
            and all(same_bits(array, other.arrays[name]) for name, array in self.arrays.items())
        )

    __hash__ = None  # type: ignore[assignment]  # arrays have no hash by value

    def __repr__(self) -> str:
        size = sum(array.nbytes for array in _untie(self.arrays)[0].values())
        keys = ", ".join(map(repr, self.metadata))
        return f"Record({len(self.arrays)} arrays, {size} bytes, metadata: {keys or 'none'})"


def _untie(arrays: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the arrays to store, and alias -> name for those that are the same memory."""
    first: dict[object, str] = {}
    stored: dict[str, Array] = {}
    aliases: dict[str, str] = {}
    for name, array in arrays.items():
        memory = (array.ctypes.data, array.shape, array.strides, array.dtype.name)
        owner = first.setdefault(memory, name) if array.size else name
        if owner == name:
            stored[name] = array
        else:
            aliases[name] = owner
    return stored, aliases


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays are equal in dtype, shape, and every bit."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _canonical(metadata: Mapping[str, Any]) -> str:
    return json.dumps(dict(metadata), sort_keys=True)


def _json_value(value: object, where: str, depth: int = 0) -> Any:
    """Return a copy of ``value`` as JSON would read it back; raise RecordError if it could not."""
    if depth > MAX_DEPTH:
        raise RecordError(f"{where[:60]}... requires values at most {MAX_DEPTH} deep, got deeper")
    if value is None or type(value) in (bool, float, str):
        return value
    if type(value) is int:
        if value.bit_length() > MAX_INT_BITS:
            raise RecordError(f"{where} requires {MAX_INT_BITS}-bit integers, got {brief(value)}")
        return value
    if isinstance(value, list | tuple):
        return [_json_value(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        for name in value:
            if type(name) is not str:
                raise RecordError(f"{where} requires text as keys, got {brief(name)}")
        return {k: _json_value(item, f"{where}.{k}", depth + 1) for k, item in value.items()}
    raise RecordError(
        f"{where} requires JSON values, got {type(value).__name__}; "
        "put arrays into arrays, and convert the rest, for example with float(...)"
    )


def is_record(file: SafetensorsFile) -> bool:
    """Whether a safetensors file was written by `Record.save`."""
    return _VERSION in file.metadata


def _require_version(metadata: Mapping[str, str], owner: str) -> None:
    version = metadata.get(_VERSION)
    if version is None:
        raise RecordError(
            f"{owner} requires a file written by Record.save, got a plain safetensors file; "
            "for its arrays use load_safetensors"
        )
    if version != FORMAT_VERSION:
        raise RecordError(
            f"{owner} requires record format {FORMAT_VERSION}, got {brief(version)}; upgrade pyrite"
        )
