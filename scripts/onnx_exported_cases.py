"""Writes what becomes of ONNX's node cases that are imported and exported again.

    python scripts/onnx_exported_cases.py            writes docs/onnx-export.md
    python scripts/onnx_exported_cases.py --check    says whether it is out of date; exits with 1

Each case is loaded, exported, and run by onnxruntime; those that do not get that far are counted by
what stopped them.  Whether the others give what the suite expects, a test judges
(`tests/onnx/export/test_node_cases.py`).  What steers a model, as a shape does, stands in its file.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime
from onnx_table import carried, cases_by_op, with_section

from pyrite import Tensor, nn, tensor
from pyrite.errors import ModelExportError
from pyrite.onnx import OnnxModule, export
from pyrite.onnx.exporter.model import NEWEST_OPSET
from pyrite.onnx.exporter.signature import named_tensors
from pyrite.onnx.inspection import inspect_here
from pyrite.onnx.loading import load_with
from pyrite.types import Array

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "docs" / "onnx-export.md"
BEGIN = "<!-- counted by scripts/onnx_exported_cases.py -->"

#: What stopped a case, by a part of the error's text.  An error of no such text is a fault.
REASONS = {
    "got a random draw": "a random draw",
    "got a read of a tensor's values": "a result whose shape, or a choice that, depends on values",
    "whose result has a shape that depends on values": (
        "a result whose shape, or a choice that, depends on values"
    ),
    "that stacks as many values": "a result whose shape, or a choice that, depends on values",
    "example with tensors, got none": "an empty sequence as input",
    "Could not find an implementation for": "no kernel in onnxruntime for the dtype",
    "can't be converted to MLDataType": "no kernel in onnxruntime for the dtype",
    "No corresponding Numpy type": "no kernel in onnxruntime for the dtype",
}


class Stopped(Exception):
    """A case that does not get as far as its outputs, with one of the reasons."""


class Steered(nn.Module):
    """An imported model whose steering inputs are known."""

    def __init__(self, model: OnnxModule, known: dict[str, Array]) -> None:
        self.model = model
        self.known = known

    def forward(self, **given: Any) -> Any:
        """Run the model."""
        return self.model(**{n: given[n] for n in self.model.inputs if n in given}, **self.known)


def main(arguments: list[str]) -> int:
    """Write the file, or check it; return the exit status."""
    text = with_section(PATH.read_text(), BEGIN, table(counts()))
    if PATH.read_text() == text:
        return 0
    if "--check" in arguments:
        print(f"{PATH.relative_to(ROOT)} is out of date; run scripts/onnx_exported_cases.py")
        return 1
    PATH.write_text(text)
    print(f"wrote {PATH.relative_to(ROOT)}")
    return 0


def counts() -> dict[str, Counter[str]]:
    """Return how many cases each reason stops, by op; those that nothing stops under ""."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for op, cases in cases_by_op().items():
        for case in cases:
            found[stopped(case)][op] += 1
    return found


def stopped(case: Any) -> str:
    """Return what stops a case; "" if nothing does."""
    try:
        outputs(case)
    except Stopped as reason:
        return str(reason)
    return ""


def table(counts: dict[str, Counter[str]]) -> str:
    """Return how many cases are exported, and the table of those that are not."""
    reasons = {reason: of for reason, of in counts.items() if reason}
    left_out = sum(of.total() for of in reasons.values())
    total = sum(of.total() for of in counts.values())
    rows = [
        f"| {reason} | {of.total()} | {', '.join(f'{op} {n}' for op, n in sorted(of.items()))} |"
        for reason, of in sorted(reasons.items(), key=lambda item: -item[1].total())
    ]
    return "\n".join(
        [
            f"Of the {total:,} cases that are imported, {total - left_out:,} give in onnxruntime "
            f"what the suite expects after they were exported; {left_out} do not get there:",
            "",
            "| stopped by | cases | by op |",
            "| --- | ---: | --- |",
            *rows,
        ]
    )


def outputs(case: Any) -> list[tuple[list[Array], list[Array]]]:
    """Return what onnxruntime gives and what is expected, of each data set of a case.

    Raises Stopped.
    """
    try:
        return [_judged(case, given, wanted) for given, wanted in case.data_sets]
    except (ModelExportError, ValueError, RuntimeError, _NOT_IMPLEMENTED) as error:
        reason = next((why for part, why in REASONS.items() if part in str(error)), None)
        if reason is None:
            raise
        raise Stopped(reason) from error


_NOT_IMPLEMENTED = onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented


def _judged(case: Any, given: Any, wanted: Any) -> tuple[list[Array], list[Array]]:
    model = load_with(case.model.SerializeToString(), inspect_here, device="numpy")
    named = {n: carried(v) for n, v in zip(model.inputs, given, strict=False) if v is not None}
    known = {n: np.asarray(v) for n, v in named.items() if n in model.steering}
    example = {n: _lifted(v) for n, v in named.items() if n not in known}
    # A model of constants alone wants an input all the same.
    example = example or {"unused": tensor(0.0)}
    feeds = {n: t.numpy() for n, t in named_tensors(example, "")}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export(Steered(model, known), example, path, opset=NEWEST_OPSET)
        session = onnxruntime.InferenceSession(path, _options(), providers=_PROVIDERS)
    found = session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})
    return found, list(_arrays(wanted))


_PROVIDERS = ["CPUExecutionProvider"]


@cache
def _options() -> Any:
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return options


def _lifted(value: Any) -> Tensor | list[Any]:
    if isinstance(value, list):
        return [_lifted(item) for item in value]
    return tensor(value, device="numpy")


def _arrays(values: Any) -> Any:
    """Give the arrays of outputs, those of a sequence one by one: ONNX's file has them so."""
    for value in values:
        if isinstance(value, list):
            yield from _arrays(value)
        elif value is not None:
            yield carried(value)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main(sys.argv[1:]))
