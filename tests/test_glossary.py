"""Words of the glossary name one class each: where the same word stands twice, it says here why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pyrite

PACKAGE = Path(pyrite.__file__).parent

#: Of each word the modules that may have a class of that name.  Models of ONNX are programs of
#: steps in the words of their own standard; `optim.schedule.Step` keeps PyTorch's name.
MEANINGS = {
    "Program": {"backend/compiling.py", "onnx/program.py"},
    "Step": {
        "train/output.py", "optim/schedule/decay.py", "onnx/program.py", "onnx/python/step.py",
        "onnx/exporter/tracer.py",
    },
    "Recorded": set(),
    "Slot": {"backend/cube/slot.py"},
    "Plan": {"op/record.py"},
    "Recording": {"backend/cube/recording.py"},
    "Skeleton": {"backend/cube/skeleton/protocol.py"},
    "Epilogue": {"backend/cube/epilogue.py"},
}  # fmt: skip


@pytest.fixture(scope="module")
def modules() -> dict[str, set[str]]:
    """Where classes are defined, by their names, without the underscores of private ones."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE):
            where = found.setdefault(name.lstrip("_"), set())
            where.add(path.relative_to(PACKAGE).as_posix())
    return found


@pytest.mark.parametrize("word", MEANINGS)
def test_a_word_names_one_class(word: str, modules: dict[str, set[str]]) -> None:
    assert modules.get(word, set()) <= MEANINGS[word]
