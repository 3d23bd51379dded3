"""Files: names, bytes, external data, and that they are written as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import pyrite
from pyrite import Tensor, nn
from pyrite.errors import ModelExportError
from pyrite.onnx import export
from pyrite.onnx.exporter import file as files

X = pyrite.tensor(np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32))
DYNAMIC = {"x": {0: "batch", 1: "length"}}


def encoder() -> nn.Module:
    return nn.TransformerEncoder(8, 2, 64, 2)


def test_a_second_call_gives_the_same_bytes(tmp_path: Path) -> None:
    model = encoder()
    for name in ("a", "b"):
        export(model, X, tmp_path / name, dynamic=DYNAMIC)

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_nodes_and_weights_have_the_names_of_the_model(tmp_path: Path) -> None:
    model = encoder()
    export(model, X, tmp_path / "model.onnx", dynamic=DYNAMIC)

    graph = onnx.load(tmp_path / "model.onnx").graph
    names = {i.name for i in graph.initializer}
    assert {path for path, _ in model.named_parameters()} <= names
    assert "/layers.0/attention/Attention" in {n.name for n in graph.node}
    for node in graph.node:
        assert node.name.startswith("/")


def test_weights_keep_their_values_and_layout(tmp_path: Path) -> None:
    model = encoder()
    export(model, X, tmp_path / "model.onnx")

    arrays = {
        i.name: onnx.numpy_helper.to_array(i)
        for i in onnx.load(tmp_path / "model.onnx").graph.initializer
    }
    for path, parameter in model.named_parameters():
        np.testing.assert_array_equal(arrays[path], parameter.numpy())


def test_tied_weights_are_there_once(judge: Any) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.embedding = nn.Embedding(7, 4)
            self.again = self.embedding

        def forward(self, x: Tensor) -> Tensor:
            return self.again(x) @ self.embedding.weight.mT

    path = judge(Tied(), pyrite.tensor(np.array([[1, 2]], np.int32)))

    assert [i.name for i in onnx.load(path).graph.initializer] == ["embedding.weight"]


def test_sizes_have_their_names_in_inputs_results_and_between(tmp_path: Path) -> None:
    export(encoder(), X, tmp_path / "model.onnx", dynamic=DYNAMIC)

    graph = onnx.load(tmp_path / "model.onnx").graph
    for info in (graph.input[0], graph.output[0]):
        dims = [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim]
        assert dims == ["batch", "length", 8]
    assert graph.value_info


def test_external_data_lies_beside_the_file(run: Any, tmp_path: Path) -> None:
    model, path = encoder(), tmp_path / "model.onnx"

    export(model, X, path, dynamic=DYNAMIC, external_data=True)

    assert (tmp_path / "model.onnx.data").exists()
    pointers = [i for i in onnx.load(path, load_external_data=False).graph.initializer
                if i.data_location == onnx.TensorProto.EXTERNAL]  # fmt: skip
    assert pointers
    for pointer in pointers:
        entries = {e.key: e.value for e in pointer.external_data}
        assert entries["location"] == "model.onnx.data"
        assert int(entries["offset"]) % 4096 == 0
    onnx.checker.check_model(path)
    got = run(path, {"x": X.numpy()})["output"]
    np.testing.assert_allclose(got, model(X).numpy(), atol=1e-5)


def test_weights_too_large_for_one_message_are_external(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_INSIDE", 1000)

    export(encoder(), X, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx.data").exists()
    with pytest.raises(ModelExportError, match="external_data"):
        export(encoder(), X, tmp_path / "other.onnx", external_data=False)


def test_an_error_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"before")

    with pytest.raises(ModelExportError):
        export(nn.Lambda(lambda x: x * x.max().item()), X, path)

    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("dtype", [pyrite.float16, pyrite.bfloat16, pyrite.float64])
def test_a_model_of_another_float_is_written_in_it(dtype: Any, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.GELU(), nn.LayerNorm(4)).astype(dtype)
    path = tmp_path / "model.onnx"

    export(model, X.astype(dtype), path, dynamic=DYNAMIC)

    made = onnx.load(path)
    onnx.checker.check_model(made, full_check=True)
    kinds = {i.data_type for i in made.graph.initializer if "weight" in i.name}
    assert kinds == {onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype.numpy))}


def test_float16_is_in_onnxruntime_what_it_is_here(judge: Any) -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.GELU(), nn.LayerNorm(4)).astype(pyrite.float16)

    judge(model, X.astype(pyrite.float16), atol=5e-3)


def test_a_model_on_another_device_is_written_alike(tmp_path: Path) -> None:
    model = encoder()
    export(model, X, tmp_path / "a", dynamic=DYNAMIC)
    export(model.to("cpu"), X.to("cpu"), tmp_path / "b", dynamic=DYNAMIC)

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_results_are_copies_where_they_are_inputs_or_weights(judge: Any) -> None:
    class Passing(nn.Module):
        def __init__(self) -> None:
            self.weight = pyrite.Parameter(pyrite.ones((3,)))

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            y = x + 1
            return x, self.weight, y, y

    judge(Passing(), X)
