"""Documents of the design point at what there is, and all examples of the source are run."""

from __future__ import annotations

import fnmatch
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "source_links.py"))
LINK, relinked = SCRIPT["LINK"], SCRIPT["relinked"]


def test_links_into_the_source_name_what_there_is() -> None:
    """Lines are kept by `scripts/check --fix`: a test of them would fail with each edit."""
    documents = sorted((ROOT / "docs" / "design").glob("*.md"))
    texts = [(path.read_text(), path.parent) for path in documents]
    assert any(LINK.search(text) for text, _ in texts)
    assert [name for text, folder in texts for name in relinked(text, folder)[1]] == []


def test_a_link_to_what_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("\nclass A:\n    def f(self): ...\n")
    text = "[`A.f`](a.py#L9) [`A.g`](a.py#L9) [`A`](b.py#L9)"
    renewed, unknown = relinked(text, tmp_path)
    assert renewed == "[`A.f`](a.py#L3) [`A.g`](a.py#L9) [`A`](b.py#L9)"
    assert unknown == ["a.py has no A.g", "b.py has no A"]


def test_no_file_with_examples_lies_where_pytest_does_not_look(
    pytestconfig: pytest.Config,
) -> None:
    """kernel/build was such a folder: pytest leaves out what is named build."""
    left_out = pytestconfig.getini("norecursedirs")
    unseen = [
        path
        for path in (ROOT / "src").rglob("*.py")
        if ">>> " in path.read_text()
        and any(fnmatch.fnmatch(part, p) for part in path.relative_to(ROOT).parts for p in left_out)
    ]
    assert unseen == []
