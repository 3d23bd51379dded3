"""The guide's Python runs as it stands, page by page."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import pytest

from pyrite.backend.device import device_problem

GUIDE = Path(__file__).parent.parent / "docs" / "guide"
PAGES = sorted(GUIDE.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_the_blocks_of_a_page_run_in_order(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = page.read_text()
    for module, extra in (("onnx", "import onnx"), ("pyarrow", "data.source.arrow import")):
        if extra in text:
            pytest.importorskip(module)
    for name in ("cpu", "wgpu"):
        if name in text and (problem := device_problem(name)):
            pytest.skip(problem)
    namespace: dict[str, object] = {"__name__": page.stem}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
        name = f"<{page.name}, block {number}>"
        # As in a notebook: what reads a function's source finds it.
        linecache.cache[name] = (len(block), None, block.splitlines(keepends=True), name)
        exec(compile(block, name, "exec", dont_inherit=True), namespace)
        printed = capsys.readouterr().out
        for promised in re.findall(r"print\(.*\)  # ([\d.\[\], ]+)$", block, re.MULTILINE):
            assert promised in printed or promised.replace(", ", "\n") in printed
