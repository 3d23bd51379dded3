"""What is found out of a kernel, once: by whoever asks first, or by the process that wrote it.

A fact of a kernel follows from the kernel alone.  A function that finds one is marked:

    @fact
    def node_count(kernel: Kernel) -> int: ...

Its result stays with the kernel (`Kernel.facts`), also on disk (`pyrite.kernel.encoding`): who has
a kernel from there needs no body for it.  It is made of numbers, strings, None and
tuples of such.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

from pyrite.kernel.ir import Kernel

T = TypeVar("T")

#: What finds the facts that are kept with kernels, by name.
FACTS: Final[dict[str, Callable[[Kernel], Any]]] = {}


def fact(function: Callable[[Kernel], T]) -> Callable[[Kernel], T]:
    """Have what a function finds out of a kernel stay with it."""
    name = f"{function.__module__}.{function.__name__}"

    @wraps(function)
    def found(kernel: Kernel) -> T:
        return known_fact(kernel, name, lambda: function(kernel))

    FACTS[name] = found
    return found


def known_fact(kernel: Kernel, name: str, find: Callable[[], T]) -> T:
    """Return the fact of a name, which is found if nobody asked before."""
    facts = kernel.facts
    if name not in facts:
        facts[name] = find()
    known: T = facts[name]
    return known


def facts_of(kernel: Kernel) -> dict[str, Any]:
    """Return all facts of a kernel, by name."""
    for find in FACTS.values():
        find(kernel)
    return dict(kernel.facts)
