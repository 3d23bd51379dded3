"""Weights that others wrote: whatever Hugging Face and PyTorch put in a safetensors file loads."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import pyrite
from pyrite import nn, optim
from pyrite.data import DataLoader, InMemoryDataset
from pyrite.errors import RecordError
from pyrite.record import MatchError, Record
from pyrite.train import Learner, supervised

VALUES = {
    "first.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "first.bias": np.array([1.0, -1.0], np.float32),
}


class Net(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(3, 2)

    def forward(self, x: pyrite.Tensor) -> pyrite.Tensor:
        return self.first(x)


class Tied(nn.Module):
    """Embedding and head share their weight, as language models do."""

    def __init__(self) -> None:
        self.embed = nn.Embedding(4, 3)
        self.head = nn.Linear(3, 4, bias=False).replace(weight=self.embed.weight)

    def forward(self, x: pyrite.Tensor) -> pyrite.Tensor:
        return self.head(self.embed(x))


class Untied(Tied):
    def __init__(self) -> None:
        self.embed = nn.Embedding(4, 3)
        self.head = nn.Linear(3, 4, bias=False)


TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


def assert_loaded(net: Any) -> None:
    for name, parameter in net.named_parameters():
        np.testing.assert_array_equal(parameter.numpy(), VALUES[name])


# ---- metadata, dtypes ----

METADATA: dict[str, dict[str, str] | None] = {
    "none": None,
    "empty": {},
    "of PyTorch": {"format": "pt"},
    "of TensorFlow": {"format": "tf"},
    "of MLX": {"format": "mlx"},
    "of a trainer": {"format": "pt", "modelspec.title": "é" * 100, "config": '{"a": 1}'},
    "of names that are no arrays": {"first.weight": "first.bias", "a": "b"},
}


@pytest.mark.parametrize("what", list(METADATA))
@pytest.mark.parametrize("name", ["model.safetensors", "model", "model.bin", "model.pt"])
def test_metadata_of_any_kind_loads(tmp_path: Path, name: str, what: str) -> None:
    save_file(VALUES, tmp_path / name, METADATA[what])

    assert_loaded(Net().load(tmp_path / name))


def test_metadata_that_is_null_is_none(tmp_path: Path) -> None:
    save_file(VALUES, tmp_path / "file")
    data = (tmp_path / "file").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.dumps({"__metadata__": None, **json.loads(data[8 : 8 + length])}).encode()
    (tmp_path / "file").write_bytes(struct.pack("<Q", len(header)) + header + data[8 + length :])

    assert_loaded(Net().load(tmp_path / "file"))


DTYPES = ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_floats_of_every_width_load(tmp_path: Path, dtype: str) -> None:
    numpy = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    data = b"".join(v.astype(numpy).tobytes() for v in VALUES.values())
    codes = {"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "bfloat16": "BF16"}
    code = codes.get(dtype, f"F{dtype.removeprefix('float')}")
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name, value in VALUES.items():
        end = begin + value.size * numpy.itemsize
        header[name] = {"dtype": code, "shape": list(value.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    (tmp_path / "file").write_bytes(struct.pack("<Q", len(text)) + text + data)

    assert_loaded(Net().load(tmp_path / "file"))


def test_integers_of_pytorch_are_told_or_left_out(tmp_path: Path) -> None:
    count = {"steps.num_batches_tracked": np.array(7, np.int64)}
    save_file({**VALUES, **count}, tmp_path / "file", {"format": "pt"})

    with pytest.raises(RecordError, match="num_batches_tracked"):
        Net().load(tmp_path / "file")
    assert_loaded(Net().load(tmp_path / "file", allow_unused=True))


def test_files_that_pytorch_writes_load(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    written = pytest.importorskip("safetensors.torch")
    model = torch.nn.Module()
    model.embed = torch.nn.Embedding(4, 3)
    model.head = torch.nn.Linear(3, 4, bias=False)
    model.head.weight = model.embed.weight
    written.save_model(model, str(tmp_path / "model.safetensors"))
    table = model.embed.weight.detach().numpy()

    for net in (Tied(), Untied()):
        loaded = net.load(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(loaded.embed.weight.numpy(), table)
        np.testing.assert_array_equal(loaded.head.weight.numpy(), table)


# ---- names, and tied weights ----

#: What a file calls the two names of one weight, and the rules that make them ours.
NAMES: dict[str, tuple[tuple[str, ...], list[tuple[str, str]]]] = {
    "both": (("embed.weight", "head.weight"), []),
    "the first": (("embed.weight",), []),
    "the second": (("head.weight",), []),
    "both under a prefix": (("m.embed.weight", "m.head.weight"), [("^m[.]", "")]),
    "the first under a prefix": (("m.embed.weight",), [("^m[.]", "")]),
    "the second under a prefix": (("m.head.weight",), [("^m[.]", "")]),
    "both renamed": (("wte.weight", "lm_head.weight"), [("^wte", "embed"), ("^lm_", "")]),
    "the second renamed": (("lm_head.weight",), [("^lm_", "")]),
}


@pytest.mark.parametrize("what", list(NAMES))
def test_tied_weights_load_under_any_of_their_names(tmp_path: Path, what: str) -> None:
    names, rules = NAMES[what]
    save_file({name: TABLE.copy() for name in names}, tmp_path / "plain", {"format": "pt"})
    Record(dict.fromkeys(names, TABLE)).save(tmp_path / "record")

    for file in ("plain", "record"):
        loaded = Tied().load(tmp_path / file, rules=rules)
        assert loaded.head.weight.id == loaded.embed.weight.id
        np.testing.assert_array_equal(loaded.head.weight.numpy(), TABLE)


@pytest.mark.parametrize("rules", [[], [("^m[.]", "")]])
def test_two_values_for_one_tied_weight_are_an_error(tmp_path: Path, rules: Any) -> None:
    prefix = "m." * bool(rules)
    both = {f"{prefix}embed.weight": TABLE, f"{prefix}head.weight": TABLE + 1}
    save_file(both, tmp_path / "file")

    with pytest.raises(RecordError, match=r"'embed\.weight' and 'head\.weight'"):
        Tied().load(tmp_path / "file", rules=rules)


def test_rules_may_join_the_names_of_one_array(tmp_path: Path) -> None:
    Record({"a.weight": TABLE, "b.weight": TABLE}).save(tmp_path / "tied")
    Record({"a.weight": TABLE, "b.weight": TABLE + 1}).save(tmp_path / "apart")
    net, rules = nn.Linear(3, 4, bias=False), [("^[ab][.]", "")]

    np.testing.assert_array_equal(net.load(tmp_path / "tied", rules=rules).weight.numpy(), TABLE)
    with pytest.raises(RecordError, match="distinct names"):
        net.load(tmp_path / "apart", rules=rules)


# ---- what wrote the file ----


def torch_names(prefix: str) -> dict[str, np.ndarray]:
    return {f"{prefix}{name}": array for name, array in VALUES.items()}


FILES: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "of torch.compile": (torch_names("_orig_mod."), "torch.compile"),
    "of a compiled part": (
        {name.replace("first.", "first._orig_mod."): a for name, a in VALUES.items()},
        "torch.compile",
    ),
    "of DataParallel": (torch_names("module."), "DataParallel"),
    "of both": (torch_names("_orig_mod.module."), "torch.compile and DataParallel"),
    "of a checkpoint": (
        {**torch_names("model._orig_mod."), "optimizer.step": np.ones(1)},
        "torch.compile",
    ),
    "of a bare part": ({name.removeprefix("first."): a for name, a in VALUES.items()}, "lack"),
}


@pytest.mark.parametrize("what", list(FILES))
def test_a_prefix_is_named_and_what_is_offered_loads(tmp_path: Path, what: str) -> None:
    arrays, named = FILES[what]
    save_file(arrays, tmp_path / "file")

    with pytest.raises(MatchError) as raised:
        Net().load(tmp_path / "file")

    *_, advice = str(raised.value).splitlines()
    assert named in advice
    options = eval(f"dict({advice.partition('load with ')[2]})")
    assert_loaded(Net().load(tmp_path / "file", **options))


def test_the_checkpoint_of_a_training_loads(tmp_path: Path) -> None:
    learner = Learner(
        Net(), optim.Adam(0.1), supervised(nn.MSELoss()), metrics=[], directory=tmp_path / "run"
    )
    items = [(np.ones(3, np.float32) * i, np.ones(2, np.float32)) for i in range(8)]
    loader = DataLoader(InMemoryDataset(items), 4)
    result = learner.fit(loader, loader, epochs=2)
    assert result.best is not None

    (newest,) = sorted((tmp_path / "run" / "checkpoints").glob("epoch-0002.*"))
    for file in (newest, tmp_path / "run" / "model.safetensors"):
        loaded = Net().load(file)
        np.testing.assert_array_equal(
            loaded.first.weight.numpy(), result.model.first.weight.numpy()
        )
    best = Net().load(result.best)
    assert best.first.weight.shape == (2, 3)
    again = Net().load_record(Record.load(newest))
    np.testing.assert_array_equal(again.first.bias.numpy(), result.model.first.bias.numpy())


def test_metadata_of_ones_own_makes_no_checkpoint(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    net.record({"checkpoint": 1, "epoch": 2}).save(tmp_path / "file")
    np.testing.assert_array_equal(
        nn.Sequential(nn.Linear(2, 2)).load(tmp_path / "file")[0].weight.numpy(),
        net[0].weight.numpy(),
    )


def test_no_file_is_an_error_that_says_so() -> None:
    with pytest.raises(RecordError, match="requires the path of a file, got NoneType"):
        Net().load(None)  # type: ignore[arg-type]
