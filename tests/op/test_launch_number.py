"""What a function may look at is told from its code, and never too little."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from pyrite.op.launch_number import may_read


def named(x: Any, *, order: int, scale: float) -> Any:
    return x[:order]


def rest(x: Any, **attrs: Any) -> Any:
    return attrs["scale"]


def unused_rest(x: Any, *types: Any, **_: Any) -> Any:
    return x if types else None


def nested(x: Any, *, scale: float) -> Any:
    return [lambda: scale for _ in x]


def nested_rest(x: Any, **attrs: Any) -> Any:
    return [lambda: attrs for _ in x]


def all_at_once(x: Any, *, scale: float) -> Any:
    return locals()["scale"]


def written_only(x: Any, *, scale: float) -> Any:
    scale = 2.0  # noqa: F841
    return x


def by_place(x: Any, scale: float = 1.0) -> Any:
    return x + scale


READERS: list[Callable[..., Any]] = [
    rest, nested, nested_rest, all_at_once, by_place, functools.partial(named, order=1),
    functools.lru_cache(named), max, lambda x: x, lambda x, **attrs: dict(attrs),
]  # fmt: skip


@pytest.mark.parametrize("function", READERS)
def test_what_might_read_an_argument_may(function: Any) -> None:
    assert may_read(function, "scale")


@pytest.mark.parametrize(
    "function", [named, unused_rest, lambda x, *, scale: x, lambda x, scale: x]
)
def test_what_never_loads_an_argument_does_not_read_it(function: Any) -> None:
    assert not may_read(function, "scale")


def test_another_argument_is_another_question() -> None:
    assert may_read(named, "order")
    assert may_read(written_only, "scale")  # a write counts: nobody has to tell them apart
