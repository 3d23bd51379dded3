"""Digests of keys: the same in every process, and others for whatever tells two keys apart."""

from __future__ import annotations

import itertools
import subprocess
import sys
import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pyrite.content import NoContentError, content_of
from pyrite.content.digest import digest_of
from pyrite.content.reader import ContentKey
from pyrite.kernel.extent import SOME
from pyrite.op import OPS
from pyrite.op.record import Op
from pyrite.types import bfloat16, bool_, float16, float32, int8

#: What `digest_of` is given as it is, in a form that another process evaluates too.
VALUES = (
    "0", "1", "-1", "2**70", "True", "False", "0.0", "-0.0", "1.0", "float('nan')", "1j",
    "''", "'1'", "'ab'", "'\\ud800'", "b''", "b'1'", "None", "()", "(1,)", "(1, (2, 3))",
    "((1, 2), 3)", "(1, 2, 3)", "('a', 'b')", "('ab',)", "frozenset({1, 2})", "frozenset({1, 3})",
    "range(3)", "slice(1, None)", "np.float32(1)", "np.float64(1)", "np.dtype('float32')",
    "np.dtype('>f4')", "np.dtype('int32')", "np.exp", "np.log", "len", "abs", "str.upper",
    "str.lower", "int", "str",
    "np.zeros(3)", "np.zeros(4)", "np.zeros((3, 1))", "np.arange(2000.0)", "lambda x: x",
    "lambda x: x + 1", "lambda x, y=1: x", "lambda x, y=2: x", "lambda x: lambda: 1",
    "lambda x: lambda: 2", "lambda x: x in {1, 2}", "lambda x: x in {1, 3}", "lambda x: x + 1.0",
    "lambda x: x + True", "lambda x: x - 0.0", "lambda x: x - -0.0", "lambda x: np.exp(x)", "...",
    "float32", "float16", "ContentKey(content_of((1, 2)))", "ContentKey(content_of((1, 3)))",
)  # fmt: skip

SOURCE = """
import numpy as np
from pyrite.content import content_of
from pyrite.content.digest import digest_of
from pyrite.content.reader import ContentKey
from pyrite.types import float16, float32
digests = [digest_of(content_of(eval(text))) for text in {values!r}]
"""


def digests() -> list[str]:
    """Return the digests of all values in this process."""
    names: dict[str, Any] = {}
    # Without the annotations of this file, which code would have as a flag.
    source = SOURCE.format(values=VALUES)
    exec(compile(source, "<digests>", "exec", dont_inherit=True), names)
    found: list[str] = names["digests"]
    return found


def test_values_that_differ_have_other_digests() -> None:
    found = digests()
    pairs = itertools.combinations(zip(VALUES, found, strict=True), 2)
    assert [(x, y) for (x, of_x), (y, of_y) in pairs if of_x == of_y] == []


def test_another_process_has_the_same_digests() -> None:
    # Another seed of strings' hashes: sets come in another order.
    source = SOURCE.format(values=VALUES) + "print(*digests)"
    code = f"exec(compile({source!r}, '<digests>', 'exec'))"
    for seed in ("1", "2"):
        made = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
        )  # fmt: skip
        assert made.stdout.split() == digests()


def test_our_own_records_are_known_by_what_they_hold() -> None:
    ours = [SOME, OPS["add"], OPS["mul" if "mul" in OPS else "multiply"], OPS["sum"].rule]
    ours += [OPS["max"].rule, float32, float16, bfloat16, bool_, int8]
    assert len({digest_of(content_of(x)) for x in ours}) == len(ours)


@dataclass(frozen=True)
class Mine:
    """A class of an application."""

    size: int


@pytest.mark.parametrize(
    "value",
    [object(), Mine, Mine(3), np.dtype([("x", "f4")]), np.frompyfunc(abs, 1, 1)],
    ids=["object", "class", "value", "record", "ufunc"],
)
def test_what_other_processes_may_know_as_something_else_has_none(value: Any) -> None:
    with pytest.raises(NoContentError):
        digest_of(content_of(value))


def test_an_applications_op_has_none() -> None:
    from pyrite.content import Functions

    op = Op("mine", ("x",), {}, scalar=lambda k, x: x, reads=Functions(lambda x: x))
    with pytest.raises(NoContentError, match="op mine"):
        digest_of((op,))


def test_code_on_other_lines_has_another_digest() -> None:
    # Messages name the lines.
    found = []
    for lines in ("", "\n"):
        names: dict[str, Any] = {}
        exec(compile(f"{lines}def f(x): return x", "mine.py", "exec"), names)
        assert isinstance(names["f"], types.FunctionType)
        found.append(digest_of(content_of(names["f"])))
    assert found[0] != found[1]


def test_a_content_key_keeps_its_digest() -> None:
    key = ContentKey((1, 2))
    assert key.digest is None
    assert digest_of((key,)) == digest_of((ContentKey((1, 2)),))
    assert key.digest is not None
