"""ONNX's own node suite on every device, as Python, and exported again.

A case is left out by its dtypes or its domain only (scripts/onnx_table.py, docs/onnx.md), and then
`load` refuses it.  Expected values are those of the suite, within its own tolerances, but for what
their making rounds: half floats to 4 units of the last place, Fourier transforms to 1e-6 of the
greatest value.  Random ops agree in shape, dtype and moments.

The cases are made when the suite's modules are imported, which takes longer than to run them: a
sample is of a few modules.
"""

from __future__ import annotations

import importlib.util
import random
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_table as table
import pytest
from onnx_table import carried

import pyrite
from pyrite.backend.device import device_problem
from pyrite.errors import DTypeError
from pyrite.onnx import ModelImportError, bound
from pyrite.onnx.inspection import inspect_here
from pyrite.onnx.loading import load_with
from pyrite.onnx.python.writing import write_with

#: How many cases of each device `make test` runs.
SAMPLE = {"numpy": 120, "cpu": 30, "wgpu": 10, "torch:cpu": 20}

#: How many of them are written as Python, and how many exported.
WRITTEN, EXPORTED = 40, 60

#: Of how many of the suite's 199 modules they are.
MODULES = 20

#: Modules with what is left out.
LEFT_OUT = ("adam", "momentum", "regex_full_match", "string_concat", "dequantizelinear")

HALVES = {np.dtype(np.float16): 2.0**-10, np.dtype(ml_dtypes.bfloat16): 2.0**-7}


@pytest.fixture(scope="module")
def some_modules(rng_of_session: random.Random, full: bool) -> list[str]:
    every = table.modules()
    return every if full else rng_of_session.sample(every, MODULES)


@pytest.fixture(scope="module")
def wanted(some_modules: list[str]) -> list[Any]:
    """The cases that are imported: all, or those of some modules."""
    cases = [case for module in some_modules for case in table.cases_of(module)]
    return [case for case in cases if table.exclusion(case.model) is None]


@pytest.fixture
def chosen(wanted: list[Any], full: bool, rng: random.Random) -> Any:
    """Return that many of them, or all."""
    return lambda count: wanted if full else rng.sample(wanted, min(count, len(wanted)))


@pytest.mark.parametrize("device", SAMPLE)
def test_a_case_gives_what_the_suite_expects(device: str, chosen: Any) -> None:
    if problem := device_problem(device):
        pytest.skip(problem)
    cases = chosen(SAMPLE[device])

    wrong = {case.name: said for case in cases if (said := what_is_wrong(case, device))}

    assert not wrong, "\n".join(f"{name}: {said}" for name, said in wrong.items())


def test_a_case_written_as_python_gives_what_the_suite_expects(chosen: Any, tmp_path: Path) -> None:
    cases = chosen(WRITTEN)

    wrong = {case.name: said for case in cases if (said := wrong_as_python(case, tmp_path))}

    assert not wrong, "\n".join(f"{name}: {said}" for name, said in wrong.items())


def test_a_case_that_is_exported_gives_in_onnxruntime_what_the_suite_expects(
    chosen: Any, full: bool
) -> None:
    pytest.importorskip("onnxruntime")
    import onnx_exported_cases as exported

    text = exported.PATH.read_text()
    counts: dict[str, Counter[str]] = {}
    for case in chosen(EXPORTED):
        op, stopped = table.op_of(case), ""
        try:
            for found, expected in exported.outputs(case):
                check = require_like if is_random(case) else require_close
                for one, other in zip(found, expected, strict=True):
                    check(one, other, case, "numpy")
        except exported.Stopped as reason:
            stopped = str(reason)
            (row,) = (line for line in text.splitlines() if line.startswith(f"| {stopped} |"))
            assert f" {op} " in row, f"{case.name}: run scripts/onnx_exported_cases.py"
        except Exception as error:
            raise AssertionError(f"{case.name} is not exported") from error
        counts.setdefault(stopped, Counter())[op] += 1

    made = table.section(text, exported.BEGIN)
    assert not full or exported.table(counts) == made, "run scripts/onnx_exported_cases.py"


def wrong_as_python(case: Any, folder: Path) -> str | None:
    """In which way the file of a case fails; None if it passes."""
    try:
        module = written_as_python(case, folder / case.name)
        model = module.load().to("numpy")
        for inputs, outputs in case.data_sets:
            made = model(*map(lifted, inputs))
            found = [made] if len(outputs) == 1 else list(made)
            check = require_like if is_random(case) else require_close
            for one, expected in zip(found, outputs, strict=True):
                check(one, carried(expected), case, "numpy")
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return None


def written_as_python(case: Any, folder: Path) -> ModuleType:
    """The module of a case's file, imported from where it was written."""
    path = write_with(case.model.SerializeToString(), folder, inspect_here)
    spec = importlib.util.spec_from_file_location("generated_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lifted(value: Any) -> Any:
    """A value of the suite as a generated model takes it."""
    value = carried(value)
    if isinstance(value, list):
        return [lifted(item) for item in value]
    return None if value is None else pyrite.tensor(value, device="numpy")


def test_what_is_left_out_is_refused(full: bool) -> None:
    modules = [m for m in table.modules() if full or m.endswith(LEFT_OUT)]
    cases = [case for module in modules for case in table.cases_of(module)]
    left_out = [case for case in cases if table.exclusion(case.model) is not None]

    assert len(left_out) >= len(modules) or full
    for case in left_out:
        with pytest.raises(ModelImportError) as caught:
            loaded(case.model, "numpy")
        assert caught.value.problems, case.name


@pytest.fixture
def page() -> str:
    text: str = table.PATH.read_text()
    if f"onnx {onnx.__version__}," not in text:
        pytest.skip("the page is of another version of onnx")
    return text


def test_the_page_of_ops_is_up_to_date(page: str, full: bool) -> None:
    section = table.section(page, table.OPS)

    assert section.endswith(table.ops()), "run scripts/onnx_table.py"
    assert not full or section.startswith(table.exclusions()), "run scripts/onnx_table.py"


def test_the_page_counts_the_cases_that_are_written_as_python(
    page: str, full: bool, chosen: Any
) -> None:
    made = table.section(page, table.PYTHON)
    told = {}
    for line in made.splitlines()[4:]:
        op, *numbers = (cell.strip() for cell in line.strip("| ").split("|"))
        told[op] = Counter(dict(zip(table.FORMS, map(int, numbers), strict=True)))

    # The sums follow from the rows, and the rows from the cases: of all, or of a few.
    assert table.python(told) == made, "run scripts/onnx_table.py"
    found = {op: Counter[str]() for op in told}
    for case in chosen(20):
        found[table.op_of(case)][table.form(case)] += 1
    assert all(found[op] <= told[op] for op in told), "run scripts/onnx_table.py"
    assert not full or found == told, "run scripts/onnx_table.py"


def test_the_page_tells_the_bounds(page: str) -> None:
    for number in (bound.MOST_MADE, bound.MOST_STEPS):
        power = str(number.bit_length() - 1).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
        assert number == 1 << (number.bit_length() - 1)
        assert f" 2{power} " in page
    assert f" {bound.MOST_STRETCHED:,} times " in page


def loaded(model: Any, device: str) -> Any:
    narrow = device == "wgpu"
    return load_with(model.SerializeToString(), inspect_here, device=device, narrow_int64=narrow)


def what_is_wrong(case: Any, device: str) -> str | None:
    """In which way a case fails on a device; None if it passes, or the device lacks its dtypes.

    A device without int64 refuses values that 32 bits do not hold: one case reads their bits.
    """
    try:
        model = loaded(case.model, device)
        for inputs, outputs in case.data_sets:
            made = model(*map(carried, inputs))
            found = [made] if len(model.outputs) == 1 else list(made)
            check = require_like if is_random(case) else require_close
            for one, expected in zip(found, outputs, strict=True):
                check(one, carried(expected), case, device)
    except DTypeError as error:
        is_lacking = "dtype" in str(error) or str(error).startswith("narrow_int64 requires")
        return None if device == "wgpu" and is_lacking else f"{error}"
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return None


def is_random(case: Any) -> bool:
    drawn = ("bernoulli", "training_dropout")
    return case.name.startswith(tuple(f"test_{name}" for name in drawn)) and "zero_ratio" not in (
        case.name
    )


def array_of(value: Any, expected: Any, device: str) -> Any:
    found = value.numpy() if isinstance(value, pyrite.Tensor) else np.asarray(value)
    if device == "wgpu" and found.dtype in (np.int32, np.uint32) and expected.dtype.itemsize == 8:
        return found.astype(expected.dtype)  # carried in 32 bits, as asked for
    return found


def require_close(value: Any, expected: Any, case: Any, device: str) -> None:
    if isinstance(expected, list):
        for one, other in zip(value, expected, strict=True):
            require_close(one, other, case, device)
        return
    if expected is None:
        assert value is None
        return
    found = array_of(value, expected, device)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected)
        return
    rtol, atol = max(case.rtol, 4 * HALVES.get(expected.dtype, 0.0)), case.atol
    wide = expected.astype(np.float64)
    if wide.size and "dft" in case.name:
        atol = 1e-6 * float(np.abs(wide).max())
    if expected.dtype in HALVES:
        atol = max(atol, HALVES[expected.dtype] * float(np.abs(wide[np.isfinite(wide)]).max()))
    np.testing.assert_allclose(found.astype(np.float64), wide, rtol=rtol, atol=atol)


def require_like(value: Any, expected: Any, case: Any, device: str) -> None:
    """Shape and dtype agree, and the values are of those that may be drawn."""
    found = array_of(value, expected, device)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if "dropout" in case.name and found.dtype != bool:
        inputs = case.data_sets[0][0]
        ratio = float(inputs[1]) if len(inputs) > 1 else 0.5
        kept = np.isclose(found, inputs[0] / (1 - ratio), rtol=1e-5)
        assert np.all(kept | (found == 0))
    elif found.dtype != bool:
        assert set(np.unique(found)) <= {0, 1}


@pytest.mark.parametrize(
    ("op", "attributes", "mean", "spread"),
    [
        ("RandomNormal", {"mean": 2.0, "scale": 3.0}, 2.0, 3.0),
        ("RandomUniform", {"low": -1.0, "high": 3.0}, 1.0, 4 / 12**0.5),
        ("Bernoulli", {}, 0.3, 0.21**0.5),
        ("Dropout", {}, 0.3, 0.3),
    ],
)
def test_a_random_op_has_the_moments_that_it_is_asked_for(
    op: str, attributes: dict[str, float], mean: float, spread: float
) -> None:
    shape = (200, 500)
    inputs, initializers = [], []
    if op.endswith(("Normal", "Uniform")):
        attributes = {**attributes, "shape": shape}
    else:
        inputs = ["x"]
        initializers = [onnx.numpy_helper.from_array(np.full(shape, 0.3, np.float32), "x")]
    if op == "Dropout":
        inputs += ["", "on"]
        initializers.append(onnx.numpy_helper.from_array(np.array(True), "on"))
    node = onnx.helper.make_node(op, inputs, ["y"], **attributes)
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)
    graph = onnx.helper.make_graph([node], "random", [], [y], initializers)
    opset = onnx.helper.make_opsetid("", 22)

    values = loaded(onnx.helper.make_model(graph, opset_imports=[opset]), "numpy")().numpy()

    # 5 standard errors of the mean, and of the spread of a normal distribution.
    assert abs(values.mean() - mean) < 5 * spread / values.size**0.5
    assert abs(values.std() - spread) < 5 * spread / values.size**0.5
