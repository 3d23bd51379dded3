"""Writes what is made of ONNX's ops and of the cases of its node suite into docs/onnx.md.

    python scripts/onnx_table.py            writes docs/onnx.md
    python scripts/onnx_table.py --check    says whether it is out of date, and then exits with 1

What stands between markers is made here; a test compares.  A case is left out by its dtypes or its
domain, which are read from its model, and not by whether it passes.  To count what `to-python`
makes of the cases each is written, which takes half a minute.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.defs
from onnx import AttributeProto, TensorProto
from onnx.backend.test.case import node as suite

from pyrite.onnx.converter import CONVERTERS
from pyrite.onnx.inspection import inspect_here
from pyrite.onnx.loading import load  # noqa: F401 - files the converters
from pyrite.onnx.python.writing import written

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "docs" / "onnx.md"
OPS = "<!-- made by scripts/onnx_table.py -->"
PYTHON = "<!-- counted by scripts/onnx_table.py -->"
END = "<!-- end of what was made -->"

#: Where cases are counted whose names tell of no op.
OTHERS = "others"

#: What becomes of a case in Python: without a call of `pyrite.onnx.operator`, or with one.
FORMS = ("plain", "called")

TRAINING = "ai.onnx.preview.training"
#: What no dtype of Pyrite carries, by the first letters of the type's name.
LEFT_OUT = {
    "STRING": "strings",
    "FLOAT8": "8-bit floats",
    "FLOAT6": "6-bit floats",
    "COMPLEX": "complex numbers",
}


def main(arguments: list[str]) -> int:
    """Write the file, or check it; return the exit status."""
    text = wanted()
    if PATH.read_text() == text:
        return 0
    if "--check" in arguments:
        print(f"{PATH.relative_to(ROOT)} is out of date; run scripts/onnx_table.py")
        return 1
    PATH.write_text(text)
    print(f"wrote {PATH.relative_to(ROOT)}")
    return 0


def wanted() -> str:
    """Return the text that the file should have."""
    text = PATH.read_text()
    for begin, made in ((PYTHON, python(python_counts())), (OPS, f"{exclusions()}\n\n{ops()}")):
        text = with_section(text, begin, made)
    return text


def with_section(text: str, begin: str, made: str) -> str:
    """Return a text with what stands between a marker and the next end replaced."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(END)
    return f"{before}{begin}\n{made}\n{END}{after}"


def section(text: str, begin: str) -> str:
    """Return what stands between a marker and the next end."""
    return text.partition(begin)[2].partition(END)[0].strip("\n")


# ---- cases of the node suite ----


def modules() -> list[str]:
    """Return the modules that the cases of ONNX's node suite stand in."""
    prefix = f"{suite.__name__}."
    return sorted(module.name for module in pkgutil.walk_packages(suite.__path__, prefix))


@cache
def cases_of(module: str) -> tuple[Any, ...]:
    """Return the cases of a module, which are made when it is imported.

    As `collect_testcases` makes them, of all modules, which takes ten seconds.
    """
    before = len(suite._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, from the making of some expected values
        importlib.import_module(module)
    return tuple(suite._NodeTestCases[before:])


def cases() -> list[Any]:
    """Return the cases of ONNX's node suite."""
    return [case for module in modules() for case in cases_of(module)]


#: The dtypes that carry those of few bits.
CARRIERS = {
    np.dtype(ml_dtypes.int4): np.int8,
    np.dtype(ml_dtypes.int2): np.int8,
    np.dtype(ml_dtypes.uint4): np.uint8,
    np.dtype(ml_dtypes.uint2): np.uint8,
    np.dtype(ml_dtypes.float4_e2m1fn): np.float32,
}


def carried(value: Any) -> Any:
    """Return a value of the suite as Pyrite has it."""
    if isinstance(value, list):
        return [carried(item) for item in value]
    if isinstance(value, TensorProto):
        return carried(onnx.numpy_helper.to_array(value))
    if value is None:
        return None
    array = np.asarray(value)
    return array.astype(CARRIERS.get(array.dtype, array.dtype))


def exclusion(model: Any) -> str | None:
    """Return why a model is left out: a domain, or a type that it uses; None if it is not."""
    if any(node.domain == TRAINING for node in model.graph.node):
        return "training ops"
    names = {TensorProto.DataType.Name(number) for number in _types(model.graph)}
    for prefix, reason in LEFT_OUT.items():
        if any(name.startswith(prefix) for name in names):
            return reason
    return None


def _types(graph: Any) -> Iterator[int]:
    """Give the numbers of the element types that a graph names."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield from _element_types(value.type)
    for tensor in graph.initializer:
        yield tensor.data_type
    for node in graph.node:
        for attribute in node.attribute:
            yield from _attribute_types(attribute)


def _element_types(of: Any) -> Iterator[int]:
    kind = of.WhichOneof("value")
    if kind == "tensor_type":
        yield of.tensor_type.elem_type
    elif kind in ("sequence_type", "optional_type"):
        yield from _element_types(getattr(of, kind).elem_type)


def _attribute_types(attribute: Any) -> Iterator[int]:
    if attribute.type == AttributeProto.TENSOR:
        yield attribute.t.data_type
    elif attribute.type == AttributeProto.GRAPH:
        yield from _types(attribute.g)
    elif attribute.name in ("to", "dtype", "output_dtype"):
        yield attribute.i


def exclusions() -> str:
    """Return the table of cases that are left out."""
    found: Counter[str] = Counter()
    by_op: dict[str, Counter[str]] = defaultdict(Counter)
    total = 0
    for case in cases():
        total += 1
        reason = exclusion(case.model)
        if reason is not None:
            found[reason] += 1
            by_op[reason][op_of(case)] += 1
    left_out = sum(found.values())
    rows = [
        f"| {reason} | {count} | {_listed(by_op[reason])} |"
        for reason, count in found.most_common()
    ]
    return "\n".join(
        [
            f"Of the {total:,} cases of the node suite of onnx {onnx.__version__}, {left_out} are "
            f"left out ({left_out / total:.1%}), and all others pass.",
            "",
            "| left out for | cases | by op |",
            "| --- | ---: | --- |",
            *rows,
        ]
    )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{op} {count}" for op, count in sorted(counts.items()))


def op_of(case: Any) -> str:
    """Return the op that a case is for: the longest that its name begins with, or has in it."""
    name = case.name.replace("_", "").lower().removeprefix("test")
    by_length = sorted(_all_ops(), key=lambda op: (-len(op), op))
    found = next((op for op in by_length if name.startswith(op.lower())), None)
    own = {node.op_type for node in case.model.graph.node}
    return found or next((op for op in by_length if op in own and op.lower() in name), OTHERS)


@cache
def _all_ops() -> frozenset[str]:
    return frozenset(schema.name for schema in onnx.defs.get_all_schemas_with_history())


# ---- cases as Python ----


def cases_by_op() -> dict[str, list[Any]]:
    """Return the cases that are imported, by the op that they are for."""
    found: dict[str, list[Any]] = defaultdict(list)
    for case in cases():
        if exclusion(case.model) is None:
            found[op_of(case)].append(case)
    return dict(sorted(found.items()))


def python_counts() -> dict[str, Counter[str]]:
    """Return how many cases of each op take each form in Python."""
    return {op: Counter(map(form, of)) for op, of in cases_by_op().items()}


def form(case: Any) -> str:
    """Return what becomes of a case in Python."""
    text = written(case.model.SerializeToString(), inspect_here).text
    return "called" if "\nfrom pyrite.onnx import operator\n" in text else "plain"


def python(counts: dict[str, Counter[str]]) -> str:
    """Return how many cases are written as Python, with those of each op."""
    total = sum(counts.values(), Counter[str]())
    return "\n".join(
        [
            f"`pyrite onnx to-python` writes all {total.total():,} cases that are imported, "
            f"{total['plain']} of them without a call of `pyrite.onnx.operator`.",
            "",
            "| cases of | without such a call | with one |",
            "| --- | ---: | ---: |",
            *(python_row(op, of) for op, of in counts.items()),
        ]
    )


def python_row(op: str, counts: Counter[str]) -> str:
    """Return the line of an op in the table of `python`."""
    return f"| {op} | {' | '.join(str(counts[form]) for form in FORMS)} |"


# ---- ops ----


def ops() -> str:
    """Return the table of ops by domain: from which opset on, and how."""
    schemas: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        schemas[schema.domain, schema.name].append(schema)
    rows = [_row(domain, op, schemas[domain, op]) for domain, op in sorted(schemas)]
    counts = Counter(row.split("|")[-2].strip().split(",")[0] for row in rows)
    summary = ", ".join(f"{count} {how}" for how, count in sorted(counts.items()))
    return "\n".join(
        [
            f"## Ops\n\nOf {len(rows)} ops: {summary}.",
            "",
            "| op | versions of the specification | converters from | how |",
            "| --- | --- | --- | --- |",
            *rows,
        ]
    )


def _row(domain: str, op: str, schemas: list[Any]) -> str:
    versions = sorted(schema.since_version for schema in schemas)
    converters = CONVERTERS.get((domain, op))
    name = f"{domain}.{op}" if domain else op
    first = ", ".join(str(c.since) for c in converters) if converters else ""
    return f"| {name} | {', '.join(map(str, versions))} | {first} | {_how(schemas, converters)} |"


def _how(schemas: list[Any], converters: Any) -> str:
    if converters:
        return "converted"
    newest = max(schemas, key=lambda schema: schema.since_version)
    if newest.has_function or newest.has_context_dependent_function:
        return "expanded"
    return "part of a graph" if newest.name == "Constant" else "not imported"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
