"""PyTorch's own op database: the samples that it tests its ops with, on Pyrite's devices.

Values and first gradients are PyTorch's, in float64 where the device has it; each sample runs dense
and strided.  How an entry is written here stands in `table.py`.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend import device_problem
from pyrite.tensor.tensor import Tensor

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's op database needs expecttest")

ROOT = Path(__file__).resolve().parents[2]

#: Relative to the greatest magnitude of a result; a device without float64 has the second.
TOLERANCES = {"float64": 1e-7, "float32": 2e-4}

#: What a gradient is asked for, and Pyrite refuses.
REFUSED = (pyrite.errors.GradientError,)


def _loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"op_database_{name}", Path(__file__).with_name(f"{name}.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


table, samples = _loaded("table"), _loaded("samples")
DEVICES = [name for name in samples.COUNTS if device_problem(name) is None]
ENTRIES = sorted({*table.SAME, *table.OURS})


# ---- both sides ----


def on_pytorch(entry: Any, sample: Any, kind: Any) -> tuple[list[Any], list[Any]]:
    """Results, and the gradients of a weighted sum of them; none where there are none."""
    inputs: list[Any] = []

    def taken(value: Any, is_constant: bool) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        value = value.detach().clone()
        if value.is_floating_point() and not is_constant:
            inputs.append(value.requires_grad_())
        return value

    args, kwargs = samples.arguments(sample, taken, _constant(entry.name))
    # Where PyTorch has CUDA, samples of `ones_like` and the like ask for a result there.
    results = [
        r.cpu() if isinstance(r, torch.Tensor) else r
        for r in samples.leaves(entry.op(*args, **kwargs))
    ]
    total = _weighed(results, lambda r: isinstance(r, torch.Tensor) and r.requires_grad, _of_torch)
    has_none = not kind.is_floating_point or not entry.supports_autograd
    if total is None or has_none or entry.name in table.GRADIENTS:
        return results, []
    try:
        grads = torch.autograd.grad(total, inputs, allow_unused=True)
    except RuntimeError:
        return results, []  # PyTorch has none, as for scatter's multiplication
    return results, [
        torch.zeros_like(i) if g is None else g for i, g in zip(inputs, grads, strict=True)
    ]


def _of_torch(weights: Any, like: Any) -> Any:
    return torch.from_numpy(weights).to(like.dtype)


def _weighed(results: list[Any], counts: Callable[[Any], bool], make: Any) -> Any:
    total, rng = None, np.random.default_rng(1)
    for result in results:
        if counts(result):
            weights = rng.uniform(0.5, 1.5, tuple(result.shape))
            term = (result * make(weights, result)).sum()
            total = term if total is None else total + term
    return total


class Here:
    """A call of Pyrite's with the arguments of a sample."""

    def __init__(self, name: str, sample: Any, call: Any, device: str, *, strided: bool) -> None:
        self.call, self.device = call, device
        self.tensors: list[Tensor] = []
        self.tracked: list[int] = []
        lay = self._strided if strided else self._dense

        def taken(value: Any, is_constant: bool) -> Any:
            if isinstance(value, torch.dtype):
                return str(value).removeprefix("torch.")
            if value.is_floating_point() and not is_constant:
                self.tracked.append(len(self.tensors))
            self.tensors.append(lay(value))
            return _Place(len(self.tensors) - 1)

        self.args = samples.arguments(sample, taken, _constant(name))

    def _dense(self, value: Any) -> Tensor:
        return pyrite.tensor(value.detach().numpy(), device=self.device)

    def _strided(self, value: Any) -> Tensor:
        """Every second of the last axis, and the axes in the reverse order of memory."""
        array = value.detach().numpy()
        if not array.ndim:
            return self._dense(value)
        twice = pyrite.tensor(np.repeat(array.T, 2, axis=-1), device=self.device)
        return twice[..., ::2].permute_dims(tuple(reversed(range(array.ndim))))

    def results(self, tensors: list[Tensor]) -> list[Any]:
        args, kwargs = _placed(self.args, tensors)
        return list(samples.leaves(self.call(*args, **kwargs)))

    def gradients(self) -> list[Tensor]:
        places = self.tracked

        def total(*chosen: Tensor) -> Any:
            tensors = list(self.tensors)
            for place, tensor in zip(places, chosen, strict=True):
                tensors[place] = tensor
            is_float = lambda r: isinstance(r, Tensor) and r.dtype.is_float  # noqa: E731
            return _weighed(self.results(tensors), is_float, _of_pyrite)

        found = pyrite.grad(total, tuple(range(len(places))))(*[self.tensors[p] for p in places])
        return list(found)


def _of_pyrite(weights: Any, like: Tensor) -> Tensor:
    return pyrite.tensor(weights, dtype=like.dtype, device=like.device)


def _constant(name: str) -> frozenset[int | str]:
    return table.CONSTANT.get(name, frozenset())  # type: ignore[no-any-return]


class _Place:
    def __init__(self, number: int) -> None:
        self.number = number


def _placed(value: Any, tensors: list[Tensor]) -> Any:
    if isinstance(value, _Place):
        return tensors[value.number]
    if isinstance(value, (list, tuple)):
        return type(value)(_placed(v, tensors) for v in value)
    if isinstance(value, dict):
        return {k: _placed(v, tensors) for k, v in value.items()}
    return value


# ---- the comparison ----


def difference(got: Any, want: Any) -> str | None:
    """What two results differ in, None for nothing."""
    g = np.asarray(got.numpy() if isinstance(got, Tensor) else got)
    if isinstance(want, torch.Tensor):
        want = want.detach()
        want = (want.float() if want.dtype is torch.bfloat16 else want).numpy()
    w = np.asarray(want)
    if g.shape != w.shape:
        return f"shape {g.shape}, not {w.shape}"
    if (g.dtype == bool) != (w.dtype == bool):
        return f"dtype {g.dtype}, not {w.dtype}"
    narrow = "float32" if np.float32 in (g.dtype, w.dtype) else "float64"
    g, w = g.astype(np.float64), w.astype(np.float64)
    same = (g == w) | (np.isnan(g) & np.isnan(w))
    if not (np.isfinite(g) & np.isfinite(w))[~same].all():
        return f"not finite: {g[~same][:3]}, not {w[~same][:3]}"
    scale = max(1.0, np.abs(w[np.isfinite(w)]).max(initial=0))
    found = np.abs(g[~same] - w[~same]).max(initial=0) / scale
    return (
        None if found <= TOLERANCES[narrow] else f"by {found:.2g}: {g[~same][:3]}, {w[~same][:3]}"
    )


def compare(got: list[Any], want: list[Any]) -> str | None:
    if len(got) != len(want):
        return f"{len(got)} results, not {len(want)}"
    for place, (g, w) in enumerate(zip(got, want, strict=True)):
        found = difference(g, w)
        if found is not None:
            return f"{place} differs {found}"
    return None


def differences(name: str, device: str) -> Iterator[str]:
    """What the samples of an entry differ in, or that none of them was compared.

    Samples that use what Pyrite lacks do not count: others are drawn in their place.
    """
    compared = 0
    for variant, entry in samples.variants_of(name):
        call = table.call_of(name, variant)
        if call is None:
            continue
        wanted = samples.COUNTS[device]
        for number, sample in enumerate(samples.samples_of(entry, device)):
            try:
                found = [
                    _difference(entry, sample, call, device, strided=strided)
                    for strided in (False, True)
                ]
            except table.Lacking:
                continue
            for strided, difference in zip((False, True), found, strict=True):
                if difference is not None:
                    where = f"{name} {variant} {number} strided={strided}"
                    yield f"{where}: {difference}\n      {_shown(sample)}"
            compared, wanted = compared + 1, wanted - 1
            if not wanted:
                break
    if not compared:
        yield "no sample of it could be compared"


def _difference(entry: Any, sample: Any, call: Any, device: str, *, strided: bool) -> str | None:
    here = Here(entry.name, sample, call, device, strided=strided)
    try:
        got = here.results(here.tensors)
    except table.Lacking:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    want, gradients = on_pytorch(entry, sample, samples.kind_of(entry, device))
    found = compare(got, want)
    if found is not None or not gradients:
        return found
    try:
        made = here.gradients()
    except Exception as error:
        return f"gradient: {type(error).__name__}: {error}"[:300]
    found = compare(made, gradients)
    return None if found is None else f"gradient {found}"


def _shown(sample: Any) -> str:
    def shown(value: Any, is_constant: bool) -> Any:
        return f"{value.dtype}{tuple(value.shape)}" if isinstance(value, torch.Tensor) else value

    return str(samples.arguments(sample, shown))[:300]


#: Entries by device; on wgpu, where each kernel is compiled by a slow driver here, some.
CASES = [
    (name, device)
    for device in DEVICES
    for place, name in enumerate(ENTRIES)
    if device != "wgpu" or place % 10 == 0
]


@pytest.mark.parametrize(("name", "device"), CASES)
@pytest.mark.sample(4, by="device")
@pytest.mark.filterwarnings("ignore")
def test_an_entry_has_the_values_and_gradients_of_pytorch(name: str, device: str) -> None:
    found = list(differences(name, device))
    assert not found, f"{len(found)} differ:\n  " + "\n  ".join(found[:5])


def test_the_comparison_finds_a_wrong_value_a_wrong_gradient_and_a_wrong_shape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong: dict[str, Callable[..., Any]] = {
        "by": lambda x: x.exp() * 1.001,
        "gradient 0 differs by": lambda x: x.exp().detach() + x * 0,
        "shape": lambda x: x.exp().unsqueeze(0),
        "TypeError": lambda x: x + "",
    }
    for told, call in wrong.items():
        monkeypatch.setitem(table.OURS, "exp", call)
        assert all(told in found for found in list(differences("exp", "numpy"))[:1])
        assert list(differences("exp", "numpy"))


def test_each_entry_whose_name_is_pyrites_is_compared_or_has_a_reason_not_to_be() -> None:
    own = {name for name in dir(Tensor) if not name.startswith("_")} | set(pyrite.__all__)
    known = {key.partition("/")[0] for key in (*ENTRIES, *table.DIFFERENT)}
    missed = {
        name
        for name in samples.database()
        if name.rpartition(".")[2] in own and not name.startswith("masked.") and name not in known
    }
    assert missed == set()


def test_each_line_of_the_table_is_an_entry() -> None:
    known = samples.database()
    names = {key.partition("/")[0] for key in (*ENTRIES, *table.DIFFERENT, *table.GRADIENTS)}
    assert names - set(known) == set()
    assert not table.SAME & set(table.OURS)


def test_the_page_of_ops_is_up_to_date(full: bool) -> None:
    if not full:
        pytest.skip("what every sample uses is looked at with --full")
    command = [sys.executable, ROOT / "scripts" / "pytorch_ops.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
