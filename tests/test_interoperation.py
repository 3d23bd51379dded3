"""Libraries that compute with arrays of any kind, as SciPy does, compute with tensors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import array_api_extra as xpx
import numpy as np
import pytest
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_jax_array,
    is_lazy_array,
    is_numpy_array,
    is_torch_array,
    is_writeable_array,
    size,
    to_device,
)
from array_api_extra import _at

import pyrite

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "interoperation_table.py"

#: What `scripts/interoperation_table.py` returns for other versions than the page's.
OTHER_VERSIONS = 2


@pytest.mark.parametrize("name", ["numpy", "cpu"])
def test_what_works_in_scipy_and_scikit_learn_is_what_the_page_says(name: str, full: bool) -> None:
    count = [] if full else ["20"]
    if name == "cpu" and not full:
        pytest.skip("the CPU in a full run only")
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check", *count],
        capture_output=True,
        text=True,
        env={**os.environ, "PYRITE_DEVICE": name},
    )
    if done.returncode == OTHER_VERSIONS:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["numpy", "cpu"])
def test_array_api_compat_knows_a_tensor_as_an_array_of_pyrite(name: str) -> None:
    x = pyrite.ones((2, 3), device=name)
    assert array_namespace(x, 2.0, None) is pyrite
    assert array_namespace(x, pyrite.zeros((1,))) is pyrite
    assert is_array_api_obj(x)
    assert not any(of(x) for of in (is_numpy_array, is_torch_array, is_jax_array))
    assert (device(x), size(x)) == (name, 6)
    assert to_device(x, "numpy").device == "numpy"
    assert to_device(x, pyrite.device(name)) is x
    with pytest.raises(TypeError, match="Multiple namespaces"):
        array_namespace(x, np.ones(2))


EXTRA: dict[str, Callable[[Any], Any]] = {
    "atleast_nd": lambda x: xpx.atleast_nd(x, ndim=3),
    "cov": lambda x: xpx.cov(x),
    "create_diagonal": lambda x: xpx.create_diagonal(x[0]),
    "isclose": lambda x: xpx.isclose(x, x + 1e-9),
    "kron": lambda x: xpx.kron(x, x),
    "nunique": lambda x: xpx.nunique(x),
    "one_hot": lambda x: xpx.one_hot(
        array_namespace(x).asarray([0, 2]), 3, dtype=array_namespace(x).float64
    ),
    "pad": lambda x: xpx.pad(x, 1),
    "setdiff1d": lambda x: xpx.setdiff1d(x[0], x[1]),
    "sinc": lambda x: xpx.sinc(x),
    "apply_where": lambda x: xpx.apply_where(x > 0, x, lambda y: y * 2, lambda y: y - 1),
}

#: Those that assign to elements, which a tensor refuses.
ASSIGNING = {"create_diagonal", "pad", "apply_where", "isclose"}


@pytest.mark.parametrize("name", list(EXTRA))
def test_array_api_extra_computes_with_tensors_but_where_it_assigns(name: str) -> None:
    values = np.array([[1.0, -2.0, 0.5], [0.25, 1.0, 4.0]])
    if name in ASSIGNING:
        with pytest.raises(TypeError, match=r"x\.at\[key\]"):
            EXTRA[name](pyrite.tensor(values))
        return
    found = EXTRA[name](pyrite.tensor(values))
    got = found.numpy() if isinstance(found, pyrite.Tensor) else found
    np.testing.assert_allclose(got, EXTRA[name](values), rtol=1e-6)


METHODS = ["set", "add", "multiply", "min", "max"]


@pytest.mark.parametrize("copy", [None, True, False])
@pytest.mark.parametrize("method", METHODS)
def test_at_of_array_api_extra_assigns_to_every_array_but_those_of_jax(
    method: str, copy: bool | None
) -> None:
    x = pyrite.tensor([1.0, 2.0, 3.0])
    assert is_writeable_array(x)
    assert not is_lazy_array(x)
    with pytest.raises(TypeError, match=r"x\.at\[key\]"):
        getattr(xpx.at(x, 1), method)(5.0, copy=copy)
    assert x.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("method", METHODS)
def test_at_would_work_if_it_took_tensors_for_what_it_takes_arrays_of_jax(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This is the change of theirs that would do; an application's process is not ours to change.
    monkeypatch.setattr(_at._compat, "is_jax_array", lambda x: isinstance(x, pyrite.Tensor))
    monkeypatch.setattr(_at._compat, "is_writeable_array", lambda x: False)
    x = pyrite.tensor([1.0, 2.0, 3.0])
    key = slice(1, None)
    wanted = getattr(xpx.at(np.array([1.0, 2.0, 3.0]), key), method)
    found = getattr(xpx.at(x, key), method)(2.5)
    monkeypatch.undo()
    assert found.tolist() == wanted(2.5, copy=True).tolist()
