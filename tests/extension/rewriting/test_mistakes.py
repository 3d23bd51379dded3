"""What cannot be recorded is an error of its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyrite
from pyrite.backend.device import Device
from pyrite.errors import KernelError


def generating(k: Any, x: Any, n: Any, out: Any) -> Any:  # the line
    yield x[0, 0]


def asking(k: Any, x: Any, n: Any, out: Any) -> None:
    def inner() -> float:
        nonlocal total  # the line
        total = 1.0
        return total

    total = 0.0
    out[k.at] = inner()


def setting(k: Any, x: Any, n: Any, out: Any) -> None:
    global ROWS  # the line
    ROWS = 3
    out[k.at] = 1.0


def endless(x: Any, depth: Any) -> Any:
    if depth > 0.0:
        return endless(x, depth - 1.0)  # the line
    return depth


def calling_itself(k: Any, x: Any, n: Any, out: Any) -> None:
    out[k.at] = endless(x, x[0, 0])


def of_two_types(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    total = x[i, 0]
    for j in range(n[i]):  # the line
        total = n[j]
    out[i] = total


def a_text_or_a_number(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    if x[i, 0] > 0.0:  # the line
        value = "text"
    else:
        value = x[i, 0]
    out[i] = value


def unset_on_one_way(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    if x[i, 0] > 0.0:
        value = x[i, 0]
    out[i] = value + 1.0  # the line


def written_unset(k: Any, x: Any, n: Any, out: Any) -> None:
    (i,) = k.at
    if x[i, 0] > 0.0:
        value = x[i, 0]
    out[i] = value  # the line


def a_list_that_grows(k: Any, x: Any, n: Any, out: Any) -> None:
    found: list[Any] = []
    for j in range(3):
        found.append(x[j, 0])
    out[k.at] = found[0]  # the line


def a_list_by_a_counter(k: Any, x: Any, n: Any, out: Any) -> None:
    weights, total = [1.0, 2.0, 3.0], 0.0
    for j in range(3):
        total += weights[j]  # the line
    out[k.at] = total


def no_step(k: Any, x: Any, n: Any, out: Any) -> None:
    for _ in range(0, 3, 0):  # the line
        out[k.at] = 1.0


def a_step_of_the_kernel(k: Any, x: Any, n: Any, out: Any) -> None:
    for _ in range(0, 10, n[0]):  # the line
        out[k.at] = 1.0


def a_fraction_as_a_bound(k: Any, x: Any, n: Any, out: Any) -> None:
    for _ in range(x[0, 0]):  # the line
        out[k.at] = 1.0


def of_other_lengths(k: Any, x: Any, n: Any, out: Any) -> None:
    pair = (x[0, 0], 1.0)
    while pair[0] < 3.0:  # the line
        pair = (pair[0] + 1.0, 1.0, 2.0)
    out[k.at] = pair[0]


def raising(k: Any, x: Any, n: Any, out: Any) -> None:
    if x.ndim != 2:
        raise ValueError("rows")
    if x[0, 0] > 0.0:
        out[k.at] = 1.0
    else:
        raise ValueError("not positive")  # the line


def summing(k: Any, x: Any, n: Any, out: Any) -> None:
    out[k.at] = x.sum()  # the line


def of_a_condition(k: Any, x: Any, n: Any, out: Any) -> None:
    out[k.at] = (x[0, 0] > 0.0) * 2.0  # the line


MISTAKES: dict[Any, str] = {
    generating: "functions that return, got the generator generating; return a tuple",
    asking: "statements that can be recorded, got nonlocal",
    setting: "statements that can be recorded, got global",
    calling_itself: "do not call themselves, .* got endless inside itself; write a loop",
    of_two_types: "total requires one type, got float32 before the loop and int32 after a round",
    a_text_or_a_number: "value requires to be a value or a number .* got 'text' where",
    unset_on_one_way: "names to be set before they are read, got value, .*; write value = ",
    written_unset: "names to be set before they are read, got value, .*; write value = ",
    a_list_that_grows: r"loop .* that has ended; set a name in it .* k\.static\(range\(n\)\)",
    a_list_by_a_counter: r"require a Python int, .* k\.static\(range\(n\)\)",
    no_step: "range requires a step that is known .*, got 0",
    a_step_of_the_kernel: "range requires a step that is known .*, got int32",
    a_fraction_as_a_bound: "range requires numbers and values of int32, got float32; cast it",
    raising: "raise requires a condition that Python knows, .* k.check",
    summing: "x.sum requires a tensor outside of a kernel, got one inside, .*; write a loop",
    of_a_condition: "got 2 of bool; choose a number",
    of_other_lengths: "pair requires as many items .* a tuple of 2 before .* a tuple of 3 after",
}


@pytest.mark.parametrize("function", MISTAKES, ids=lambda f: f.__name__)
def test_what_cannot_be_is_an_error_of_its_line(
    function: Any, interpreter: Device, op_of: Any, rows: Any
) -> None:
    x, n = (pyrite.tensor(a, device=interpreter) for a in rows)

    with pytest.raises(KernelError, match=MISTAKES[function]) as caught:
        op_of(function)(x, n)

    file, line = str(caught.value.location).rsplit(":", 1)
    assert file == __file__
    assert "# the line" in Path(__file__).read_text().splitlines()[int(line) - 1]
