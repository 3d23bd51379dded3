"""PyTorch's process-wide switches stay the application's: they are read, never written."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import pyrite
from pyrite.backend import device_problem
from pyrite.op import OPS
from pyrite.testing import Example
from pyrite.testing.examples import samples_of
from pyrite.types import float32

torch = pytest.importorskip("torch")

from pyrite.backend.torch import convolution, precision  # noqa: E402 - torch may be missing

HAS_CUDA = device_problem("torch:cuda") is None
needs_cuda = pytest.mark.skipif(not HAS_CUDA, reason="no CUDA device")
DEVICES = ["torch:cpu", "torch:cuda"] if HAS_CUDA else ["torch:cpu"]
each_device = pytest.mark.parametrize("name", DEVICES)

#: What belongs to the process, as one dictionary that can be compared.
STATE = """
import faulthandler, gc, locale, os, random, signal, sys, threading, warnings
import numpy as np, torch

def switches():
    backends = torch.backends
    names = {
        "cudnn": ["enabled", "benchmark", "deterministic", "allow_tf32"],
        "cuda.matmul": ["allow_tf32", "allow_fp16_reduced_precision_reduction",
                        "allow_bf16_reduced_precision_reduction", "fp32_precision"],
        "cudnn.conv": ["fp32_precision"], "cudnn.rnn": ["fp32_precision"],
        "mkldnn": ["enabled", "deterministic", "fp32_precision"],
        "mkldnn.matmul": ["fp32_precision"], "mkldnn.conv": ["fp32_precision"],
    }
    found = {}
    for path, attributes in names.items():
        part = backends
        for name in path.split("."):
            part = getattr(part, name, None)
        found |= {f"{path}.{a}": getattr(part, a, None) for a in attributes}
    cuda = backends.cuda
    found["sdp"] = [cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(),
                    cuda.math_sdp_enabled()]
    found["matmul"] = torch.get_float32_matmul_precision()
    found["deterministic"] = torch.are_deterministic_algorithms_enabled()
    found["threads"] = torch.get_num_threads(), torch.get_num_interop_threads()
    found["default"] = torch.get_default_dtype(), torch.get_default_device()
    found["denormal"] = float(torch.tensor(1e-40) * 1.0)
    return found

def state():
    return switches() | {
        "grad": torch.is_grad_enabled(), "torch's seed": torch.get_rng_state().tolist(),
        "warnings": list(warnings.filters), "showwarning": warnings.showwarning,
        "locale": locale.setlocale(locale.LC_ALL), "numpy's errors": np.geterr(),
        "numpy's seed": np.random.get_state()[1].tolist(), "seed": random.getstate(),
        "signals": {n: signal.getsignal(n) for n in signal.valid_signals()},
        "environment": dict(os.environ), "folder": os.getcwd(), "umask": umask(),
        "switch interval": sys.getswitchinterval(), "recursion": sys.getrecursionlimit(),
        "hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook, sys.displayhook),
        "gc": (gc.isenabled(), gc.get_threshold()), "faulthandler": faulthandler.is_enabled(),
    }

def umask():
    mask = os.umask(0o22)
    os.umask(mask)
    return mask
"""

#: A training step with each kind of layer.
STEP = """
def step(device):
    nn = pyrite.nn
    class Net(nn.Module):
        def __init__(self):
            self.conv, self.norm = nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8)
            self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1)
            self.head = nn.Linear(8, 3)
        def forward(self, x):
            x = self.norm(self.conv(x)).relu().max_pool2d(2).flatten(2).mT
            return self.head(self.encoder(x)).mean(1)
    model, optimizer = Net().to(device), pyrite.optim.AdamW(1e-3)
    x = pyrite.normal((4, 2, 8, 8), device=device)
    for dtype in ("float32", "float16", "bfloat16"):
        y = x.astype(dtype).flatten(1)
        (y @ y.mT).sum().item()
    loss, grads = pyrite.value_and_grad(lambda m: (m(x) ** 2).mean())(model)
    return optimizer.step(model, grads), loss.item()
"""

UNCHANGED = f"""{STATE}{STEP}
before, seen, is_done = state(), [], threading.Event()

def beside():
    x = torch.ones(32, 32)
    while not is_done.is_set():
        torch.nn.functional.conv2d(x[None, None], x[None, None, :3, :3])
        seen.append(switches())

other = threading.Thread(target=beside)
other.start()
try:
    import pyrite
    from pyrite.backend import device_problem
    for device in ("numpy", "cpu", "torch:cpu", "torch:cuda"):
        if device_problem(device) is None:
            for level in ("highest", "high", "medium"):
                pyrite.matmul_precision(level)
                step(device)
finally:
    is_done.set()
    other.join()
after = state()
changed = {{name for name in before if before[name] != after[name]}}
meanwhile = {{name for one in seen for name in one if one[name] != before[name]}}
print(len(seen) > 1, sorted(changed), sorted(meanwhile))
"""

FORBIDDEN = f"""{STEP}
import torch
torch.backends.disable_global_flags()
import pyrite
from pyrite.backend import device_problem
from pyrite.testing import examples
from pyrite.types import float32
print(device_problem("torch:cpu"))
for device in ("torch:cpu", "torch:cuda"):
    if device_problem(device) is None:
        step(device)
        own = pyrite.device(device).backend.root._implementations
        for example in examples():
            if example.op.name in own:
                example.run(float32, device)
print("works")
"""

COARSE = """
import torch, warnings
import pyrite
x = pyrite.ones((4, 4), device="torch:cpu")
torch.set_float32_matmul_precision("medium")
for level in ("medium", "highest"):
    pyrite.matmul_precision(level)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            (x @ x).sum().item()
    print(level, *(f"{w.category.__name__} {w.lineno}: {w.message}" for w in caught))
print(torch.get_float32_matmul_precision())
"""


def _output(program: str) -> str:
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_of_the_process_changes_with_a_thread_of_pytorch_beside() -> None:
    assert _output(UNCHANGED) == "True [] []\n"


def test_all_works_where_pytorch_forbids_to_write_its_switches() -> None:
    assert _output(FORBIDDEN) == "None\nworks\n"


def test_a_switch_that_is_coarser_than_asked_is_told_once_at_the_users_line() -> None:
    accepted, told, after = _output(COARSE).splitlines()
    assert accepted == "medium"
    assert told.startswith("highest PrecisionWarning 11: torch:cpu makes float32 matrix products")
    assert told.count("PrecisionWarning") == 1
    assert "pyrite.matmul_precision('medium') accepts them" in told
    assert after == "medium"


# ---- what is asked, and what PyTorch's switches say ----


@pytest.fixture
def asked() -> Iterator[None]:
    yield
    pyrite.matmul_precision("highest")


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("precision_asked", ["highest", "high", "medium"])
@pytest.mark.parametrize("switch", ["none", "ieee", "highest", "tf32", "high", "bf16", "medium"])
def test_a_switch_may_be_finer_than_asked(
    precision_asked: str, switch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "_switch", lambda device, kind: switch)
    monkeypatch.setattr(precision, "_warned", set())
    pyrite.matmul_precision(precision_asked)  # type: ignore[arg-type]
    order = [["highest", "none", "ieee"], ["high", "tf32"], ["medium", "bf16"]]
    place = [
        next(i for i, names in enumerate(order) if n in names) for n in (switch, precision_asked)
    ]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for kind in ("matmul", "conv"):
            for dtype in (torch.float64, torch.float32):
                precision.note_products("cpu", torch.zeros(2, dtype=dtype), kind)  # type: ignore[arg-type]

    assert len(caught) == (2 if place[0] > place[1] else 0)
    assert all(w.category is pyrite.PrecisionWarning for w in caught)


@pytest.mark.skipif(precision._newer is None, reason="PyTorch has one switch only")
def test_the_switches_are_those_that_pytorch_shows() -> None:
    assert precision._switch("cpu", "conv") == torch.backends.mkldnn.conv.fp32_precision
    assert precision._switch("cpu", "matmul") == torch.backends.mkldnn.matmul.fp32_precision
    assert precision._switch("cuda", "conv") == torch.backends.cudnn.conv.fp32_precision
    assert precision._switch("cuda", "matmul") == torch.backends.cuda.matmul.fp32_precision
    assert precision._switch("mps", "matmul") == "none"


@pytest.mark.usefixtures("asked")
def test_matmul_precision_is_told_and_leaves_pytorchs_alone() -> None:
    pyrite.device("torch:cpu")
    before = torch.get_float32_matmul_precision()
    assert pyrite.matmul_precision() == "highest"
    assert pyrite.matmul_precision("high") == "high"
    assert torch.get_float32_matmul_precision() == before
    with pytest.raises(pyrite.errors.ArgumentError, match="one of highest, high, medium, got 'lo"):
        pyrite.matmul_precision("low")  # type: ignore[arg-type]


# ---- calls that are told ----

CONVOLUTIONS = [
    Example(OPS[op], number, sample)
    for op in ("convolution", "conv1d", "conv2d", "conv3d", "convolution_input_gradient",
               "convolution_weight_gradient")
    for number, sample in enumerate(samples_of(OPS[op]))
]  # fmt: skip


@each_device
@pytest.mark.parametrize("example", CONVOLUTIONS, ids=lambda e: e.id)
def test_a_convolution_that_is_told_its_precision_is_the_same(
    name: str, example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = (False, False, True, False)
    monkeypatch.setattr(convolution.Convolution, "_settings", lambda self, x: told)
    monkeypatch.setattr(convolution, "is_coarser", lambda device, kind: True)
    for got, want in zip(example.run(float32, name), example.run(float32, "numpy"), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-5)


SHAPES = [
    ((5,), (5,)), ((5,), (5, 3)), ((4, 5), (5,)), ((4, 5), (5, 3)), ((2, 4, 5), (5, 3)),
    ((2, 1, 4, 5), (3, 5, 2)), ((4, 5), (3, 5, 2)), ((0, 5), (5, 3)), ((2, 0), (0, 3)),
]  # fmt: skip


@each_device
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_products_of_narrow_floats_are_summed_in_float32(
    name: str, left: tuple[int, ...], right: tuple[int, ...], dtype: str
) -> None:
    x, y = (torch.rand(s).to(getattr(torch, dtype)) for s in (left, right))
    want = torch.matmul(x.float(), y.float())
    where = name.partition(":")[2]
    got = _summed_wide(x.to(where), y.to(where)).cpu()
    assert got.dtype is torch.float32
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def _summed_wide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The product, with what the host's kernels lack put in their place."""
    if x.device.type != "cpu":
        return precision.summed_wide(x, y)

    def product(x: torch.Tensor, y: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
        assert x.ndim == y.ndim
        return torch.matmul(x.to(out_dtype), y.to(out_dtype))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(precision, "_CAN_SUM_WIDE", True)
        patched.setattr(torch, "mm", product)
        patched.setattr(torch, "bmm", product)
        return precision.summed_wide(x, y)


@needs_cuda
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_gpu_keeps_to_the_bound_with_pytorchs_own_defaults(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((8, 64, 20, 20)), rng.standard_normal((32, 64, 3, 3))

    def on(where: str) -> list[np.ndarray]:
        image, kernel = (pyrite.tensor(a, dtype=dtype, device=where) for a in (x, w))
        rows = image.flatten(1)

        def loss(image: pyrite.Tensor, kernel: pyrite.Tensor) -> pyrite.Tensor:
            return (image.conv2d(kernel).astype("float32") ** 2).mean()

        found = (rows @ rows.mT, image.conv2d(kernel), *pyrite.grad(loss, (0, 1))(image, kernel))
        return [t.numpy().astype(np.float64) for t in found]

    bound = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    for got, want in zip(on("torch:cuda"), on("numpy"), strict=True):
        assert np.abs(got - want).max() <= bound * np.abs(want).max()
