"""ONNX's own node suite, written as Python: the file runs by itself and gives what is expected.

What is refused is refused for its body (`If`, `Loop`, `Scan`), by name.
"""

from __future__ import annotations

import importlib.util
import random
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pyrite
from pyrite.onnx import ModelImportError

HERE = Path(__file__).parent


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generated = imported(HERE / "generated.py")
suite = imported(HERE / "test_node_cases.py")
table = imported(suite.SCRIPT)

#: Ops with bodies, which are not written yet.
BODIES = {"If", "Loop", "Scan"}
SAMPLE = 60


def test_a_case_written_as_python_gives_what_the_suite_expects(
    full: bool, rng: random.Random, tmp_path: Path
) -> None:
    wanted = [case for case in table.cases() if table.exclusion(case.model) is None]
    chosen = wanted if full else rng.sample(wanted, SAMPLE)

    wrong = {case.name: said for case in chosen if (said := what_is_wrong(case, tmp_path))}

    assert not wrong, "\n".join(f"{name}: {said}" for name, said in wrong.items())


def what_is_wrong(case: Any, folder: Path) -> str | None:
    try:
        module, _ = generated.written(case.model, folder / case.name)
        model = module.load().to("numpy")
        for inputs, outputs in case.data_sets:
            made = model(*map(lifted, inputs))
            found = [made] if len(outputs) == 1 else list(made)
            check = suite.require_like if suite.is_random(case) else suite.require_close
            for one, expected in zip(found, outputs, strict=True):
                check(one, suite.carried(expected), case, "numpy")
    except ModelImportError as error:
        ops = {re.split(r"[ ']", problem)[0] for problem in error.problems}
        return None if ops and ops <= BODIES else str(error)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return None


def lifted(value: Any) -> Any:
    value = suite.carried(value)
    if isinstance(value, list):
        return [lifted(item) for item in value]
    return None if value is None else pyrite.tensor(value, device="numpy")
