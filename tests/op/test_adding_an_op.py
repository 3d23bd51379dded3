"""Adding a reduction, a view, a row composite or a gather touches one file: the diffs of a page.

Each diff of docs/design/adding-an-op.md is applied to its file while another process imports it;
there the op is judged as those of the table are.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import pyrite

PAGE = Path(__file__).parents[2] / "docs" / "design" / "adding-an-op.md"
ROOT = Path(pyrite.__file__).parents[2]
DIFF = re.compile(r"```diff\n(.*?)```", re.DOTALL)

#: Of each op of the page its method and by what it is to run on devices with our kernels.
MEANS = {
    "sum_of_squares": "fold", "mirrored": "view", "standardized": "body", "of_each_row": "gather",
}  # fmt: skip


@pytest.fixture(scope="module")
def judged() -> dict[str, Any]:
    """What a process says that has the ops of the page."""
    run = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, check=False,
        env={**os.environ, "PYRITE_STRICT": "1", "PYRITE_CACHE": "off"},
    )  # fmt: skip
    assert not run.returncode, run.stderr
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def test_each_diff_adds_to_one_file() -> None:
    assert len(diffs()) == len(MEANS)
    for text in diffs():
        files = [line for line in text.splitlines() if line.startswith(("--- ", "+++ "))]
        assert len(files) == 2
        assert not re.search(r"^-(?!-- )", text, re.MULTILINE)


def test_each_op_runs_by_its_class_alone(judged: dict[str, Any]) -> None:
    for op, means in MEANS.items():
        for device in ("cpu", "interpreter"):
            assert judged["means"][device][op] == [means]


def test_each_op_has_its_values_and_gradients(judged: dict[str, Any]) -> None:
    for op, device in itertools.product(MEANS, ("numpy", "cpu", "interpreter")):
        values, gradients = judged["compared"][device][op]
        assert values >= 4
        assert gradients or device != "numpy"


# ---- the diffs ----


def diffs() -> list[str]:
    """Return the diffs of the page."""
    return DIFF.findall(PAGE.read_text())


def file_of(diff: str) -> str:
    """Return the file that a diff changes."""
    (name,) = re.findall(r"^\+\+\+ b/(.*)$", diff, re.MULTILINE)
    return str(name)


def changed(text: str, diff: str) -> str:
    """Return the text of a file with what a diff adds.

    >>> before = "x = 1\\nclass A:\\n    y = 2"
    >>> diff = "@@\\n x = 1\\n+z = 3\\n@@ class A\\n+    w = 4"
    >>> print(changed(before, diff))
    x = 1
    z = 3
    class A:
        y = 2
    <BLANKLINE>
        w = 4
    """
    for hunk in re.split(r"^@@", diff, flags=re.MULTILINE)[1:]:
        head, *lines = hunk.splitlines()
        added = [line[1:] for line in lines if line.startswith("+")]
        lines = text.splitlines()
        if head.strip():
            at, added = end_of_class(text, head.split()[-1]), ["", *added]
        else:
            (context,) = [line[1:] for line in hunk.splitlines() if line.startswith(" ")]
            at = lines.index(context) + 1
        text = "\n".join([*lines[:at], *added, *lines[at:]])
    return text


def end_of_class(text: str, name: str) -> int:
    """Return the number of the last line of a class."""
    (found,) = [n for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and n.name == name]
    assert found.end_lineno is not None
    return found.end_lineno


class Changing(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Imports the files of the diffs as they are with these."""

    def __init__(self, root: Path, diffs: Sequence[str]) -> None:
        self.diffs = {str(root / file_of(diff)): diff for diff in diffs}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return how a module is loaded whose file has a diff."""
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name) if name.startswith("pyrite.tensor.") else None
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.origin not in self.diffs:
            return None
        return importlib.util.spec_from_file_location(name, spec.origin, loader=self)

    def get_filename(self, fullname: str) -> str:
        """Return the file of a module."""
        (found,) = [path for path in self.diffs if path.endswith(f"{fullname.split('.')[-1]}.py")]
        return found

    def get_data(self, path: str | os.PathLike[str]) -> bytes:
        """Return the text of a file, changed."""
        return changed(Path(path).read_text(), self.diffs[str(path)]).encode()

    def path_stats(self, path: Any) -> Any:
        """Have no bytecode kept."""
        raise OSError


# ---- in the process that has the ops ----


def main() -> None:
    """Print by what the new ops ran, and how many values and gradients were compared."""
    for name in [name for name in sys.modules if name.split(".")[0] == "pyrite"]:
        del sys.modules[name]
    sys.meta_path.insert(0, Changing(ROOT, diffs()))
    from pyrite.backend.cube import CubeBackend
    from pyrite.backend.device import Device, device
    from pyrite.backend.means import means_chosen
    from pyrite.runtime.interpreter import InterpreterRuntime

    devices = {name: device(name) for name in ("numpy", "cpu")}
    devices["interpreter"] = Device(CubeBackend(InterpreterRuntime()))
    compared = {name: {op: judge(op, on) for op in MEANS} for name, on in devices.items()}
    means: dict[str, dict[str, list[str]]] = {name: {} for name in devices}
    for choice in means_chosen():
        if choice.op in MEANS:
            means[choice.device].setdefault(choice.op, []).append(choice.means)
    print(json.dumps({"compared": compared, "means": means}))


def judge(op: str, on: Any) -> tuple[int, int]:
    """Compare an op on a device with NumPy; return how many values and gradients that were."""
    import numpy as np

    from pyrite.op import OPS
    from pyrite.testing import Example, check_gradients
    from pyrite.types import float32

    values = gradients = 0
    record = OPS[op]
    for number, found in enumerate(record.samples):
        example = Example(record, number, found)
        for given in layouts(example.arrays(float32)):
            got, want = (call(example, given, device) for device in (on, "numpy"))
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-5, atol=2e-5)
            values += got.size
        x, *rest = example.arrays()
        if on.backend.name == "numpy" and x.size < 100:
            check_gradients(
                lambda x, example=example, rest=rest: example.call([x, *_on(rest, x)], x.device)[0],
                x, device="numpy", second_order=True,
            )  # fmt: skip
            gradients += x.size
    return values, gradients


def layouts(arrays: Sequence[Any]) -> Iterator[list[Any]]:
    """Give arrays as they are, and with others between their elements."""
    import numpy as np

    yield [*arrays]
    yield [np.repeat(a, 2, -1)[..., ::2] if a.dtype.kind == "f" else a for a in arrays]


def call(example: Any, arrays: Sequence[Any], on: Any) -> Any:
    """Return the result of an example for arrays, which lie as they are given."""
    import numpy as np

    import pyrite

    inputs = []
    for a in arrays:
        whole = pyrite.tensor(np.ascontiguousarray(a.base if a.base is not None else a), device=on)
        inputs.append(whole[..., ::2] if whole.shape != a.shape else whole)
    (found,) = example.call(inputs, on)
    return found


def _on(arrays: Sequence[Any], x: Any) -> list[Any]:
    import pyrite

    return [pyrite.tensor(a, device=x.device) for a in arrays]


if __name__ == "__main__":
    main()
