"""A configuration is loaded as it was saved, or what does not fit is named."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest

from pyrite.errors import DTypeError, RecordError
from pyrite.record import load_config, save_config


class Kind(Enum):
    BIG = "big"
    SMALL = "small"


@dataclass(frozen=True)
class Layer:
    width: int
    dropout: float = 0.1

    def __post_init__(self) -> None:
        if isinstance(self.width, int) and self.width < 0:
            raise ValueError(f"width requires >= 0, got {self.width}")


@dataclass(frozen=True)
class Net:
    layers: tuple[Layer, ...]
    name: str = "net"
    activation: Literal["relu", "gelu", 3] = "relu"
    kind: Kind = Kind.BIG
    head: Layer | None = None
    size: tuple[int, int] = (8, 8)
    rate: float | int = 1
    tags: list[str] = field(default_factory=list)
    more: dict[str, bool | list[float]] = field(default_factory=dict)
    computed: int = field(init=False, default=7)


NET = Net(
    (Layer(3), Layer(4, 1.0)), "ü", 3, Kind.SMALL, Layer(2), (1, 2), 2, ["a"],
    {"x": True, "y": [1.0, 2.5]},
)  # fmt: skip


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    for net in (NET, Net(())):
        save_config(path, net)
        loaded = load_config(path, Net)
        assert loaded == net
        assert repr(loaded) == repr(net)
    path.write_text('{"layers": [{"width": 1, "dropout": 1}]}')
    loaded = load_config(path, Net)
    assert loaded == Net((Layer(1, 1.0),))
    assert type(loaded.layers[0].dropout) is float


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": [{"width": 1.0}]}, r"1.0 in the place of a int for layers\[0\].width"),
        ({"layers": [{"width": True}]}, r"True in the place of a int"),
        ({"layers": [{}]}, r"no values of fields \['width'\] for layers\[0\]"),
        ({"layers": [{"width": -1}]}, r"ValueError: width requires >= 0, got -1 for layers\[0\]"),
        ({"layers": None}, "None in the place of a tuple for layers"),
        ({"width": 3}, r"fields \['width'\] besides"),
        ({"activation": "tanh"}, "'tanh' in the place of one of"),
        ({"activation": True}, "True in the place of one of"),
        ({"kind": "huge"}, r"'huge' in the place of one of \['big', 'small'\]"),
        ({"head": {"width": "2"}}, "'2' in the place of a int for head.width"),
        ({"size": [1]}, "1 elements in the place of 2 for size"),
        ({"tags": [None]}, r"None in the place of a str for tags\[0\]"),
        ({"more": {"x": "no"}}, "'no' in the place of one of .* for more.x"),
        ({"more": []}, "in the place of a dict"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps({"layers": [], **change}))
    with pytest.raises(RecordError, match=f"requires a Net, got .*{message}.*net.json"):
        load_config(path, Net)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 99999, b"[1]", b"NaN"])
def test_a_damaged_file_is_one_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "net.json"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=r"net\.json"):
        load_config(path, Net)
    with pytest.raises(RecordError, match="readable file"):
        load_config(tmp_path / "none.json", Net)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(RecordError, match="FIFO"):
        load_config(tmp_path / "fifo", Net)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"width": 1}, "a dataclass, got dict"),
        (Layer, "a dataclass, got type"),
        (Layer(1, float("nan")), "nan, which JSON lacks, for dropout"),
        (Layer(object()), "a object for width"),  # type: ignore[arg-type]
        (Layer("1"), "'1' in the place of a int for width"),  # type: ignore[arg-type]
        (Net([]), "would not be loaded as it is"),  # type: ignore[arg-type]
    ],
)
def test_what_would_not_be_loaded_is_not_saved(tmp_path: Path, config: Any, message: str) -> None:
    path = tmp_path / "c.json"
    path.write_text("before")
    with pytest.raises(DTypeError, match=message):
        save_config(path, config)
    assert path.read_text() == "before"
    with pytest.raises(DTypeError, match="requires a dataclass"):
        load_config(path, dict)
