"""A signature read off the code is that of `inspect`, for every op and every kind of parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import pyrite
from pyrite.op.signature import NO_DEFAULT, Signature


def every_kind(
    a: Any, b: Any = 1, /, c: Any = 2, *rest: Any, d: Any, e: int | None = 3
) -> None: ...


def no_defaults(x: Any, *, y: Any, **others: Any) -> None: ...


@functools.wraps(every_kind)
def wrapper(*args: Any, **kwargs: Any) -> None: ...


def stands_for_another(*args: Any) -> None: ...


stands_for_another.__signature__ = inspect.signature(every_kind)  # type: ignore[attr-defined]

METHODS = [
    inspect.unwrap(method)
    for name in dir(pyrite.Tensor)
    if hasattr(method := getattr(pyrite.Tensor, name), "op")
]


def parameters(function: Callable[..., Any], kind: Any) -> tuple[str, ...]:
    found = inspect.signature(function).parameters.values()
    return tuple(p.name for p in found if p.kind is kind)


@pytest.mark.parametrize("of", [[every_kind, no_defaults, wrapper, stands_for_another], METHODS])
def test_a_signature_is_that_of_inspect(of: list[Callable[..., Any]]) -> None:
    assert of
    for function in of:
        found = Signature.of(function)
        P = inspect.Parameter
        assert found.positional_only == parameters(function, P.POSITIONAL_ONLY)
        assert found.positional == parameters(function, P.POSITIONAL_OR_KEYWORD)
        assert found.keyword_only == parameters(function, P.KEYWORD_ONLY)
        variadic = () if found.variadic is None else (found.variadic,)
        assert variadic == parameters(function, P.VAR_POSITIONAL)
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is not P.VAR_KEYWORD:
                assert found.default(parameter.name) is parameter.default
        assert found.inspected() == inspect.signature(function)
    assert Signature.of(no_defaults).default("x") is NO_DEFAULT
