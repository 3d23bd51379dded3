"""Kernels compiled before they are needed, away from the thread that asks: a window goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyrite.synchronization import awaited
from pyrite.tensor.tree import tree_leaves


async def prepare(function: Callable[..., Any], /, *examples: Any, **named: Any) -> None:
    """Run a function once on another thread, so that a call like it compiles nothing.

    ``await prepare(step, image, strength=0.5)`` returns when all that ``step(image, strength=0.5)``
    asks for is done; the event loop goes on meanwhile (asyncio's, trio's, rendercanvas').  What the
    function returns is dropped.  What it does beside that is done: it draws random numbers, and
    writes to memory that it is given by ``out=``.  The examples have the types of the later inputs,
    on their device; their values do not matter.

    Raises what the function raises.

    >>> import asyncio
    >>> import pyrite
    >>> x = pyrite.ones((2, 2))
    >>> asyncio.run(prepare(lambda x: (x @ x).exp().sum(), x))
    """

    def run() -> None:
        made = function(*examples, **named)
        # What was only recorded is compiled when it runs.
        for device in {t.device for t in tree_leaves((made, examples, named))}:
            device.synchronize()

    await awaited(run)
