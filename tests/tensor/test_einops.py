"""einops on tensors: either may be imported first, and gradients flow."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite

einops = pytest.importorskip("einops")

DEVICES = ["numpy", "cpu"]

X = np.arange(2 * 4 * 6, dtype=np.float32).reshape(2, 4, 6) / 7 - 3
W = np.linspace(-1, 1, 6 * 5, dtype=np.float32).reshape(6, 5)

#: From x (2, 4, 6) and w (6, 5), of any library.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "transpose": lambda x, w: einops.rearrange(x, "b h w -> w b h"),
    "join": lambda x, w: einops.rearrange(x, "b h w -> b (h w)"),
    "part": lambda x, w: einops.rearrange(x, "b (p h) (q w) -> (b p q) h w", p=2, q=3),
    "list": lambda x, w: einops.rearrange([x[0], x[1]], "b h w -> h w b"),
    "new axis": lambda x, w: einops.rearrange(x, "b h w -> b 1 h w 1"),
    "sum": lambda x, w: einops.reduce(x, "b h w -> b w", "sum"),
    "mean": lambda x, w: einops.reduce(x, "b (h p) (w q) -> b h w", "mean", p=2, q=2),
    "max": lambda x, w: einops.reduce(x, "b h w -> h", "max"),
    "min": lambda x, w: einops.reduce(x, "b h w -> ", "min"),
    "prod": lambda x, w: einops.reduce(x, "b h w -> b h 1", "prod"),
    "repeat": lambda x, w: einops.repeat(x, "b h w -> b (h 2) w c", c=3),
    "repeat none": lambda x, w: einops.repeat(x, "b h w -> c b h w d", c=1, d=2),
    "einsum": lambda x, w: einops.einsum(x, w, "b h w, w c -> b c h"),
    "pack": lambda x, w: einops.pack([x, x[:, 0]], "b * w")[0],
    "unpack": lambda x, w: einops.unpack(x, [(1,), (3,)], "b * w")[1],
}  # fmt: skip

each_call = pytest.mark.parametrize("name", list(CALLS))
each_device = pytest.mark.parametrize("device", DEVICES)


@each_call
@each_device
def test_einops_returns_what_it_returns_of_numpy(name: str, device: str) -> None:
    found = CALLS[name](pyrite.tensor(X, device=device), pyrite.tensor(W, device=device))
    assert isinstance(found, pyrite.Tensor)
    assert found.device == device
    np.testing.assert_allclose(found.numpy(), CALLS[name](X, W), rtol=1e-4, atol=1e-5)


@each_call
@each_device
def test_gradients_flow_through_einops(name: str, device: str) -> None:
    def loss(x: pyrite.Tensor) -> pyrite.Tensor:
        out = CALLS[name](x, pyrite.tensor(W, dtype="float64", device=x.device))
        weights = pyrite.arange(out.size, dtype=out.dtype, device=x.device).reshape(out.shape)
        return (out * (weights + 1)).sum()

    x = pyrite.tensor(X, dtype="float64", device=device)
    towards = np.cos(np.arange(X.size)).reshape(X.shape)
    slope = (pyrite.grad(loss)(x) * pyrite.tensor(towards, device=device)).sum().item()
    step = 1e-6
    high, low = (loss(x + pyrite.tensor(h * towards, device=device)) for h in (step, -step))
    assert slope == pytest.approx((high - low).item() / (2 * step), rel=1e-5)


def test_shapes_and_arrays_are_those_of_einops() -> None:
    x = pyrite.tensor(X)
    assert einops.parse_shape(x, "b _ w") == {"b": 2, "w": 6}
    np.testing.assert_array_equal(einops.asnumpy(x), X)
    with pytest.raises(einops.EinopsError):
        einops.rearrange(x, "b h -> h b")


def test_einops_of_the_array_api_takes_tensors() -> None:
    from einops import array_api

    x = pyrite.tensor(X)
    np.testing.assert_array_equal(
        array_api.rearrange(x, "b h w -> w (b h)").numpy(), CALLS["join"](X.transpose(2, 0, 1), W)
    )
    np.testing.assert_allclose(
        array_api.reduce(x, "b h w -> b", "mean").numpy(), X.mean((1, 2)), rtol=1e-5
    )


ORDERS = {
    "pyrite first": "import pyrite; x = pyrite.ones((2, 3)); import einops",
    "einops first": "import einops; import pyrite; x = pyrite.ones((2, 3))",
    "einops used first": (
        "import einops, numpy; einops.rearrange(numpy.ones((2, 3)), 'a b -> b a'); "
        "import pyrite; x = pyrite.ones((2, 3))"
    ),
}


@pytest.mark.parametrize("order", list(ORDERS))
def test_either_may_be_imported_first(order: str) -> None:
    program = f"""
import sys
{ORDERS[order]}
print(einops.rearrange(x, "a b -> b a").shape)
import einops._backends as backends
assert type(backends.__loader__) is type(einops.__loader__), backends.__loader__
assert backends.__spec__.loader is backends.__loader__
assert not [f for f in sys.meta_path if type(f).__module__.startswith("pyrite")]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "(3, 2)\n", done.stderr


def test_importing_pyrite_does_not_import_einops() -> None:
    program = "import sys, pyrite; print('einops' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
