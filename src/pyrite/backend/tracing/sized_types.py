"""The types of a composite's results for all sizes: its body is traced once on symbols.

A body that has no rule for its types is traced at each new size to tell them, which takes an
optimiser's step 0.6 ms.  Most say the same of all sizes, so at the third size of a kind it is
traced with a symbol in the place of each (`pyrite.sized`); what comes of that and the guards are
one function from the sizes of a call to those of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from pyrite.cached import UnhashableSymbolError
from pyrite.content import NoContentError, content_of
from pyrite.errors import ArgumentError, PyriteError
from pyrite.op import Attributes, Constant, Op, rules_key
from pyrite.recent import Recent
from pyrite.sized import Sized, SizeSymbols, has_symbol
from pyrite.types import DType, TensorType

#: What a body is given: the type of a tensor, the type and maybe the value of a number, or None.
Given = TensorType | Constant | None
#: From an op, what it is given and its attributes to the types of its results.
Trace = Callable[[Op, Sequence[Given], Attributes], "tuple[TensorType, ...] | None"]

#: Kinds of calls that are kept.
_KEPT: Final = 512
#: At which size of a kind it is traced on symbols: one or two are what most programs have.
_LEARNED_AT: Final = 3
#: Classes of sizes of one kind.
_MOST: Final = 8


@dataclass(frozen=True, slots=True)
class _Class:
    """Types of results for sizes of a class."""

    #: From the sizes of what is given to those of results, None for sizes of another class.
    sizes: Sized
    #: Of each result how many axes it has, and its dtype.
    results: tuple[tuple[int, DType], ...]

    def types(self, given: Sequence[int]) -> tuple[TensorType, ...] | None:
        """Return the types for given sizes, None if they are of another class."""
        try:
            found = self.sizes(*given)
        except ArithmeticError:  # a question that makes no sense here
            return None
        if found is None:
            return None
        left = iter(found)
        return tuple([
            TensorType(tuple([int(next(left)) for _ in range(ndim)]), dtype)
            for ndim, dtype in self.results
        ])  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Kind:
    """Calls that differ in sizes alone: how many were traced, and the classes of their sizes."""

    traced: int = 0
    classes: tuple[_Class, ...] = ()


_kinds: Recent[Hashable, _Kind] = Recent(_KEPT)


def types_by_sizes(
    op: Op, given: Sequence[Given], attrs: Attributes, trace: Trace
) -> tuple[TensorType, ...] | None:
    """Return what a trace finds, for sizes like those of others without one."""
    sizes = [n for x in given if isinstance(x, TensorType) for n in x.shape]
    if has_symbol(sizes):  # a composite in the body of another that is traced on symbols
        return trace(op, given, attrs)
    try:
        key = (op, rules_key(op), _form(given), content_of(tuple(sorted(attrs.items()))))
        kind = _kinds.get(key) or _Kind()
    except (NoContentError, ArgumentError, UnhashableSymbolError):
        return trace(op, given, attrs)
    for known in kind.classes:
        found = known.types(sizes)
        if found is not None:
            return found
    found, count = trace(op, given, attrs), kind.traced + 1
    classes = kind.classes
    if found is not None and count >= _LEARNED_AT and len(classes) < _MOST:
        learned = _learned(op, given, attrs, trace)
        # Whatever went wrong on the way, it says the same of these sizes or is not kept.
        if learned is not None and learned.types(sizes) == found:
            classes = (learned, *classes)
    _kinds.put(key, _Kind(count, classes))
    return found


def _form(given: Sequence[Given]) -> Hashable:
    """Return what calls have in common that differ in sizes: see `tracer.traced`."""
    return tuple([
        (x.ndim, x.dtype) if isinstance(x, TensorType) else
        (content_of(x.value) if x.type.dtype.is_bool else "number", x.type)
        if isinstance(x, Constant) else x
        for x in given
    ])  # fmt: skip


def _learned(op: Op, given: Sequence[Given], attrs: Attributes, trace: Trace) -> _Class | None:
    """Return what a trace on symbols of these sizes found."""
    symbols = SizeSymbols()
    sized = [
        TensorType(tuple([symbols.size(n) for n in x.shape]), x.dtype)
        if isinstance(x, TensorType) else x
        for x in given
    ]  # fmt: skip
    try:
        out = trace(op, sized, attrs)
        if out is None:
            return None
        return _Class(
            symbols.program([n for type in out for n in type.shape]),
            tuple([(type.ndim, type.dtype) for type in out]),
        )
    except (PyriteError, UnhashableSymbolError):
        return None
    finally:
        symbols.products.clear()
