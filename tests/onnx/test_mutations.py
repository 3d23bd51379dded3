"""Thousands of damaged models: each gives one clear error, or loads and runs; within bounds."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import pyrite
from pyrite import Tensor, nn
from pyrite.errors import PyriteError
from pyrite.onnx import export, load
from pyrite.onnx.inspection import inspect_here
from pyrite.onnx.loading import load_with

PROGRAM = Path(__file__).parent / "mutation.py"
MUTATIONS = run_path(str(PROGRAM))
inspect_forked = MUTATIONS["inspect_forked"]
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
#: Models that others made: convolutions, pools, sequences, shapes, functions of a control flow.
RECORDED = (
    "pytorch-converted/test_Conv2d_groups", "pytorch-converted/test_MaxPool2d",
    "simple/test_sequence_model4", "simple/test_expand_shape_model1",
    "pytorch-operator/test_operator_pad", "pytorch-operator/test_operator_symbolic_override_nested",
)  # fmt: skip
HEAD = '<ir_version: 8, opset_import: ["" : 21]>'
#: Control flow, sizes computed in the graph, and what makes large results of small ones.
TEXTS = (
    """branch (float[N, 4] x) => (float[N, K] y) {
        shape = Shape (x)
        axis = Constant <value_ints = [1]> ()
        size = Gather (shape, axis)
        h = Gemm <transB = 1> (x, w)
        flag = Cast <to = 9> (size)
        r = If (flag) <then_branch = a () => (p) { p = Relu (h) },
                       else_branch = b () => (q) { q = Neg (h) }>
        y = Softmax <axis = -1> (r)
    }""",
    """loop (float[4] x) => (float[4] y, float[I, 4] s) {
        count = Constant <value = int64 {3}> ()
        on = Constant <value = bool {1}> ()
        y, s = Loop (count, on, x) <body = b (int64 i, bool c, float[4] a) =>
            (bool d, float[4] e, float[4] f) { d = Identity (c)  e = Add (a, a)  f = Relu (a) }>
    }""",
    """sizes (float[N, 4] x) => (float[A, B] y) {
        n = Constant <value_ints = [3, 4]> ()
        filled = ConstantOfShape <value = float[1] {2.0}> (n)
        row = Constant <value_ints = [1, 4]> ()
        line = ConstantOfShape (row)
        stretched = Expand (line, n)
        pads = Constant <value_ints = [0, 1, 0, 1]> ()
        padded = Pad (stretched, pads)
        repeats = Constant <value_ints = [2, 1]> ()
        tiled = Tile (padded, repeats)
        a = Constant <value_int = 0> ()  b = Constant <value_int = 6> ()
        c = Constant <value_int = 1> ()
        counted = Range (a, b, c)
        floats = Cast <to = 1> (counted)
        wide = Add (tiled, floats)
        total = ReduceSum <keepdims = 1> (filled)
        y = Mul (wide, total)
    }""",
    """resized (float[1, 2, 4, 4] x) => (float[A, B, C, D] y) {
        scales = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()
        z = Resize <mode = "linear"> (x, , scales)
        k = Constant <value_ints = [2]> ()
        top, places = TopK (z, k)
        e = EyeLike <dtype = 1> (w)
        m = MatMul (z, z)
        y = Add (m, z)
    }""",
    """quantized (float[N, 4] x) => (float[N, 4] y) {
        s = Constant <value_float = 0.5> ()
        z = Constant <value = uint8 {3}> ()
        q = QuantizeLinear (x, s, z)
        y = DequantizeLinear (q, s, z)
    }""",
)  # fmt: skip


class Net(nn.Module):
    """Convolution, attention, recurrence: what real models are made of."""

    def __init__(self) -> None:
        self.conv, self.norm = nn.Conv2d(1, 8, 3, 2, 1), nn.BatchNorm(8)
        self.encoder = nn.TransformerEncoder(8, 2, 16, 1)
        self.lstm = nn.LSTM(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 1, H, W) -> (N, T, 4)."""
        pixels = self.norm(self.conv(x)).relu().flatten(2).mT
        found: Tensor = self.lstm(self.encoder(pixels))[0]
        return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found: Path = tmp_path_factory.mktemp("models")
    for name in RECORDED:
        content = (DATA / name / "model.onnx").read_bytes()
        (found / f"{Path(name).name}.onnx").write_bytes(content)
    weight = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
    for i, text in enumerate(TEXTS):
        made = onnx.parser.parse_model(f"{HEAD}\n{text.replace('  ', chr(10))}")
        if " w)" in text or "(w)" in text or " w," in text:
            made.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
        (found / f"text{i}.onnx").write_bytes(made.SerializeToString())
    for opset in (18, 23):
        export(Net(), pyrite.ones((2, 1, 6, 6)), found / f"net{opset}.onnx", opset=opset)
    return found


def test_the_models_that_are_damaged_run(folder: Path) -> None:
    for path in folder.glob("*.onnx"):
        model = load_with(path, inspect_here, device="numpy")
        shapes = ([n if isinstance(n, int) else 2 for n in of.shape or ()]
                  for of in model.inputs.values())  # fmt: skip
        model(*(np.ones(shape, np.float32) for shape in shapes))


def test_each_gives_one_clear_error_or_runs_within_bounds(folder: Path, full: bool) -> None:
    count = 5000 if full else 100
    found = list(outcomes(folder, "1", count))

    assert [line["number"] for line in found] == list(range(count))
    faults = [line for line in found if not is_clear(line, folder)]
    assert not faults, faults[:5]
    kinds = Counter(line["became"] for line in found)
    assert kinds["ran"] > count / 50
    assert kinds["ModelImportError"] > count / 5
    # What the process of the tests had before the first is none of a mutation's.
    peaks = [found[0]["peak"], *(line["peak"] for line in found)]
    grown = [
        line for before, line in zip(peaks, found, strict=False) if line["peak"] > before + 600
    ]
    assert not grown, grown[:5]


def is_clear(line: dict[str, Any], folder: Path) -> bool:
    """Whether a model ran, or gave an error of Pyrite's.

    One whose check ended the process is loaded again as users do, with the check in a child.
    """
    if line["became"] != "ended":
        return line["became"] in ("ran", "not run") or issubclass(error_of(line), PyriteError)
    contents = [path.read_bytes() for path in sorted(folder.glob("*.onnx"))]
    _, content = MUTATIONS["mutation"](contents, "1", line["number"])
    with pytest.raises(PyriteError):
        load(content, device="numpy")
    return True


def error_of(line: dict[str, Any]) -> type:
    found = getattr(pyrite.errors, line["became"], object)
    return found if isinstance(found, type) else object


def outcomes(folder: Path, seed: str, count: int) -> Iterator[dict[str, Any]]:
    """Give what became of each mutation; of one that ended the process too."""
    begin = 0
    while begin < count:
        for line in lines(folder, seed, begin, count):
            yield line
            begin = line["number"] + 1
        if begin < count:
            yield {"number": begin, "what": "?", "became": "ended", "seconds": 0, "peak": 1 << 20}
            begin += 1


def lines(folder: Path, seed: str, begin: int, count: int) -> Iterator[dict[str, Any]]:
    command = [sys.executable, PROGRAM, folder, seed, str(begin), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    if done.returncode > 0:
        raise AssertionError(done.stderr[-2000:])
    for text in done.stdout.splitlines():
        line = json.loads(text)
        if "number" in line:
            yield line


#: What makes large results of a few numbers, in a graph whose sizes are in ``n``.
LARGE = {
    "ConstantOfShape": "big = ConstantOfShape (n)",
    "integers": "big = ConstantOfShape <value = int64[1] {1}> (n)",
    "Expand": "big = Expand (x, n)",
    "of the host": "s = Shape (x)  big = Expand (s, n)",
    "Tile": "big = Tile (x, n)",
    "Pad": "p = Concat <axis = 0> (z, n)  big = Pad (x, p)",
    "edges": 'p = Concat <axis = 0> (z, n)  '
             'big = Pad <mode = "edge"> (x, p)',
    "Range": "f = Constant <value_int = 0> ()  o = Constant <value_int = 1> ()  "
             "m = Squeeze (n)  big = Range (f, m, o)",
    "Resize": "big = Resize (x, , , n)",
    "linear": 'big = Resize <mode = "linear"> (x, , , n)',
    "OneHot": "v = Constant <value_floats = [0.0, 1.0]> ()  i = Shape (x)  m = Squeeze (n)  "
              "big = OneHot (i, m, v)",
    "HannWindow": "m = Squeeze (n)  big = HannWindow (m)",
    "Conv": "w = ConstantOfShape (a)  u = Unsqueeze (x, z)  v = Unsqueeze (u, z)  "
            "big = Conv <pads = [0, SIZE]> (v, w)",
}  # fmt: skip


@pytest.mark.parametrize("size", [1 << 32, 1 << 40, (1 << 63) - 1])
@pytest.mark.parametrize("body", LARGE.values(), ids=LARGE)
@pytest.mark.sample(1, by="body")
def test_a_size_that_a_file_makes_up_takes_no_memory(body: str, size: int) -> None:
    x = np.ones(1, np.float32)
    assert load_with(making(body, 3), inspect_forked, device="numpy")(x).size > 1

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(PyriteError, match=r"requires|cannot be run"):
        load_with(making(body, size), inspect_forked, device="numpy")(x)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def making(body: str, size: int) -> bytes:
    """A model that makes as many floats."""
    lines = body.replace("SIZE", str(size)).replace("  ", "\n")
    first = "k = Shape (x)\nn = Mul (k, size)"
    last = "r = Cast <to = 1> (big)\ny = Reshape (r, all)"
    found = onnx.parser.parse_model(
        f"{HEAD} net (float[N] x) => (float[A] y) {{\n{first}\n{lines}\n{last}\n}}"
    )
    for name, value in (("size", [size]), ("a", [1, 1, 1]), ("z", [0]), ("all", [-1])):
        found.graph.initializer.append(
            onnx.numpy_helper.from_array(np.array(value, np.int64), name)
        )
    return bytes(found.SerializeToString())
