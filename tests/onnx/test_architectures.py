"""Models that others made: ONNX's light architectures, and what PyTorch once exported.

The architectures come with constants for weights, so that a fault could hide; they are given
random ones, and onnxruntime judges.  The others come with their inputs and outputs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from pyrite.onnx.inspection import inspect_here
from pyrite.onnx.loading import load_with

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
#: What `make test` has the time for.
SMALL = ("light_squeezenet", "light_shufflenet")
#: Strings, and training ops.
LEFT_OUT = ("test_strnorm", "test_gradient")
LIGHT = sorted(DATA.glob("light/light_*.onnx"))
RECORDED = sorted(
    path.parent
    for kind in ("pytorch-converted", "pytorch-operator", "simple")
    for path in DATA.glob(f"{kind}/*/model.onnx")
    if not path.parent.name.startswith(LEFT_OUT)
)


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_an_architecture_with_random_weights_agrees_with_onnxruntime(
    path: Path, full: bool
) -> None:
    if not full and path.stem not in SMALL:
        pytest.skip("it is large; --full runs it")
    runtime = pytest.importorskip("onnxruntime")
    content = with_random_weights(onnx.load(path)).SerializeToString()
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    x = np.random.default_rng(1).standard_normal((1, 3, 224, 224)).astype(np.float32)
    (expected,) = session.run(None, {name: x})

    found = load_with(content, inspect_here, device="cpu")(x).numpy()

    assert np.ptp(expected) > 1e-4 * np.abs(expected).max()  # the weights matter
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-4 * np.abs(expected).max())


def with_random_weights(model: Any) -> Any:
    """The model with its constant fills replaced by random numbers of a size that keeps scale."""
    rng = np.random.default_rng(0)
    model.ir_version = 8  # from 4 on, an initializer need not be an input too
    shapes = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    positive = {n.input[4] for n in model.graph.node if n.op_type == "BatchNormalization"}
    for node in [n for n in model.graph.node if n.op_type == "ConstantOfShape"]:
        shape = [int(size) for size in shapes[node.input[0]]]
        values = rng.standard_normal(shape, np.float32) * (2 / max(np.prod(shape[1:]), 1)) ** 0.5
        values = 0.5 + rng.random(shape) if node.output[0] in positive else values
        tensor = onnx.numpy_helper.from_array(values.astype(np.float32), node.output[0])
        model.graph.initializer.append(tensor)
        model.graph.node.remove(node)
    return model


@pytest.mark.sample(25)
@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_a_recorded_model_gives_what_was_recorded(folder: Path, device: str) -> None:
    model = load_with(folder / "model.onnx", inspect_here, device=device)
    for data in sorted(folder.glob("test_data_set_*")):
        types = {name: of.kind for name, of in {**model.inputs, **model.outputs}.items()}
        inputs = [read(data / f"input_{i}.pb", types[name]) for i, name in enumerate(model.inputs)]
        made = model(*inputs)
        found = [made] if len(model.outputs) == 1 else list(made)
        for i, (name, value) in enumerate(zip(model.outputs, found, strict=True)):
            require_close(value, read(data / f"output_{i}.pb", types[name]))


def read(path: Path, kind: str) -> Any:
    if kind == "sequence":
        sequence = onnx.SequenceProto.FromString(path.read_bytes())
        return onnx.numpy_helper.to_list(sequence)
    return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def require_close(value: Any, expected: Any) -> None:
    if isinstance(expected, list):
        for one, other in zip(value, expected, strict=True):
            require_close(one, other)
        return
    np.testing.assert_allclose(value.numpy(), expected, rtol=1e-3, atol=1e-5)
