"""Imports make no cycle, those inside functions included: to defer an import hides a cycle only.

import-linter (see pyproject.toml) watches that imports go down, this one that siblings of a layer
make no circle either.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

Graph = dict[str, set[str]]


def test_modules_import_each_other_without_a_cycle() -> None:
    cycles = find_cycles(import_graph(SOURCE, "pyrite"))

    assert not cycles, "modules import each other in a circle:\n" + "\n".join(
        " -> ".join(cycle) for cycle in cycles
    )


@pytest.mark.parametrize(
    ("files", "cycle"),
    [
        ({"a.py": "import p.b", "b.py": "from p import a"}, ["p.a", "p.b"]),
        ({"a.py": "def f():\n    from .b import x", "b.py": "import p.a"}, ["p.a", "p.b"]),
        ({"__init__.py": "from .a import x", "a.py": "import p"}, ["p", "p.a"]),
        ({"s/__init__.py": "from .x import y", "s/x.py": "from p.s import y"}, ["p.s", "p.s.x"]),
        # Importing p.s.x from outside p.s first runs p/s/__init__.py.
        ({"a.py": "import p.s.x", "s/__init__.py": "import p.a", "s/x.py": ""}, ["p.a", "p.s"]),
        ({"a.py": "from .s import x", "s/__init__.py": "", "s/x.py": "from .. import a"},
         ["p.a", "p.s.x"]),
        ({"a.py": "import p.b\nimport os", "b.py": "import p.s", "s/__init__.py": ""}, None),
        ({"s/__init__.py": "from . import x", "s/x.py": "from . import y", "s/y.py": ""}, None),
    ],
)  # fmt: skip
def test_a_cycle_is_found_where_there_is_one(
    tmp_path: Path, files: dict[str, str], cycle: list[str] | None
) -> None:
    for name, text in {"__init__.py": "", **files}.items():
        file = tmp_path / "p" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    found = find_cycles(import_graph(tmp_path, "p"))

    assert [sorted(set(c)) for c in found] == ([cycle] if cycle else [])


def import_graph(source: Path, package: str) -> Graph:
    """Each module of the package, and the modules of the package that it imports."""
    files = {module_name(file, source): file for file in sorted((source / package).rglob("*.py"))}
    return {name: set(imports(name, file, files.keys())) - {name} for name, file in files.items()}


def module_name(file: Path, source: Path) -> str:
    parts = file.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(importer: str, file: Path, modules: Set[str]) -> Iterator[str]:
    package = importer if file.name == "__init__.py" else importer.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text())):
        for target in targets(node, package, modules):
            if target in modules:
                yield target
                yield from packages_entered(importer, target)


def targets(node: ast.AST, package: str, modules: Set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = resolve(node, package)
        for alias in node.names:
            submodule = f"{base}.{alias.name}"
            yield submodule if submodule in modules else base


def resolve(node: ast.ImportFrom, package: str) -> str:
    """The absolute name of the module after `from`."""
    if node.level == 0:
        return node.module or ""
    base = package.rsplit(".", node.level - 1)[0]
    return f"{base}.{node.module}" if node.module else base


def packages_entered(importer: str, target: str) -> Iterator[str]:
    """The packages whose __init__ this import runs: the target's, less those of the importer."""
    parts = target.split(".")
    for length in range(1, len(parts)):
        package = ".".join(parts[:length])
        if not f"{importer}.".startswith(f"{package}."):
            yield package


def find_cycles(graph: Graph) -> list[list[str]]:
    """One shortest cycle for each set of modules that import each other; it ends where it began."""
    reach = {name: reachable(graph, name) for name in graph}
    cycles, seen = [], set[str]()
    for name in sorted(graph):
        if name in reach[name] and name not in seen:
            seen |= {other for other in reach[name] if name in reach[other]}
            cycles.append(shortest_way_back(graph, name))
    return cycles


def reachable(graph: Graph, start: str) -> set[str]:
    found, waiting = set[str](), [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def shortest_way_back(graph: Graph, start: str) -> list[str]:
    ways, visited = [[start]], set[str]()
    for way in ways:  # grows as it is read: breadth first
        for name in sorted(graph[way[-1]]):
            if name == start:
                return [*way, start]
            if name not in visited:
                visited.add(name)
                ways.append([*way, name])
    raise AssertionError(f"{start} is in no cycle")
