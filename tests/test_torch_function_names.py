"""What users of PyTorch look for in modules is an error that says what to write, which works."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import nn
from pyrite.tensor.function_names import INSTEAD

LISTED = Path(__file__).parent.parent / "docs" / "unsupported-names.md"


@pytest.mark.parametrize("name", INSTEAD)
def test_what_is_advised_for_a_function_runs_and_the_name_is_not_here(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(AttributeError, match=f"^module 'pyrite' has no attribute '{name}'; use "):
        getattr(pyrite, name)

    x, a = pyrite.tensor([0.5, 1.0, 2.0]), pyrite.ones((2, 2))
    model = nn.Linear(2, 2)
    model.save(tmp_path / "model")
    names = {
        "pyrite": pyrite, "nn": nn, "values": [1, 2], "array": np.ones(2), "number": 3, "x": x,
        "y": x, "v": x, "a": a, "b": a, "i": pyrite.tensor([1, 2]), "p": x / 4, "model": model,
        "path": tmp_path / "model", "labels": pyrite.tensor([0, 1]),
    }  # fmt: skip
    if name in ("addr", "vecmat"):
        names["v"] = x[:2]
    eval(INSTEAD[name], names)


#: What PyTorch or NumPy gives for the arguments of the answer, by the name that they have for it.
THEIRS: dict[str, Callable[[Any], Any]] = {
    "addbmm": lambda t: t.torch.addbmm(t.a, t.torch.stack([t.a, t.b]), t.torch.stack([t.a, t.a])),
    "addr": lambda t: t.torch.addr(t.a, t.u, t.u),
    "append": lambda t: np.append(t.arrays.x, t.arrays.y),
    "array_split": lambda t: np.array_split(t.arrays.x, 2),
    "average": lambda t: np.average(t.arrays.x, weights=t.arrays.y),
    "cartesian_prod": lambda t: t.torch.cartesian_prod(t.v, t.v),
    "cbrt": lambda t: np.cbrt(t.arrays.x),
    "chain_matmul": lambda t: t.a @ t.b @ t.a,
    "diag_embed": lambda t: t.torch.diag_embed(t.v),
    "digitize": lambda t: np.digitize(t.arrays.x, t.arrays.v),
    "divmod": lambda t: np.divmod(t.arrays.x, t.arrays.y),
    "ediff1d": lambda t: np.ediff1d(t.arrays.v),
    "flatnonzero": lambda t: np.flatnonzero(t.arrays.x),
    "hsplit": lambda t: t.torch.hsplit(t.a, 2),
    "inner": lambda t: t.torch.inner(t.x, t.y),
    "is_nonzero": lambda t: t.torch.is_nonzero(t.x[0]),
    "kl_div": lambda t: t.torch.nn.functional.kl_div(t.x, t.y),
    "ldexp": lambda t: np.ldexp(t.arrays.x, t.arrays.y.astype(int)),
    "logaddexp2": lambda t: np.logaddexp2(t.arrays.x, t.arrays.y),
    "matrix_power": lambda t: t.torch.matrix_power(t.a, 2),
    "modf": lambda t: np.modf(t.arrays.x),
    "nanstd": lambda t: np.nanstd(t.arrays.x),
    "norm": lambda t: t.torch.norm(t.x),
    "normalize": lambda t: t.torch.nn.functional.normalize(t.x, dim=0),
    "pdist": lambda t: t.torch.pdist(t.a),
    "ptp": lambda t: np.ptp(t.arrays.x),
    "rint": lambda t: np.rint(t.arrays.x),
    "rsub": lambda t: t.torch.rsub(t.x, t.y),
    "soft_margin_loss": lambda t: t.torch.nn.functional.soft_margin_loss(t.x, t.x.sign()),
    "std_mean": lambda t: t.torch.std_mean(t.x),
    "trapezoid": lambda t: np.trapezoid(t.arrays.v),
    "triu_indices": lambda t: t.torch.triu_indices(3, 3),
    "vdot": lambda t: t.torch.vdot(t.v, t.v),
    "vecmat": lambda t: np.vecmat(t.arrays.v[:2], t.arrays.a),
    "vsplit": lambda t: t.torch.vsplit(t.a, 2),
}


@pytest.mark.parametrize("name", THEIRS)
@pytest.mark.filterwarnings("ignore:.*kl_div|reduction. ")
@pytest.mark.filterwarnings("ignore:.*chain_matmul|torch.norm")
def test_what_is_advised_computes_what_theirs_does(name: str) -> None:
    torch = pytest.importorskip("torch")
    arrays: dict[str, Any] = {
        "x": [0.5, 2.0, 3.7], "y": [2.0, 1.0, 3.0], "v": [0.5, 1.0, 2.0], "u": [0.5, 1.0],
        "a": [[1.0, -2.0], [0.3, 4.0]], "b": [[0.5, 1.5], [2.0, -1.0]],
    }  # fmt: skip
    ours = {key: pyrite.tensor(np.array(value)) for key, value in arrays.items()}
    if name == "addr":
        ours["v"] = ours["u"]
    theirs = SimpleNamespace(**{k: torch.tensor(np.array(v)) for k, v in arrays.items()})
    theirs.torch = torch
    theirs.arrays = SimpleNamespace(**{k: np.array(v) for k, v in arrays.items()})
    got = eval(INSTEAD[name], {"pyrite": pyrite, "nn": nn, **ours})
    want = THEIRS[name](theirs)
    pairs = zip(got, want, strict=True) if isinstance(got, tuple | list) else [(got, want)]
    for mine, their in pairs:
        found = mine.numpy() if isinstance(mine, pyrite.Tensor) else mine
        np.testing.assert_allclose(found, np.asarray(their), rtol=1e-6)


def test_a_function_that_changes_its_tensor_there_is_another_one_here() -> None:
    module: Any = pyrite
    with pytest.raises(
        AttributeError, match=r"no attribute 'relu_'; use x = pyrite\.relu\(x\), si"
    ):
        module.relu_  # noqa: B018
    with pytest.raises(AttributeError, match=r"use x = pyrite\.xlogy\(x, other\), since"):
        module.xlogy_  # noqa: B018


@pytest.mark.parametrize("name", nn._INSTEAD)
def test_what_is_advised_for_a_layer_runs_and_the_name_is_not_here(name: str) -> None:
    with pytest.raises(AttributeError, match=f"^module 'pyrite.nn' has no attribute '{name}'; use"):
        getattr(nn, name)

    use = nn._INSTEAD[name]
    if use.startswith("nn."):
        eval(re.split(r", (?:of|over|with) ", use)[0], {"nn": nn, "pyrite": pyrite})


#: By the heading of docs/unsupported-names.md: what PyTorch or NumPy has, and whether it is here.
PLACES: dict[str, tuple[str, Callable[[str], bool]]] = {
    "torch": ("torch", lambda name: answered(pyrite, name)),
    "torch.Tensor": ("torch.Tensor", lambda name: answered(pyrite.ones((2,)), name)),
    "torch.nn": ("torch.nn", lambda name: answered(nn, name)),
    "torch.nn.functional": ("torch.nn.functional", lambda name: answered(pyrite, name)),
    "numpy": ("numpy", lambda name: answered(pyrite, name)),
}


#: The versions whose names the list has: others have some more, or fewer.
VERSIONS = {"torch": "2.13.", "numpy": "2.4."}


def answered(place: Any, name: str) -> bool:
    """Whether a name is at a place, or an error there says what to write."""
    try:
        found = getattr(place, name)
    except AttributeError as error:
        return "; use " in str(error)
    except Exception:  # a property that cannot be read of this tensor is there
        return True
    # A package of Pyrite's is an attribute too, once something has imported it.
    if not isinstance(found, ModuleType):
        return True
    return name in place.__all__ or name in ("extension", "onnx", "wgpu")


def listed() -> dict[str, set[str]]:
    """The names of docs/unsupported-names.md by their heading."""
    parts = re.split(r"^## (\S+)$", LISTED.read_text(), flags=re.MULTILINE)[1:]
    return {parts[i]: set(re.findall(r"`(\w+)`", parts[i + 1])) for i in range(0, len(parts), 2)}


@pytest.mark.parametrize("place", PLACES)
def test_each_name_of_pytorch_and_numpy_is_here_or_answered_or_listed(place: str) -> None:
    torch = pytest.importorskip("torch")
    path, is_answered = PLACES[place]
    module, *attributes = path.split(".")
    there: Any = {"torch": torch, "numpy": np}[module]
    if not there.__version__.startswith(VERSIONS[module]):
        pytest.skip(f"the list is of {module} {VERSIONS[module]}, this is {there.__version__}")
    for attribute in attributes:
        there = getattr(there, attribute)
    public = [name for name in dir(there) if not name.startswith("_")]
    unsupported = listed()[place]
    assert {name for name in public if not is_answered(name)} - unsupported == set()
    assert {name for name in unsupported if is_answered(name)} == set()


def test_any_other_name_is_the_error_that_python_makes() -> None:
    module: Any = pyrite
    with pytest.raises(AttributeError, match=r"^module 'pyrite' has no attribute 'nonesuch'$"):
        module.nonesuch  # noqa: B018
