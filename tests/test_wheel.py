"""The wheel holds all that the package reads: templates, digits, native code."""

from __future__ import annotations

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from pyrite.cli.new import FILES

ROOT = Path(__file__).parent.parent


def test_every_file_of_the_package_is_in_the_wheel() -> None:
    built = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    source = ROOT / "src"
    there = {
        path.relative_to(source).as_posix()
        for path in (source / "pyrite").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert built == there
    assert built >= {f"pyrite/cli/project/{name.removeprefix('.')}.txt" for name in FILES}
