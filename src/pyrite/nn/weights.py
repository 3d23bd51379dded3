"""A module's values to and from files: what stands between `pyrite.record` and modules.

A tied parameter has several paths and one array: any of its names in a file will do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from pyrite.errors import ModuleError, RecordError
from pyrite.opening import open_file
from pyrite.record import Record, fit, load_pytorch, load_sharded, remap
from pyrite.record.atomic import PathLike
from pyrite.record.record import CHECKPOINT, is_record, same_bits
from pyrite.record.remap import Rules
from pyrite.record.safetensors import SafetensorsFile
from pyrite.record.sharded import INDEX_NAME
from pyrite.tensor.creation import tensor
from pyrite.tensor.parameter import Identified
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_map, tree_paths
from pyrite.types import Array, DTypeLike

M = TypeVar("M")

PYTORCH_SUFFIXES = (".pt", ".pth", ".bin")
WEIGHT_SUFFIXES = (".safetensors", *PYTORCH_SUFFIXES)


def record_of(module: Any, metadata: Mapping[str, Any], only: str | None = None) -> Record:
    """Return parameters and states by path.  Tied ones share one array, which a file holds once.

    Raises ModuleError where ``only``, a pattern of paths, matches none.
    """
    arrays: dict[int, Array] = {}
    named = _named(module, only)
    for leaf in named.values():
        if leaf.id not in arrays:
            arrays[leaf.id] = leaf.numpy()
    return Record({path: arrays[leaf.id] for path, leaf in named.items()}, metadata)


def with_arrays(
    module: M,
    arrays: Mapping[str, Array],
    *,
    rules: Rules = (),
    dtype: DTypeLike = "module",
    only: str | None = None,
    partial: bool = False,
    allow_unused: bool = False,
) -> M:
    """Return the module with these values in its parameters and states.

    Raises MatchError with one report of every name, shape and dtype that does not fit.
    """
    named = _named(module, only)
    first: dict[int, str] = {}
    for path, leaf in named.items():
        first.setdefault(leaf.id, path)
    main = {path: first[leaf.id] for path, leaf in named.items()}
    found = _joined(_of_own_names(module, remap(arrays, rules)), main)
    expected = {path: (named[path].shape, named[path].dtype) for path in first.values()}
    fitted, _ = fit(found, expected, dtype=dtype, partial=partial, allow_unused=allow_unused)
    values = {leaf_id: fitted[path] for leaf_id, path in first.items() if path in fitted}

    def loaded(t: Tensor) -> Tensor:
        if not isinstance(t, Identified) or t.id not in values:
            return t
        changed: Tensor = t.with_value(tensor(values[t.id], device=t.device))
        return changed

    return tree_map(loaded, module)


def _of_own_names(module: Any, arrays: dict[str, Array]) -> dict[str, Array]:
    """Return arrays of which those of PyTorch's layers are named and cut as the module's are."""
    for path, part in module.named_modules():
        convert = getattr(part, "from_pytorch", None)
        if convert is None:
            continue
        prefix = f"{path}." if path else ""
        own = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
        others = {n: a for n, a in arrays.items() if not n.startswith(prefix)}
        arrays = others | {f"{prefix}{name}": array for name, array in convert(own).items()}
    return arrays


def _joined(arrays: Mapping[str, Array], main: Mapping[str, str]) -> dict[str, Array]:
    """Return arrays by the first name of each parameter; raise RecordError where two differ."""
    found: dict[str, tuple[str, Array]] = {}
    for name, array in arrays.items():
        target = main.get(name, name)
        if target in found and not same_bits(found[target][1], array):
            raise RecordError(
                f"load requires one value for a parameter with several names, got two that differ "
                f"for {found[target][0]!r} and {name!r}; rename the one that is not meant by rules "
                "and allow_unused=True, or load into a module that does not tie them"
            )
        found.setdefault(target, (name, array))
    return {target: array for target, (_, array) in found.items()}


def read_arrays(path: PathLike) -> Mapping[str, Array]:
    """Return the arrays of a weight file by name, whatever of the known formats it is in.

    Raises RecordError for a file that cannot be read.
    """
    if not isinstance(path, str | os.PathLike):
        raise RecordError(
            f"load requires the path of a file, got {type(path).__name__}; a record is loaded by "
            "load_record, and a run has a best checkpoint where its policy names a goal"
        )
    file = Path(path)
    if is_safetensors(file) or file.suffix == ".safetensors":
        return read_safetensors(file)
    if file.suffix in PYTORCH_SUFFIXES:
        return load_pytorch(file)
    if os.path.isdir(file):
        _require_index(file)
        return load_sharded(file)
    if file.suffix == ".json":
        return load_sharded(file)
    missing = "" if os.path.exists(file) else ", which does not exist"
    raise RecordError(
        f"load requires a .safetensors, .pt, .pth or .bin file, or a sharded checkpoint, got "
        f"{str(file)!r}{missing}"
    )


def arrays_of(record: Record) -> Mapping[str, Array]:
    """Return the weights that a record holds: those of the model, of a training's checkpoint."""
    is_checkpoint = CHECKPOINT in record.metadata and "model" in record.metadata
    return record.part("model").arrays if is_checkpoint else record.arrays


def read_safetensors(path: PathLike) -> Mapping[str, Array]:
    """Return the arrays of a record, or of any other safetensors file, by name.

    The library of the format keeps one of the tensors that share memory, and says in the metadata
    which name stands for which.

    Raises RecordError for a file that cannot be read.
    """
    file = SafetensorsFile(path)
    if is_record(file):
        return arrays_of(Record.load(path))
    shared = {
        name: file[kept]
        for name, kept in file.metadata.items()
        if kept in file.entries and name not in file.entries
    }
    return {**file, **shared}


def _require_index(folder: Path) -> None:
    """Raise RecordError unless a folder is a sharded checkpoint; name the weights that it holds."""
    if (folder / INDEX_NAME).is_file():
        return
    held = sorted(f.name for f in folder.glob("*.safetensors.index.json"))
    held += sorted(f.name for f in folder.iterdir() if f.suffix in WEIGHT_SUFFIXES)
    got = f"got {str(folder)!r} with {', '.join(held[:5]) or 'no weights'}"
    if len(held) > 5:
        got += f" and {len(held) - 5} more"
    fix = f"; load one file: load({str(folder / held[0])!r})" if held else "; name a file"
    raise RecordError(f"load requires a file, or a folder with {INDEX_NAME}, {got}{fix}")


def is_safetensors(file: Path) -> bool:
    """Whether a file is what `Module.save` writes, whatever its name: a size, then JSON."""
    try:
        with open_file(file) as stream:
            return stream.read(9)[8:] == b"{"
    except OSError:
        return False


def _named(module: Any, only: str | None) -> dict[str, Identified]:
    """Return parameters and states by each of their paths that the pattern ``only`` matches."""
    named = dict(_paths(module))
    if only is None:
        return named
    chosen = {path: leaf for path, leaf in named.items() if fnmatchcase(path, only)}
    if not chosen:
        raise ModuleError(
            f"only requires a path of a parameter or state, got {only!r}; it has {', '.join(named)}"
        )
    return chosen


def _paths(module: Any) -> Iterator[tuple[str, Identified]]:
    """Give every path to every parameter and state: tied ones once for each path."""
    for path, leaf in tree_paths(module):
        if isinstance(leaf, Identified):
            yield path, leaf
