"""Writes as what each op is exported to ONNX into docs/onnx-export.md.

    python scripts/onnx_export_table.py            writes docs/onnx-export.md
    python scripts/onnx_export_table.py --check    says whether it is out of date, then exits with 1

Nothing is read from the exporters: the examples of each op are exported at each opset, and the
table shows the nodes that came of them.  What stands between the two markers is made here; a test
compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx

from pyrite import Tensor, nn, tensor
from pyrite.errors import ModelExportError
from pyrite.onnx import export
from pyrite.onnx.exporter.model import NEWEST_OPSET
from pyrite.onnx.exporter.registry import OLDEST_OPSET
from pyrite.op import Op
from pyrite.testing import Example, all_records, samples_of
from pyrite.types import float32

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "docs" / "onnx-export.md"
BEGIN = "<!-- made by scripts/onnx_export_table.py -->"
END = "<!-- end of what was made -->"

#: Nodes that measure, cast and copy, which say nothing about how an op is written beside others.
_SMALL = frozenset({"Cast", "Shape", "Identity", "Expand", "Reshape", "Unsqueeze", "Squeeze"})

#: Where a list of nodes ends: a body of more is told by how many it has.
_SHOWN = 6


class OneOp(nn.Module):
    """The call of an example."""

    def __init__(self, example: Example) -> None:
        self.example = example
        arrays = example.arrays(float32)
        self.given = tuple(None if isinstance(a, np.ndarray) else a for a in arrays)

    def forward(self, **tensors: Tensor) -> Any:
        """Return the first result of the op, which is all that most have."""
        given = enumerate(self.given)
        return self.example.call([tensors.get(f"x{i}", number) for i, number in given])[0]


def main(arguments: list[str]) -> int:
    """Write the file, or check it; return the exit status."""
    before, _, rest = PATH.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    text = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if PATH.read_text() == text:
        return 0
    if "--check" in arguments:
        print(f"{PATH.relative_to(ROOT)} is out of date; run scripts/onnx_export_table.py")
        return 1
    PATH.write_text(text)
    print(f"wrote {PATH.relative_to(ROOT)}")
    return 0


def table() -> str:
    """Return the table of all ops, and the list of those that are not written."""
    rows = {op.name: row(op) for op in written_ops()}
    missing = [f"`{name}`" for name, found in rows.items() if found is None]
    head = ["| op | as nodes of ONNX |", "| --- | --- |"]
    closing = ["", f"Not written ({len(missing)}): {', '.join(missing)}."]
    return "\n".join([*head, *filter(None, rows.values()), *closing])


def row(op: Op) -> str | None:
    """Return the line of an op; None for one that no opset writes."""
    written = {opset: _nodes(op, opset) for opset in range(OLDEST_OPSET, NEWEST_OPSET + 1)}
    return f"| `{op.name}` | {'; '.join(_by_opset(written))} |" if any(written.values()) else None


def written_ops() -> Iterator[Op]:
    """Give the ops that a forward pass calls: no gradients, no steps of optimisers."""
    for name, op in all_records().items():
        is_for_training = name.endswith(("_backward", "_update", "_gradient"))
        if not is_for_training and op.body_reads is None:
            yield op


def _by_opset(written: dict[int, list[str]]) -> Iterator[str]:
    """Give what an op is written as, with the opset from which on where there are several."""
    opsets = sorted(written)
    for i, opset in enumerate(opsets):
        if i == 0 or written[opset] != written[opsets[i - 1]]:
            since = "" if i == 0 else f"from opset {opset}: "
            yield since + _shown(written[opset])


def _shown(nodes: list[str]) -> str:
    plain = [n for n in dict.fromkeys(nodes) if n not in _SMALL] or list(dict.fromkeys(nodes))
    if len(plain) > _SHOWN:
        return f"{len(nodes)} nodes"
    return ", ".join(plain) or "nothing"


def _nodes(op: Op, opset: int) -> list[str]:
    """Return the nodes of the first example of an op that is written."""
    for number, found in enumerate(samples_of(op)):
        if (nodes := _exported(Example(op, number, found), opset)) is not None:
            return nodes
    return []


def _exported(example: Example, opset: int) -> list[str] | None:
    """Return the nodes of an example, None where it is not written."""
    arrays = example.arrays(float32)
    inputs = {f"x{i}": tensor(a) for i, a in enumerate(arrays) if isinstance(a, np.ndarray)}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        try:
            # Ops without tensors among their inputs want one all the same.
            export(OneOp(example), inputs or {"unused": tensor(0.0)}, path, opset=opset)
        except ModelExportError:
            return None
        return [node.op_type for node in onnx.load(path).graph.node]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
