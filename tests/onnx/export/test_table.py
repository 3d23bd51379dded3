"""The table of exported ops in docs/onnx-export.md says what is written."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from pyrite.op import OPS

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = spec_from_file_location("onnx_export_table", ROOT / "scripts" / "onnx_export_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", sorted(n for n, op in OPS.items() if op.body_reads is None))
def test_the_line_of_an_op_is_what_is_written(name: str, script: ModuleType) -> None:
    op = OPS[name]
    if op not in script.written_ops():
        pytest.skip("a gradient, or a step of an optimiser")
    text = (ROOT / "docs" / "onnx-export.md").read_text()

    row = script.row(op)

    assert (row or f"`{name}`") in text
    assert (row is None) == (f"| `{name}` |" not in text)
