"""What a tensor looks like."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import arange, tensor, zeros
from pyrite.tensor.printing import (
    check_closeness,
    get_print_options,
    print_options,
    set_print_options,
)


def test_repr_shows_values_shape_dtype_and_device() -> None:
    assert repr(tensor([[1, 2], [3, 4]])) == (
        "tensor([[1, 2],\n        [3, 4]], shape=(2, 2), dtype=int32, device='numpy')"
    )
    assert repr(tensor(True)) == "tensor(True, shape=(), dtype=bool, device='numpy')"
    assert repr(zeros((0, 3))) == "tensor([], shape=(0, 3), dtype=float32, device='numpy')"
    assert repr(tensor([1.5], dtype="bfloat16")).startswith("tensor([1.5], shape=(1,), dtype=bf")


def test_many_elements_are_summarised() -> None:
    assert repr(arange(2000)).startswith("tensor([   0,    1,    2, ..., 1997, 1998, 1999], shape")
    with print_options(threshold=5, edge_items=1):
        assert repr(arange(6)).startswith("tensor([0, ..., 5], shape=(6,)")


def test_options_hold_in_the_block_and_in_its_thread_only() -> None:
    seen = []
    with print_options(precision=1) as options:
        assert options == get_print_options()
        with print_options(edge_items=2):
            assert repr(tensor(0.123)).startswith("tensor(0.1,")
        thread = threading.Thread(target=lambda: seen.append(get_print_options().precision))
        thread.start()
        thread.join()
    assert seen == [4]
    assert repr(tensor(0.123)).startswith("tensor(0.123,")


def test_set_print_options_holds_until_changed() -> None:
    set_print_options(precision=2)
    try:
        assert repr(tensor(0.12345)).startswith("tensor(0.12,")
    finally:
        set_print_options(precision=4)


def test_wrong_options_are_errors() -> None:
    with pytest.raises(ArgumentError, match="precision >= 0, got -1"):
        set_print_options(precision=-1)
    with pytest.raises(ArgumentError, match="got 'digits'"), print_options(digits=3):
        pass


def test_a_format_specification_formats_each_number() -> None:
    assert f"{tensor(3.14159):.2f}" == "3.14"
    assert f"{tensor(7):03d}" == "007"
    assert f"{tensor([3.14159, 2.0]):.1f}" == "[3.1, 2.0]"
    assert f"{tensor([1.5], dtype='float16'):.3f}" == "[1.500]"
    assert f"{tensor([1])}" == repr(tensor([1]))


def test_check_closeness_counts_what_is_close() -> None:
    report = check_closeness(tensor([1.0, np.nan, np.inf, 0.0]), [1.0, np.nan, np.inf, 0.05])
    first, second, *_ = report.splitlines()
    assert first == "eps 1e-01  100.0 %  pass"
    assert second == "eps 1e-02  75.0 %  fail"
    almost = check_closeness(np.zeros(100), np.eye(1, 100)[0]).splitlines()[0]
    assert almost.endswith("99.0 %  warn")
    assert check_closeness(zeros((0,)), zeros((0,))).count("pass") == 8
    with pytest.raises(ShapeError, match="equal shapes"):
        check_closeness([1.0], [1.0, 2.0])
