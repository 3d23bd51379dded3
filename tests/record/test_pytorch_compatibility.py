"""What PyTorch itself writes is read; without PyTorch only test_pytorch.py's own files are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyrite.errors import RecordError
from pyrite.record import load_pytorch, read_pytorch

torch = pytest.importorskip("torch")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.pt"


@pytest.fixture
def through(path: Path) -> Callable[..., Any]:
    """Save with PyTorch and read it here."""

    def read(value: object, **options: object) -> Any:
        torch.save(value, path, **options)
        return read_pytorch(path)

    return read


def as_numpy(tensor: Any) -> np.ndarray[Any, Any]:
    """PyTorch gives NumPy no bfloat16 or float8, so those pass as bytes."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name.startswith(("bfloat", "float8")):
        raw = tensor.detach().contiguous().view(torch.uint8).numpy()
        return raw.view(np.dtype(getattr(ml_dtypes, name))).reshape(tuple(tensor.shape))
    return np.asarray(tensor.detach().numpy())


@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16",
     "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"],
)  # fmt: skip
def test_every_dtype_of_torch_is_read(through: Callable[..., Any], dtype: str) -> None:
    tensor = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.5, 0.0]]).to(getattr(torch, dtype))
    array = through({"w": tensor})["w"]
    assert array.dtype.name == dtype
    assert array.shape == (2, 3)
    assert array.tobytes() == as_numpy(tensor).tobytes()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_state_dict_of_torch_is_read(path: Path, protocol: int) -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Linear(2, 3).bfloat16()
    )
    torch.save({"state_dict": model.state_dict()}, path, pickle_protocol=protocol)
    arrays = load_pytorch(path, key="state_dict")
    assert list(arrays) == list(model.state_dict())
    for name, expected in model.state_dict().items():
        np.testing.assert_array_equal(arrays[name], as_numpy(expected))


def test_views_parameters_and_plain_values_of_torch_are_read(through: Callable[..., Any]) -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    attributed = torch.ones(2)
    attributed.tag = "kept by nobody"
    views = {
        "t": x.permute(2, 0, 1),
        "slice": x[1:, ::2, 1],
        "expanded": x[0, 0, 0].expand(5, 2),
        "parameter": torch.nn.Parameter(x[0]),
        "empty": x[:0],
        "scalar": x[1, 2, 3],
        "attributed": attributed,
    }
    tree = through({**views, "size": x.shape, "dtype": x.dtype, "device": x.device, "lr": 0.1})
    for name, expected in views.items():
        np.testing.assert_array_equal(tree[name], as_numpy(expected), err_msg=name)
    assert tree["size"] == (2, 3, 4)
    assert (tree["dtype"], tree["device"], tree["lr"]) == (np.float32, "cpu", 0.1)


def test_tied_tensors_of_torch_stay_tied(through: Callable[..., Any]) -> None:
    x = torch.ones(3)
    tree = through({"a": x, "b": x.view(3, 1), "c": x.clone()})
    assert np.shares_memory(tree["a"], tree["b"])
    assert not np.shares_memory(tree["a"], tree["c"])


def test_an_optimiser_of_torch_is_read(through: Callable[..., Any]) -> None:
    layer = torch.nn.Linear(2, 3)
    optimiser = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 2)).sum().backward()
    optimiser.step()
    tree = through(optimiser.state_dict())
    assert tree["state"][0]["exp_avg"].shape == (3, 2)
    assert tree["param_groups"][0]["betas"] == (0.9, 0.999)


def test_a_whole_module_of_torch_is_refused_with_the_way_out(path: Path) -> None:
    torch.save(torch.nn.Linear(2, 3), path)
    message = r"'torch\.nn\.modules\.linear\.Linear'.*torch\.save\(model\.state_dict\(\), path\)"
    with pytest.raises(RecordError, match=message):
        load_pytorch(path)


def test_a_legacy_file_of_torch_is_refused_with_the_way_out(path: Path) -> None:
    torch.save({"w": torch.ones(2)}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(RecordError, match=r"before version 1\.6; .* torch\.save\(torch\.load"):
        load_pytorch(path)


def test_a_file_of_torch_without_checksums_is_read(path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"w": torch.arange(3)}, path)
    finally:
        torch.serialization.set_crc32_options(True)
    assert load_pytorch(path)["w"].tolist() == [0, 1, 2]


def test_reading_imports_no_torch(path: Path) -> None:
    torch.save({"w": torch.ones(2)}, path)
    program = (
        "import sys; from pyrite.record.pytorch import load_pytorch; "
        "assert load_pytorch(sys.argv[1])['w'].tolist() == [1, 1] and 'torch' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    subprocess.run([sys.executable, "-c", program, path], check=True, env=environment)
