"""`pyrite.onnx` is an extra, imported when it is first used."""

from __future__ import annotations

import pyrite


def test_pyrite_onnx_is_imported_when_it_is_first_used() -> None:
    assert issubclass(pyrite.onnx.ModelImportError, ValueError)


def test_an_import_error_holds_its_problems_one_by_one() -> None:
    error = pyrite.onnx.ModelImportError("two faults", ("one", "another"))

    assert error.problems == ("one", "another")
