"""Keeps the links of documents into the source at the lines of what they name.

    python scripts/source_links.py            writes the line numbers
    python scripts/source_links.py --check    says what is out of date or not there; exits with 1

A link is [`Recording.replay`](../../src/pyrite/backend/cube/recording.py#L70): a class, a function
or a method, and the file that defines it.  `make check` checks docs/design, `--fix` renumbers.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[`([\w.]+)`\]\(([\w./-]+\.py)#L(\d+)\)")


def main(arguments: list[str]) -> int:
    """Write or check the documents; return the exit status."""
    wrong = []
    for path in sorted((ROOT / "docs" / "design").glob("*.md")):
        text = path.read_text()
        renewed, unknown = relinked(text, path.parent)
        wrong += [f"{path.relative_to(ROOT)}: {name}" for name in unknown]
        if renewed == text:
            continue
        if "--check" in arguments:
            wrong.append(f"{path.relative_to(ROOT)} is out of date; run scripts/source_links.py")
        else:
            path.write_text(renewed)
            print(f"wrote {path.relative_to(ROOT)}")
    for line in wrong:
        print(line)
    return bool(wrong)


def relinked(text: str, folder: Path) -> tuple[str, list[str]]:
    """Return a document with the lines of today, and what its links name that is not there."""
    unknown = []

    def renewed(link: re.Match[str]) -> str:
        name, target, line = link.groups()
        path = folder / target
        found = line_of(path, name) if path.is_file() else None
        if found is None:
            unknown.append(f"{target} has no {name}")
        return f"[`{name}`]({target}#L{found or line})"

    return LINK.sub(renewed, text), unknown


def line_of(path: Path, name: str) -> int | None:
    """Return the line on which a file defines a dotted name, None where it does not."""
    body: list[ast.stmt] = ast.parse(path.read_text()).body
    found: ast.stmt | None = None
    for part in name.split("."):
        found = next((node for node in body if _defines(node, part)), None)
        if found is None:
            return None
        body = getattr(found, "body", [])
    assert found is not None
    return found.lineno


def _defines(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name == name
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    return (
        isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == name
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
