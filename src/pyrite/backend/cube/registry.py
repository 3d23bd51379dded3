"""The table of lowerings: an op finds one under its name, or that of its rules' class.

A family is a file that defines lowerings and marks them with the names of their ops:

    @lowers("argsort", why="an order has no class")
    def argsort(launcher, op, inputs, attrs, out): ...

It is then imported in `lowering/__init__.py`, which is all that makes it known.  Ops with a scalar
rule need no entry.  A composite with an entry is run whole, without one it is expanded.

A lowering runs once for inputs of the same types and layouts, on slots in place of their buffers,
and what it asked the launcher for is repeated after that (see `recording_launcher`).  So memory
comes from ``launcher.empty``, numbers from ``launcher.number``, and nothing depends on values; only
a lowering of an op with ``sync`` may read.

Each family has a frozen config record with the sizes that its kernels leave open, a function
``candidates(...)`` that lists the configs that are right for a problem, and ``select(...)`` which
picks one of them; no kernel hard-codes a tile.  A test runs all candidates and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pyrite.backend.cube.epilogue import Epilogue
from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.means import BODY, KERNELS, OWN
from pyrite.config import config
from pyrite.op import Attributes, Constant, Op, Rule
from pyrite.types import TensorType

#: Tensors, numbers, and None for inputs that were left out.
Input = CubeTensor | Constant | None
Types = tuple[TensorType, ...] | None
Lowering = Callable[[Launcher, Op, Sequence[Input], Attributes, Any], Sequence[CubeTensor]]
L = TypeVar("L", bound=Lowering)
#: What runs an op and an epilogue by the same kernels; False where it cannot, and has done nothing.
Finishing = Callable[[Launcher, Op, Sequence[Input], Attributes, Any, Epilogue], bool]
F = TypeVar("F", bound=Finishing)

Condition = Callable[[Machine, Sequence[Input]], bool]
Preference = Callable[[Machine, Op, Sequence[Input], Attributes], bool]

#: Lowerings by the name of the op, and for which inputs those of some composites are.
LOWERINGS: dict[str, Lowering] = {}
#: Lowerings by the class of an op's rule: what an op without a lowering of its own becomes.
SKELETONS: dict[type[Rule], Lowering] = {}
CONDITIONS: dict[str, Condition] = {}
#: Why each op has one under its name, for the table of rule classes.
REASONS: dict[str, str] = {}
#: What runs a lowering with an epilogue, where its kernels take one.
FINISHING: dict[Lowering, Finishing] = {}
#: When the lowering of a class is better for a composite than its body.
PREFERENCES: dict[type[Rule], Preference] = {}


def lowers(*names: str, why: str, when: Condition | None = None) -> Callable[[L], L]:
    """Mark a function as the lowering of the ops of these names.

    ``why`` says what it has before the kernels of the op's rule or body: `benchmarks/own.py`
    measures by how much it is faster.  ``when`` says of a composite for which machines and inputs
    it is; else the op is expanded.
    """

    def mark(lowering: L) -> L:
        for name in names:
            assert name not in LOWERINGS, f"{name} is lowered twice"
            LOWERINGS[name] = lowering
            REASONS[name] = why
            if when is not None:
                CONDITIONS[name] = when
        return lowering

    return mark


def lowers_rule(rule: type[Rule], *, over_body: Preference | None = None) -> Callable[[L], L]:
    """Mark a function as the lowering of all ops with a rule of a class.

    ``over_body`` says of a composite for which machines, inputs and attributes it is better than
    the kernels of its body; without it always.
    """

    def mark(lowering: L) -> L:
        assert rule not in SKELETONS, f"{rule.name} is lowered twice"
        SKELETONS[rule] = lowering
        if over_body is not None:
            PREFERENCES[rule] = over_body
        return lowering

    return mark


def finishes(*lowerings: Lowering) -> Callable[[F], F]:
    """Mark a function as what runs lowerings with an epilogue on each element of the result."""

    def mark(finishing: F) -> F:
        for lowering in lowerings:
            assert lowering not in FINISHING, "two ways to finish a lowering"
            FINISHING[lowering] = finishing
        return finishing

    return mark


def prefers_rule(machine: Machine, op: Op, inputs: Sequence[Input], attrs: Attributes) -> bool:
    """Return whether a composite's rule makes better kernels than its body."""
    if op.rule is None:
        return False
    preference = PREFERENCES.get(type(op.rule))
    return preference is None or preference(machine, op, inputs, attrs)


def lowering_of(op: Op) -> Lowering | None:
    """Return the lowering under an op's name, or else that of the class of its rule."""
    own = None if config.rules_only and op.is_classed else LOWERINGS.get(op.name)
    return own or (None if op.rule is None else SKELETONS.get(type(op.rule)))


def means_of(op: Op, lowering: Lowering) -> str:
    """Return by what an op runs that runs by a lowering; see `pyrite.backend.means`."""
    if LOWERINGS.get(op.name) is lowering:
        return OWN
    if op.rule is not None and SKELETONS.get(type(op.rule)) is lowering:
        return op.rule.name
    if op.scalar is not None:
        return "scalar"
    return BODY if op.body is not None else KERNELS
