"""`pyrite onnx`: checked, shown and run from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from pyrite.cli.app import app
from pyrite.errors import DataError

onnx = pytest.importorskip("onnx")
parser = pytest.importorskip("onnx.parser")

HEAD = '<ir_version: 8, opset_import: ["" : 21, "my.own" : 1]>'


def saved(folder: Path, text: str) -> str:
    path = folder / "model.onnx"
    onnx.save(parser.parse_model(f"{HEAD} {text}"), path)
    return str(path)


def called(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["onnx", *arguments])


NET = """
net (float[N, 1, 2, 2] x, float[1] b) => (float[N, 1, 2, 2] y, float[N, 1, 2, 2] z)
{ y = Add (x, b)  z = Neg (y) }
"""


def test_check_says_that_a_model_can_be_loaded(tmp_path: Path) -> None:
    found = called("check", saved(tmp_path, NET))

    assert found.exit_code == 0
    assert "0 parameters, 2 nodes of 2 ops" in found.stdout


def test_check_names_all_that_is_not_supported(tmp_path: Path) -> None:
    text = "net (float[N] x) => (float[N] y) { a = my.own.One (x)  y = my.own.Two (a) }"

    found = called("check", saved(tmp_path, text))

    assert found.exit_code == 1
    assert found.stdout.count("no such op is supported") == 2


def test_show_names_inputs_outputs_and_ops(tmp_path: Path) -> None:
    found = called("show", saved(tmp_path, NET))

    assert found.exit_code == 0
    for expected in ("OnnxModule", "float[N, 1, 2, 2]", "Add", "Neg", "output"):
        assert expected in found.stdout


def test_a_name_in_a_file_cannot_steer_the_terminal(tmp_path: Path) -> None:
    model = parser.parse_model(f"{HEAD} {NET}")
    model.graph.input[0].name = model.graph.node[0].input[0] = "\x1b[31mred"
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())

    assert "\x1b" not in called("show", str(path)).stdout


def test_run_takes_arrays_and_pictures_and_writes_outputs(tmp_path: Path) -> None:
    path = saved(tmp_path, NET)
    Image.fromarray(np.uint8([[0, 51], [102, 255]])).save(tmp_path / "picture.png")
    np.save(tmp_path / "b.npy", np.float32([1]))

    found = called(
        "run", path, "--input", f"b={tmp_path / 'b.npy'}", "--input", str(tmp_path / "picture.png"),
        "--device", "numpy", "--out", str(tmp_path / "out"),
    )  # fmt: skip

    assert found.exit_code == 0
    expected = np.float32([[[[1, 1.2], [1.4, 2]]]])
    np.testing.assert_allclose(np.load(tmp_path / "out" / "y.npy"), expected, rtol=1e-6)
    np.testing.assert_allclose(np.load(tmp_path / "out" / "z.npy"), -expected, rtol=1e-6)


HEADER = b"{'descr':'<f4','fortran_order':False,'shape':(1000000000000,)}\n"
#: Four terabytes as its header says, of which it has three bytes.
HUGE = b"\x93NUMPY\x01\x00" + bytes([len(HEADER), 0]) + HEADER + b"abc"


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.png", b"nothing"), ("x.npy", b"nothing"), ("x.npy", b""), ("x.npy", HUGE)],
    ids=["no picture", "no array", "empty", "huge"],
)
def test_run_names_a_file_that_is_neither(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)

    found = called("run", saved(tmp_path, NET), "--input", str(tmp_path / name))

    assert isinstance(found.exception, DataError)
