from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyrite.errors import DTypeError, RecordError
from pyrite.record import MatchError, cast, fit, match, remap
from pyrite.record.remap import Expected

EXPECTED: Expected = {
    "fc.weight": ((3, 2), "float32"),
    "fc.bias": ((3,), "float32"),
    "steps": ((), "int32"),
}


def found(prefix: str = "") -> dict[str, np.ndarray[Any, Any]]:
    return {
        f"{prefix}fc.weight": np.ones((3, 2), np.float32),
        f"{prefix}fc.bias": np.ones(3, np.float32),
        f"{prefix}steps": np.array(3, np.int32),
    }


def test_rules_are_applied_in_order() -> None:
    arrays = {"module.layer1.w": np.ones(1), "head.w": np.zeros(1)}
    renamed = remap(arrays, [(r"^module\.", ""), (r"layer(\d)", r"layers.\1"), ("^layers", "body")])
    assert list(renamed) == ["body.1.w", "head.w"]
    assert renamed["head.w"] is arrays["head.w"]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([(r"\d", "")], r"distinct names, got 'w' from both 'w1' and 'w2'"),
        ([("(", "")], r"regular expressions, got '\('"),
        ([("w", r"\1")], "replacements that fit their pattern"),
        ([("w", r"\g<name>")], "replacements that fit their pattern"),
    ],
)
def test_bad_rules_are_clear_errors(rules: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        remap({"w1": np.ones(1), "w2": np.ones(1)}, rules)


def test_rules_may_be_a_dict() -> None:
    assert list(remap({"model.w": np.ones(1)}, {r"^model\.": "net."})) == ["net.w"]


@pytest.mark.parametrize("rules", ["ab", [r"^model\."], [("a", "b", "c")], [3]])
def test_what_is_no_pair_is_a_clear_error(rules: Any) -> None:
    with pytest.raises(RecordError, match=r"rules requires pairs of \(pattern, replacement\)"):
        remap({"w": np.ones(1)}, rules)


def test_what_fits_is_applied_in_the_order_of_the_module() -> None:
    report = match(EXPECTED, dict(reversed(found().items())))
    assert report.applied == ("fc.weight", "fc.bias", "steps")
    assert report.ok


def test_all_problems_are_in_one_report() -> None:
    arrays = found() | {"fc.weight": np.ones((2, 3)), "steps": np.ones(()), "fc.bais": np.ones(3)}
    del arrays["fc.bias"]
    with pytest.raises(MatchError) as caught:
        match(EXPECTED, arrays)
    report = caught.value.report
    assert (report.applied, report.missing, report.unexpected) == ((), ("fc.bias",), ("fc.bais",))
    assert [m.name for m in report.mismatched] == ["fc.weight", "steps"]
    assert str(caught.value) == (
        "loading requires the module's arrays, got "
        "0 applied, 1 missing, 1 unexpected, 2 mismatched\n"
        "  mismatched:\n"
        "    fc.weight: expected (3, 2), found (2, 3)\n"
        "    steps: expected int32, found float64\n"
        "  missing (in the module, not in the file):\n"
        "    fc.bias  (did you mean fc.bais?)\n"
        "  unexpected (in the file, not in the module):\n"
        "    fc.bais\n"
        "if that is meant, load with partial=True, allow_unused=True"
    )


@pytest.mark.parametrize("prefix", ["model.", "_orig_mod.module."])
def test_a_prefix_is_seen_and_its_rule_given(prefix: str) -> None:
    with pytest.raises(MatchError, match="have a prefix") as caught:
        match(EXPECTED, found(prefix))
    rules = eval(str(caught.value).rpartition("rules=")[2])
    arrays, report = fit(found(prefix), EXPECTED, rules=rules)
    assert report.ok
    assert arrays.keys() == EXPECTED.keys()


def test_a_lacking_prefix_is_seen_and_its_rule_given() -> None:
    expected = {f"encoder.{name}": spec for name, spec in EXPECTED.items()}
    with pytest.raises(MatchError, match="lack a prefix") as caught:
        match(expected, found())
    rules = eval(str(caught.value).rpartition("rules=")[2])
    assert fit(found(), expected, rules=rules)[1].ok


def test_partial_and_allow_unused_allow_just_that() -> None:
    arrays = found() | {"extra": np.ones(1)}
    del arrays["steps"]
    for flags in ({}, {"partial": True}, {"allow_unused": True}):
        with pytest.raises(MatchError):
            match(EXPECTED, arrays, **flags)
    report = match(EXPECTED, arrays, partial=True, allow_unused=True)
    assert (report.applied, report.missing) == (("fc.weight", "fc.bias"), ("steps",))
    arrays["fc.bias"] = np.ones(4)
    with pytest.raises(MatchError, match=r"expected \(3,\), found \(4,\)"):
        match(EXPECTED, arrays, partial=True, allow_unused=True)


def test_a_report_of_thousands_of_names_is_short_but_whole() -> None:
    arrays = {f"theirs.{i}.w": np.ones(1) for i in range(5000)}
    expected: Expected = {f"ours.{i}.w": ((1,), "float32") for i in range(5000)}
    with pytest.raises(MatchError, match="and 4980 more") as caught:
        match(expected, arrays)
    assert len(caught.value.report.missing) == 5000
    assert str(caught.value).count("\n") < 60


def test_policy_file_keeps_what_was_saved() -> None:
    arrays: dict[str, np.ndarray[Any, Any]] = {"a": np.ones(2, np.float16)}
    assert cast(arrays, "file", {"a": ((2,), "float32")})["a"] is not None
    assert cast(arrays, "file", {})["a"].dtype == np.float16


def test_policy_module_casts_to_what_the_module_has() -> None:
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "a": np.ones(2, ml_dtypes.bfloat16),
        "b": np.array([-1, 2]),
        "c": np.ones(2, ml_dtypes.float8_e4m3fn),
    }
    expected: Expected = {"a": ((2,), "float32"), "b": ((2,), "int8"), "c": ((2,), "float16")}
    result = cast(arrays, "module", expected)
    assert [array.dtype.name for array in result.values()] == ["float32", "int8", "float16"]
    assert result["b"].tolist() == [-1, 2]


def test_a_float_policy_leaves_integers_and_bools() -> None:
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "a": np.ones(2), "b": np.arange(2), "c": np.array([True])
    }  # fmt: skip
    result = cast(arrays, "bfloat16", {})
    assert [array.dtype.name for array in result.values()] == ["bfloat16", "int64", "bool"]


@pytest.mark.parametrize(
    ("values", "before", "target"),
    [
        ([1e6], "float32", "float16"),
        ([1e300], "float64", "float32"),
        ([1e39], "float64", "bfloat16"),
        ([300], "int64", "int8"),
        ([-1], "int8", "uint8"),
        ([-1], "int64", "uint64"),
        ([2**63], "uint64", "int64"),
    ],
)
def test_a_cast_that_loses_a_value_is_an_error(
    values: list[float], before: str, target: str
) -> None:
    arrays: dict[str, np.ndarray[Any, Any]] = {"a": np.array(values, before)}
    with pytest.raises(RecordError, match=f"'a' from {before} to {target}"):
        cast(arrays, "module", {"a": ((1,), target)})


def test_infinities_and_nan_survive_a_cast() -> None:
    arrays: dict[str, np.ndarray[Any, Any]] = {"a": np.array([np.inf, -np.inf, np.nan])}
    np.testing.assert_array_equal(cast(arrays, "float16", {})["a"], arrays["a"])


def test_a_dtype_that_pyrite_lacks_is_an_error_under_policy_file() -> None:
    arrays: dict[str, np.ndarray[Any, Any]] = {"a": np.ones(2, ml_dtypes.float8_e5m2)}
    with pytest.raises(RecordError, match="'a', which Pyrite lacks float8_e5m2 for"):
        cast(arrays, "file", {})
    assert cast(arrays, "float32", {})["a"].tolist() == [1, 1]


def test_an_unknown_policy_is_an_error() -> None:
    with pytest.raises(DTypeError, match="modul"):
        cast({"a": np.ones(1)}, "modul", {})
    with pytest.raises(RecordError, match="a float dtype, got int32"):
        cast({"a": np.ones(1)}, "int32", {})


def test_fit_remaps_matches_and_casts() -> None:
    arrays = {name: array.astype(np.float16) if array.ndim else array.astype(np.int64)
              for name, array in found("m.").items()}  # fmt: skip
    result, report = fit(arrays, EXPECTED, rules=[(r"^m\.", "")])
    assert report.applied == tuple(EXPECTED)
    assert {name: array.dtype.name for name, array in result.items()} == {
        "fc.weight": "float32", "fc.bias": "float32", "steps": "int32"
    }  # fmt: skip
