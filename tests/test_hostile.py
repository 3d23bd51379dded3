"""Whatever a public function is given, what it raises is Pyrite's, at the line of the call.

Of a call that does not fit a signature Python raises TypeError, as of every function.
"""

from __future__ import annotations

import inspect
import math
import random
import re
import resource
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import pytest

import pyrite
from pyrite.backend.device import device_names, device_problem
from pyrite.errors import DeviceError, PyriteError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor

DEVICES = [n for n in device_names() if device_problem(n) is None]
WORKING = [n for n in ("numpy", "cpu") if n in DEVICES]

HOSTILE: tuple[Any, ...] = (
    # 2 ** 31 of a size would be had, and take a while: it stands below.
    *(-1, 0, 1, 3, 2**42, 2**63, -(2**31) - 1, 2**70, True),
    *(0.5, math.inf, -math.inf, math.nan, -0.0, 1e308),
    *(None, "a", "", b"x", [], (), (1, 1), ((1, 1),), ((1, (2,)),), [[1], [2, 3]], {}),
    *((2**40,), (-1, 2), (0,), (None,), object(), print, slice(None), ...),
)

#: What sets the process or takes functions and files, and is tried where it lives.
LEFT_OUT = {
    *("set_default_device", "set_print_options", "print_options", "set_random_state", "seed"),
    *("grad", "value_and_grad", "checkpoint", "custom_op", "primitive", "composite", "public"),
    *("implements", "no_sync", "no_grad", "training_mode", "random_stream", "matmul_precision"),
    *("device", "default_device", "autodiff", "fallbacks", "read", "read_async", "saved_bytes"),
    *("from_dlpack", "from_torch", "check_closeness", "random_state", "training", "sync_count"),
    *(
        "backward",
        "require_grad",
        "track",
        "dtype",
        "transaction",
        "invalidate",
        "when_ready",
        "unwrap",
    ),
}


def functions() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for owner, prefix in ((pyrite, ""), (Tensor, "Tensor.")):
        for name in dir(owner):
            value = getattr(owner, name)
            is_plain = callable(value) and not inspect.isclass(value) and name[0] != "_"
            if is_plain and name not in LEFT_OUT and not name.endswith("_async"):
                found[prefix + name] = value
    return found


FUNCTIONS = functions()


@pytest.fixture(autouse=True)
def _bounded_memory() -> Iterator[None]:
    """Let 8 GiB more be had, however much there is: some systems promise what they do not have."""
    if not hasattr(resource, "RLIMIT_AS"):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + (8 << 30), hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def inputs(device: str) -> list[Any]:
    rng = np.random.default_rng(0)
    return [
        tensor(rng.standard_normal((3, 4)).astype(np.float32), device=device),
        tensor(np.arange(3, dtype=np.int32), device=device),
        tensor(np.ones((2, 2, 2, 2), np.float32), device=device),
        tensor(1.5, device=device),
        tensor(np.array([True, False]), device=device),
        tensor(np.zeros((0, 2), np.float32), device=device),
    ]


def call_of(name: str, rng: random.Random, given: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments for a call that fits the signature: tensors among hostile ones."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for p in inspect.signature(FUNCTIONS[name]).parameters.values():
        wants_tensor = "Self" in str(p.annotation) or "Tensor" in str(p.annotation)
        if p.name == "self":
            value: Any = rng.choice(given)
        elif (p.default is not p.empty and rng.random() < 0.5) or p.kind is p.VAR_KEYWORD:
            if p.kind is p.POSITIONAL_ONLY:
                break
            continue
        elif p.name == "device":
            continue
        else:
            value = rng.choice(given if wants_tensor and rng.random() < 0.7 else HOSTILE)
        if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL) or p.name == "self":
            positional.append(value)
        else:
            named[p.name] = value
    return positional, named


def fault_of(name: str, positional: list[Any], named: dict[str, Any]) -> str | None:
    """Return what is wrong with what a call raises, None if nothing is."""
    try:
        FUNCTIONS[name](*positional, **named)
    except PyriteError as error:
        # The user's frame, then at most those of the public function.
        frames = traceback.extract_tb(error.__traceback__)
        if not (error.location or "").startswith(__file__) or len(frames) > 4:
            return f"{name}: raised in {frames[-1].filename}:{frames[-1].lineno}: {error}"
    except TypeError as error:
        # A call that does not fit is refused before anything of the function runs.
        if "argument" not in str(error):
            return f"{name}{positional, named}: {error!r}"
    except Exception as error:
        return f"{name}{positional, named}: {error!r}"[:400]
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.sample(150)
@pytest.mark.parametrize("round", range(8))
@pytest.mark.parametrize("device", WORKING)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_what_hostile_arguments_raise_is_pyrites(name: str, device: str, round: int) -> None:
    rng = random.Random(f"{name} {device} {round}")
    given = inputs(device)
    for _ in range(6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fault = fault_of(name, *call_of(name, rng, given))
        assert fault is None, fault


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("randint requires high to be an integer", lambda d: pyrite.randint(5, (3,), device=d)),
        ("pad requires at most 2 pairs", lambda d: pyrite.ones((2, 2), device=d).pad((1, 1))),
        ("rot90 requires|rot90 requires -1", lambda d: pyrite.ones((2,), device=d).rot90()),
        ("arange requires finite", lambda d: pyrite.arange(0, math.inf, device=d)),
        ("full requires a value that int32", lambda d: pyrite.full((1,), 2**31, device=d)),
        ("requires memory|requires at most", lambda d: pyrite.zeros((2**40,), device=d) + 1),
        ("requires memory|requires at most", lambda d: pyrite.zeros((2**62, 4), device=d)),
        ("astype requires a dtype, got None", lambda d: pyrite.ones(2, device=d).astype(None)),
    ],
)
def test_a_refusal_says_what_is_required(message: str, call: Any, device: str) -> None:
    with pytest.raises(PyriteError, match=message):
        call(device)


def _ones(*shape: int, device: str) -> Tensor:
    return pyrite.ones(shape, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "call",
    [
        lambda d: _ones(2**23, 1, device=d) + _ones(1, 2**23, device=d),
        lambda d: _ones(2**23, 1, device=d) @ _ones(1, 2**23, device=d),
        lambda d: pyrite.arange(2**45, device=d),
        lambda d: _ones(3, device=d).tile((2**45,)),
        lambda d: _ones(3, device=d).tile((2**62,)),
        lambda d: _ones(1, device=d).pad(((0, 2**46),)),
        lambda d: pyrite.arange(4096, device=d).one_hot(2**42),
        lambda d: _ones(2**20, 1, 2, 2, device=d).interpolate(scale_factor=2**13),
    ],
    ids=["add", "matmul", "arange", "tile", "tile beyond 64 bits", "pad", "one_hot", "interpolate"],
)
def test_a_result_beyond_memory_is_refused(call: Any, device: str) -> None:
    with pytest.raises(DeviceError, match=r"requires memory that|requires at most \d+ elements"):
        call(device)


#: Every way in which the values of a tensor leave it.
READS: dict[str, Callable[[Tensor], Any]] = {
    "numpy": lambda x: x.numpy(),
    "tolist": lambda x: x.tolist(),
    "torch": lambda x: x.torch(),
    "to numpy": lambda x: x.to("numpy"),
    "to cpu": lambda x: x.to("cpu"),
    "to torch:cpu": lambda x: x.to("torch:cpu"),
    "array": np.array,
    "asarray": np.asarray,
    "asarray of another dtype": lambda x: np.asarray(x, dtype="float64"),
    "from_dlpack": np.from_dlpack,
    "a copy through from_dlpack": lambda x: np.from_dlpack(x, copy=True),
    "repr": repr,
}


#: What is said of memory, and of uint16 on candle.
BEYOND = r"requires memory that there is|requires at most \d+ elements|requires a dtype that candle"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("dtype", ["float32", "uint16"])
def test_values_beyond_memory_are_shared_or_refused(read: str, device: str, dtype: str) -> None:
    if device_problem("torch:cpu") and "torch" in read:
        pytest.skip("PyTorch is not installed")
    for length in (2**50, 2**62):
        refused = ""
        try:
            READS[read](pyrite.tensor(1, dtype=dtype, device=device).expand((length,)))
        except PyriteError as error:
            refused = str(error)
        assert not refused or re.search(BEYOND, refused), refused


@pytest.mark.parametrize("device", DEVICES)
def test_a_diagonal_beyond_the_matrix_is_empty(device: str) -> None:
    assert pyrite.eye(1, k=2**31, device=device).item() == 0
    assert pyrite.ones((2, 2), device=device).tril(2**40).sum().item() == 4


def test_what_the_users_own_function_raises_stays_as_it_is() -> None:
    def loss(x: Tensor) -> Tensor:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        pyrite.grad(loss)(pyrite.ones(2))


WITH_DTYPE = sorted(
    name for name, f in FUNCTIONS.items()
    if "dtype" in inspect.signature(f).parameters and name not in ("astype", "isdtype")
)  # fmt: skip

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "arange": (3,), "asarray": ([1.0, 2.0],), "empty": (2,), "eye": (2,), "full": (2, 7),
    "linspace": (0, 1, 3), "logspace": (0, 1, 3), "normal": ((3,),), "ones": (2,),
    "randint": (0, 9, (4,)), "tensor": ([1, 2],), "tri": (2,), "uniform": ((3,),), "zeros": (2,),
    "full_like": (pyrite.ones(2), 3),
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in WITH_DTYPE if n != "Tensor.astype"])
def test_a_dtype_of_none_is_that_of_leaving_it_out(name: str) -> None:
    given = ARGUMENTS.get(name, (pyrite.arange(4),))
    found = []
    for named in ({}, {"dtype": None}):
        pyrite.seed(0)
        found.append(FUNCTIONS[name](*given, **named))
    assert found[0].dtype is found[1].dtype
    np.testing.assert_array_equal(found[0].numpy(), found[1].numpy())
