"""Files that are damaged, or made to do harm: one clear error each, and bounded memory and time."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from pyrite.errors import PyriteError
from pyrite.onnx import ModelImportError, ModelRunError, bound, inspection, load
from pyrite.onnx.inspection import inspect_here
from pyrite.onnx.loading import load_with

HEAD = '<ir_version: 8, opset_import: ["" : 21]>'
TEXT = f"""{HEAD}
net (float[N, 3] x) => (float[N, K] y) {{
    shape = Shape (x)
    axis = Constant <value_ints = [1]> ()
    c = Gather (shape, axis)
    h = Gemm <transB = 1> (x, w, b)
    flag = Constant <value_int = 1> ()
    on = Cast <to = 9> (flag)
    r = If (on) <then_branch = a () => (p) {{ p = Relu (h) }},
                 else_branch = b () => (q) {{ q = Neg (h) }}>
    y = Softmax <axis = -1> (r)
}}
"""


def model() -> Any:
    found = onnx.parser.parse_model(TEXT)
    for name, shape in (("w", (4, 3)), ("b", (4,))):
        array = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        found.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return found


def changed(change: Callable[[Any], object]) -> bytes:
    found = model()
    change(found)
    content: bytes = found.SerializeToString()
    return content


def twice(m: Any) -> None:
    m.graph.node.append(m.graph.node[0])


def cyclic(m: Any) -> None:
    m.graph.node[2].input[0] = "y"


def other_weights(m: Any) -> None:
    m.graph.initializer[0].dims[0] = 1 << 40


def other_type(m: Any) -> None:
    m.graph.initializer[0].data_type = 77


def negative(m: Any) -> None:
    m.graph.initializer[0].dims[0] = -4


def unknown_opset(m: Any) -> None:
    m.opset_import[0].version = 9999


MADE = (twice, cyclic, other_weights, other_type, negative, unknown_opset)


@pytest.mark.parametrize("change", MADE)
def test_a_file_that_contradicts_itself_is_refused(change: Callable[[Any], object]) -> None:
    with pytest.raises(ModelImportError, match=r"requires .*, got"):
        load_with(changed(change), inspect_here)


def field(number: int, content: bytes) -> bytes:
    """A field of protobuf's wire format, whose length is written in five bytes."""
    size = len(content)
    length = bytes([(size >> 7 * i) & 127 | 128 for i in range(4)] + [size >> 28])
    tag = number << 3 | 2
    return bytes([tag] if tag < 128 else [tag & 127 | 128, tag >> 7]) + length + content


@pytest.mark.parametrize("depth", [20, 1000])
def test_deeply_nested_bodies_are_refused(depth: int) -> None:
    body = b""
    for _ in range(depth):
        attribute = field(1, b"then_branch") + field(6, body) + b"\xa0\x01\x05"
        body = field(1, field(4, b"If") + field(5, attribute))
    opset = onnx.helper.make_opsetid("", 21).SerializeToString()
    with pytest.raises(ModelImportError, match="load requires"):
        load_with(field(7, body) + field(8, opset), inspect_here)


@pytest.mark.parametrize(
    "content", [b"", b"\x00", b"PK\x03\x04", b"\x08\x08" * 50, b"noise"], ids=lambda b: str(len(b))
)
def test_what_is_no_model_is_refused(content: bytes) -> None:
    # Noise has no name of its own: every worker collects the same tests.
    given = os.urandom(99) if content == b"noise" else content
    with pytest.raises(ModelImportError, match="load requires"):
        load_with(given, inspect_here)


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.onnx", Path("/dev/zero")):
        with pytest.raises(ModelImportError, match="load requires a file that can be read"):
            load(path)


def external(folder: Path, location: str, **entries: int) -> Path:
    found = model()
    weight = found.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        weight.external_data.add(key=key, value=str(value))
    path = folder / "model.onnx"
    path.write_bytes(found.SerializeToString())
    return path


def test_external_data_beneath_the_folder_is_mapped(tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(b"12345678" + array.tobytes())
    path = external(tmp_path, "data/w.bin", offset=8, length=48)

    weight = dict(load_with(path, inspect_here, device="numpy").named_parameters())["w"]

    np.testing.assert_array_equal(weight.numpy(), array)


@pytest.mark.parametrize(
    ("location", "entries", "said"),
    [
        ("../w.bin", {}, "beneath the model's folder"),
        ("/etc/passwd", {}, "beneath the model's folder"),
        ("", {}, "beneath the model's folder"),
        ("link.bin", {}, "no link leads to"),
        ("linked/w.bin", {}, "no link leads to"),
        ("missing.bin", {}, "requires the file 'missing.bin'"),
        ("w.bin", {"offset": 1}, "requires 49 bytes"),
        ("w.bin", {"offset": -1}, "requires a number as offset"),
        ("w.bin", {"length": 47}, "requires 48 bytes for float"),
        ("w.bin", {"offset": 1 << 50}, "bytes in 'w.bin', got 48"),
        ("w.bin", {"offset": 1 << 62}, "requires a number as offset"),
    ],
)
def test_external_data_elsewhere_is_refused(
    tmp_path: Path, location: str, entries: dict[str, int], said: str
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for place in (tmp_path, folder):
        (place / "w.bin").write_bytes(bytes(48))
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    (folder / "linked").symlink_to(tmp_path)

    with pytest.raises(ModelImportError, match=said):
        load_with(external(folder, location, **entries), inspect_here)


def test_external_data_of_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(48))
    with pytest.raises(ModelImportError, match="got a model of bytes"):
        load_with(external(tmp_path, "w.bin").read_bytes(), inspect_here)


def test_the_check_runs_in_a_child_with_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    content = model().SerializeToString()

    assert load(content, device="numpy")(np.zeros((2, 3), np.float32)).shape == (2, 4)
    monkeypatch.setattr(inspection, "MEMORY", 1 << 26)
    with pytest.raises(ModelImportError, match=r"requires too much memory|its check ended"):
        load(content, device="numpy")
    monkeypatch.undo()
    monkeypatch.setattr(inspection, "SECONDS", 0.001)
    with pytest.raises(ModelImportError, match=r"its check took more than 0.001 s"):
        load(content, device="numpy")


def test_what_a_node_cannot_do_names_it() -> None:
    text = f"{HEAD} net (float[N] x) => (float[M] y) {{ y = Trilu (x) }}"
    content = onnx.parser.parse_model(text).SerializeToString()
    found = load_with(content, inspect_here, device="numpy")

    with pytest.raises(ModelRunError, match=r"Trilu 'y' \(opset 21\) cannot be run"):
        found(np.zeros(3, np.float32))


def test_a_mutated_file_gives_one_clear_error_or_runs(full: bool, rng: random.Random) -> None:
    content = model().SerializeToString()
    x = np.zeros((2, 3), np.float32)
    outcomes = set()
    for _ in range(5000 if full else 300):
        mutated = bytearray(content)
        for _ in range(rng.choice((1, 1, 2, 8))):
            mutated[rng.randrange(len(mutated))] = rng.randrange(256)
        cut = rng.randrange(len(mutated)) if rng.random() < 0.2 else len(mutated)
        try:
            load_with(bytes(mutated[:cut]), inspect_here, device="numpy")(x)
            outcomes.add("ran")
        except PyriteError as error:
            outcomes.add(type(error).__name__)
    assert {"ran", "ModelImportError"} <= outcomes


def test_a_result_that_nothing_makes_is_refused() -> None:
    """The inliner of functions leaves some behind."""

    def inspection(content: bytes, kept: Sequence[tuple[str, str]]) -> bytes:
        found = onnx.ModelProto.FromString(inspect_here(content, kept))
        found.graph.node.pop()
        return bytes(found.SerializeToString())

    with pytest.raises(ModelImportError, match=r"nodes that make all values, got none for 'y'"):
        load_with(model().SerializeToString(), inspection)


def test_a_loop_that_has_no_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"""{HEAD}
    net (float[N] x) => (float[N] y) {{
        on = Constant <value = bool {{1}}> ()
        y = Loop (, on, x) <body = b (int64 i, bool c, float[N] a) => (bool d, float[N] e)
            {{ d = Identity (c) e = Add (a, a) }}>
    }}"""
    model = load_with(onnx.parser.parse_model(text).SerializeToString(), inspect_here)
    monkeypatch.setattr(bound, "MOST_STEPS", 50)

    with pytest.raises(ModelRunError, match="Loop requires an end within 50 steps, got none"):
        model(np.ones(2, np.float32))
