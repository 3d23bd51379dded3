"""`to_python`: a model's graph as a file of Python, and its weights beside it."""

from __future__ import annotations

import builtins
import keyword
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pyrite.errors import ArgumentError, ModelImportError, PyriteError
from pyrite.onnx.graph import Graph, ValueType
from pyrite.onnx.inspection import Inspection, inspect_apart
from pyrite.onnx.loading import require_supported
from pyrite.onnx.message import said
from pyrite.onnx.naming import identifier
from pyrite.onnx.optimization import pruned
from pyrite.onnx.python import control as control  # translators file themselves
from pyrite.onnx.python import elementwise as elementwise
from pyrite.onnx.python import layer as layer
from pyrite.onnx.python import movement as movement
from pyrite.onnx.python import recurrent as recurrent
from pyrite.onnx.python import resizing as resizing
from pyrite.onnx.python import sizes as sizes
from pyrite.onnx.python.body import with_own_names
from pyrite.onnx.python.classes import Classes
from pyrite.onnx.python.code import Anchor, Imported, Local, Member, Operator, Part, literal, local
from pyrite.onnx.python.draft import Draft
from pyrite.onnx.python.finding import with_patterns, without_aliases
from pyrite.onnx.python.layout import broken
from pyrite.onnx.python.member import LayerMember, Members
from pyrite.onnx.python.module import ANCHOR, Body, Element, Reader
from pyrite.onnx.python.step import Step, needed
from pyrite.onnx.python.translation import constants, translated
from pyrite.onnx.python.tree import grown
from pyrite.onnx.python.value import TENSOR, UNKNOWN, Variable
from pyrite.onnx.reading import read_graph, read_model
from pyrite.op import public
from pyrite.opening import PathLike
from pyrite.record import atomic_write, save_safetensors
from pyrite.types import Array

MODEL, WEIGHTS = "model.py", "model.safetensors"


@public
def to_python(source: PathLike | bytes, out_dir: PathLike, *, force: bool = False) -> Path:
    """Write a model as ``model.py`` and ``model.safetensors`` into a folder; return the first.

    The file has a `Module` whose layers are found again in the graph, under the names that the
    graph has for them, and a function ``load`` that gives it with its weights.  Its outputs are
    those of the imported graph, but for the rounding of what is one op here and several there.

    force: replace the files of a folder that has others.

    Raises ModelImportError with one list of all that cannot be written as Python, and ArgumentError
    for a folder that holds something else.
    """
    return write_with(source, out_dir, inspect_apart, force=force)


def write_with(
    source: PathLike | bytes, out_dir: PathLike, inspection: Inspection, *, force: bool = False
) -> Path:
    """Write a model as `to_python` does, with ONNX's native code run in a way of the caller's."""
    folder = Path(out_dir)
    _require_free(folder, force)
    name = "" if isinstance(source, bytes) else Path(os.fspath(source)).name
    found = written(source, inspection, name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_safetensors(folder / WEIGHTS, found.weights)
        with atomic_write(folder / MODEL) as file:
            file.write(found.text.encode())
    except OSError as error:
        raise ArgumentError(f"to_python requires a folder that can be written: {error}") from None
    return folder / MODEL


def _require_free(folder: Path, force: bool) -> None:
    if force or not folder.exists():
        return
    if not folder.is_dir():
        raise ArgumentError(f"to_python requires a folder, got the file {str(folder)!r}")
    others = sorted({f.name for f in folder.iterdir()})
    if others:
        raise ArgumentError(
            f"to_python requires an empty folder, got {str(folder)!r} with {others[0]!r}; "
            "name another, or replace its model.py and model.safetensors by force=True, --force"
        )


@dataclass(frozen=True, slots=True)
class GeneratedModule:
    """A generated file, and its weights by name."""

    text: str
    weights: dict[str, Array]


def written(source: PathLike | bytes, inspection: Inspection, name: str = "") -> GeneratedModule:
    """Return a model as Python.  Raises ModelImportError."""
    try:
        graph = read_graph(*read_model(source), inspection)
        require_supported(graph)
        graph = with_own_names(without_aliases(pruned(graph)))
        return _source(with_patterns(graph, constants(graph)), name)
    except PyriteError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError,
            MemoryError, AssertionError) as error:  # fmt: skip
        raise ModelImportError(
            f"to_python requires a whole model, got one with {said(error)}"
        ) from error


def _source(graph: Graph, name: str) -> GeneratedModule:
    draft = translated(graph)
    outputs = _outputs(graph, draft)
    if draft.problems:
        problems = tuple(dict.fromkeys(draft.problems))
        raise ModelImportError(
            f"to_python requires ops that can be written as Python, got {len(problems)} that "
            f"cannot: {'; '.join(problems)}",
            problems,
        )
    steps = needed(draft.steps, outputs)
    members = draft.members
    tree = grown(steps, members, graph.inputs, outputs)
    kinds = {t: k for s in steps for t, k in zip(s.targets, s.kinds, strict=True)}
    for each in graph.inputs:
        kinds[each] = TENSOR if graph.types.get(each, ValueType()).kind == "tensor" else UNKNOWN
    words = _Words(steps)
    given = _parameter_names(graph.inputs, words.reserved)
    reader = Reader(
        tree.paths, kinds, words.spell, words.reserved, members.layers, members.held, given
    )
    root = reader.body(tree.root)
    classes = Classes(root, "Model", words.spell, words.reserved)
    text = _File(graph, name, classes, words, root).text()
    return GeneratedModule(text, _weights(reader, members))


def _outputs(graph: Graph, draft: Draft) -> list[str]:
    """Return the values that are returned, each a variable of its own."""
    found: list[str] = []
    for position, name in enumerate(graph.outputs):
        value = draft.values[name]
        is_tensor = graph.types.get(name, ValueType()).kind == "tensor"
        is_own = isinstance(value, Variable) and value.code == local(name) and name not in found
        if is_own and isinstance(value, Variable) and (value.kind == TENSOR or not is_tensor):
            found.append(name)
            continue
        made = f"{name}:out{position}"
        if isinstance(value, Variable) and not is_tensor:
            draft.steps.append(Step((made,), value.code, None, (value.kind,)))
        else:
            draft.steps.append(Step((made,), draft.tensor(value)))
        found.append(made)
    return found


def _parameter_names(inputs: Iterable[str], reserved: frozenset[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in inputs:
        wanted = identifier(name)
        while wanted in found.values() or wanted in reserved:
            wanted += "_"
        found[name] = wanted
    return found


def _weights(reader: Reader, members: Members) -> dict[str, Array]:
    """Return the arrays of the file by the names that the generated module has for them."""
    found: dict[str, Array] = {}
    for key, path in reader.files.items():
        name = ".".join(path)
        if key in members.layers:
            layer = members.layers[key]
            for each, read in layer.weights.items():
                found[f"{name}.{each}"] = np.ascontiguousarray(read())
            if layer.name.startswith("BatchNorm"):
                found[f"{name}.num_batches_tracked"] = np.zeros((), np.int32)
        else:
            array = members.held[key].read()
            found[name] = np.ascontiguousarray(array).reshape(array.shape)
    return found


class _Words:
    """The names that a file has for what it imports, and for ops of ONNX."""

    def __init__(self, steps: Iterable[Step]) -> None:
        parts = [part for step in steps for part in step.walk()]
        self.imported = {part for part in parts if isinstance(part, Imported)}
        self.operators: dict[Operator, str] = {}
        names = {part.name for part in self.imported} | _FIXED
        for part in parts:
            if isinstance(part, Operator) and part not in self.operators:
                name = _snake(part.op)
                while name in names or keyword.iskeyword(name) or hasattr(builtins, name):
                    name += "_"
                names.add(name)
                self.operators[part] = name
        self.reserved = frozenset({*names, *keyword.kwlist, *keyword.softkwlist, *dir(builtins)})

    def spell(self, part: Part) -> str:
        """Return how a part is written, but for values and members."""
        if isinstance(part, Operator):
            return self.operators[part]
        if isinstance(part, Anchor):
            return ANCHOR
        if isinstance(part, Imported):
            self.imported.add(part)
            return _imported(part)
        assert isinstance(part, str), f"{part} has no name here"
        return part


#: Names that a file may import besides.
_FIXED = {"Tensor", "Module", "Path", "Any", "np", "math", "pyrite", "operator", "load", "self",
          "Parameter", "State", "zeros", "nn", "Sequential"}  # fmt: skip


def _imported(part: Imported) -> str:
    if part.module == "numpy":
        return "np"
    if part.module == "math":
        return "math"
    return f"pyrite.{part.name}" if hasattr(builtins, part.name) else part.name


def _snake(name: str) -> str:
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return identifier(split).lower()


@dataclass(slots=True)
class _File:
    """The text of a file."""

    graph: Graph
    name: str
    classes: Classes
    words: _Words
    root: Body

    def text(self) -> str:
        """Return the whole file."""
        classes = [self.classes.text(each) for each in self.classes]
        top = self.classes.of(self.root).name
        body = "\n\n\n".join("\n".join(rows) for rows in classes)
        parts = [self._title(), "", self._imports(body), *self._operators(), "", "", body, "", ""]
        parts += [
            f"def load() -> {top}:",
            '    """Return the model with its weights, which lie beside this file."""',
            f'    path = Path(__file__).with_name("{WEIGHTS}")',
            f'    return {top}().load(path, dtype="file")' if self._has_weights()
            else f"    return {top}()",
            "",
        ]  # fmt: skip
        if not self._has_weights():
            parts = [p for p in parts if "with_name" not in p]
        return "\n".join(parts)

    def _has_weights(self) -> bool:
        return bool(self.root.fields)

    def _title(self) -> str:
        name = re.sub(r"[^0-9A-Za-z._ -]+", "_", self.name)[:60]
        return f'"""The model of {name or "an ONNX graph"}, by `pyrite onnx to-python`."""'

    def _imports(self, body: str) -> str:
        bare = re.sub(r'"[^"\n]*"', '""', body)
        words = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", bare))
        standard = ["import math"] if "math" in words else []
        standard += ["from pathlib import Path"] if self._has_weights() else []
        standard += ["from typing import Any"] if "Any" in words else []
        plain = ["import numpy as np"] if "np" in words else []
        plain += ["import pyrite"] if "pyrite" in words else []
        names = {p.name for p in self.words.imported if p.module == "pyrite"}
        names = {n for n in names if not hasattr(builtins, n)} | {
            "Tensor",
            "Parameter",
            "State",
            "zeros",
        }
        rows = _from("pyrite", [n for n in names if n in words])
        layers = {e.name for e in _layers(self.root)} | {"Module", "Sequential"}
        rows += _from("pyrite.nn", [n for n in layers if n in words])
        rows += _from("pyrite.onnx", ["operator"]) if self.words.operators else []
        blocks = [standard, [*plain, *rows]]
        return "\n\n".join("\n".join(block) for block in blocks if block)

    def _operators(self) -> list[str]:
        rows = []
        for part, name in self.words.operators.items():
            given = [_quoted(part.op), str(part.version)]
            given += [f"domain={_quoted(part.domain)}"] if part.domain else []
            given += [f"outputs={part.outputs}"] if part.outputs != 1 else []
            given += [f"elements={_tuple(part.elements)}"] if part.elements else []
            rows += broken(f"{name} = operator(", given, ")")
        return ["", *rows] if rows else []


def _tuple(texts: Sequence[str]) -> str:
    return f"({', '.join(map(_quoted, texts))}{',' if len(texts) == 1 else ''})"


def _quoted(text: str) -> str:
    return str(literal(text).parts[0])


def _from(module: str, names: Iterable[str]) -> list[str]:
    ordered = sorted(names, key=_isort)
    if not ordered:
        return []
    line = f"from {module} import {', '.join(ordered)}"
    if len(line) <= 88:
        return [line]
    return [f"from {module} import (", *(f"    {name}," for name in ordered), ")"]


def _isort(name: str) -> tuple[int, str]:
    """Return the place of a name among imports: constants, classes, others."""
    rank = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    return rank, name


def _layers(body: Body) -> list[LayerMember]:
    found: list[LayerMember] = []

    def visit(element: Element) -> None:
        if element.layer is not None:
            found.append(element.layer)
        for item in element.items:
            visit(item)
        if element.body is not None:
            for inner in element.body.fields.values():
                visit(inner)

    for element in body.fields.values():
        visit(element)
    return found


__all__ = ["Local", "Member", "to_python", "write_with", "written"]
