"""What a row type declares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Optional

import pytest

from pyrite.data.source.row import Field, row_fields
from pyrite.errors import DTypeError


@dataclass
class Data:
    a: int
    b: Optional[float]  # noqa: UP045  (the older spelling must be read too)
    c: str | None = None
    d: bool = field(default_factory=bool)
    derived: int = field(default=0, init=False)


class Tuple(NamedTuple):
    a: int
    b: float = 1.0


class Mixed(NamedTuple):
    a: int | float


def test_the_fields_of_a_dataclass_are_those_of_its_constructor() -> None:
    assert row_fields(Data) == (
        Field("a", int, is_optional=False, has_default=False),
        Field("b", float, is_optional=True, has_default=False),
        Field("c", str, is_optional=True, has_default=True),
        Field("d", bool, is_optional=False, has_default=True),
    )


def test_a_named_tuple_declares_defaults_too() -> None:
    assert [field.has_default for field in row_fields(Tuple)] == [False, True]


def test_a_field_of_two_types_is_refused() -> None:
    with pytest.raises(DTypeError, match=r"Mixed.a: int \| float"):
        row_fields(Mixed)


@pytest.mark.parametrize("row", [int, tuple, dict])
def test_other_types_are_no_rows(row: type) -> None:
    with pytest.raises(DTypeError, match="dataclass or NamedTuple"):
        row_fields(row)
