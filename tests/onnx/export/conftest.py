"""Judges of exported models: onnxruntime runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn
from pyrite.onnx import export, load
from pyrite.onnx.exporter.signature import arguments_of, named_results, named_tensors
from pyrite.types import Array

collect_ignore_glob = [] if find_spec("onnxruntime") else ["test_*.py"]

#: From a file and its inputs to its outputs.
Run = Callable[[Path, Mapping[str, Array]], dict[str, Array]]


@pytest.fixture(scope="session")
def run() -> Run:
    """Run a file in onnxruntime."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1

    def ran(path: Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, dict(inputs)), strict=True))

    return ran


Judge = Callable[..., Path]


@pytest.fixture
def judge(run: Run, tmp_path: Path, full: bool) -> Judge:
    """Export a model and compare what onnxruntime makes of it with what it does itself.

    ``others`` are further examples, of other sizes; with ``imports`` the file is also loaded again,
    run here, and exported once more, which takes a second.  Returns the file.
    """

    def judged(
        model: nn.Module, example: Any, *, others: Sequence[Any] = (), atol: float = 2e-5,
        rtol: float = 1e-4, imports: bool = full, **options: Any,
    ) -> Path:  # fmt: skip
        path = tmp_path / "model.onnx"
        export(model, example, path, **options)
        imported = load(path) if imports else None
        again = tmp_path / "again.onnx"
        if imported is not None:
            given = dict(named_tensors(arguments_of(model, example).values, ""))
            export(imported, given, again, **options)
        for given in (example, *others):
            arguments = arguments_of(model, given)
            inputs = {name: t.numpy() for name, t in named_tensors(arguments.values, "")}
            want = named_results(arguments.call(model))
            got = run(path, inputs)
            assert len(got) == len(want)
            for (name, result), (found, array) in zip(want, got.items(), strict=True):
                assert found in (name, f"output.{name}")
                assert_same(array, result, atol, name, rtol)
            if imported is not None:
                back = imported(**{name: pyrite.tensor(array) for name, array in inputs.items()})
                twice = run(again, inputs).values()
                for (name, result), (_, one), two in zip(
                    want, named_results(back), twice, strict=True
                ):
                    assert_same(one.numpy(), result, atol, name, rtol)
                    assert_same(two, result, atol, name, rtol)
        return path

    return judged


def assert_same(got: Array, want: Tensor, atol: float, name: str = "", rtol: float = 1e-4) -> None:
    """Compare dtype, shape and values; NaN and infinities are to be in the same places."""
    expected = want.numpy()
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), name
    np.testing.assert_allclose(
        got.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol, err_msg=name
    )
