"""What a backend does of each op, read from its class: nothing runs there, and no device is needed.

A composite that a backend does not keep whole is expanded in NumPy as that backend would expand it,
and is as good as the worst of the primitives that it meets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pyrite.backend.numpy import NumPy
from pyrite.backend.protocol import Backend
from pyrite.op import Constant, Op, Plan
from pyrite.tensor.creation import tensor
from pyrite.testing.examples import Example, samples_of
from pyrite.testing.records import all_records
from pyrite.types import Array, float32

#: By the backend itself; made of ops that are; in NumPy for some inputs, or for all.
Support = Literal["native", "composed", "in part", "NumPy"]

#: `Backend.falls_back` of an op that never runs on the device.
ALWAYS = "always"


def support_of(backend: type[Backend], op: Op) -> Support:
    """Return how a class of backends runs an op.

    >>> [support_of(NumPy, all_records()[name]) for name in ("matmul", "softmax")]
    ['native', 'composed']
    """
    if op.name in backend.falls_back:
        return "NumPy" if backend.falls_back[op.name] == ALWAYS else "in part"
    if backend.has(op):
        return "native"
    if not op.is_composite:
        return "NumPy"
    return "in part" if parts_of(backend, op) & set(backend.falls_back) else "composed"


def parts_of(backend: type[Backend], op: Op) -> set[str]:
    """Return the names of the ops that a composite becomes, seen in its examples."""
    seen: set[str] = set()
    for number, sample in enumerate(samples_of(op)):
        example, observer = Example(op, number, sample), Observer(backend)
        example.run(float32, observer)
        seen |= observer.seen
    return seen


class Observer(NumPy):
    """NumPy, which expands composites as another class would, and notes what runs."""

    def __init__(self, observed: type[Backend]) -> None:
        self.observed = observed
        self.seen: set[str] = set()

    def keeps(self, op: Op, inputs: Sequence[Any]) -> bool:
        """Whether the observed class has something of its own for a composite."""
        return self.observed.has(op)

    def execute(self, op: Op, inputs: Sequence[Any], plan: Plan) -> Sequence[Array] | None:
        """Note the op, and execute it in NumPy."""
        if op.body is None:
            self.seen.add(op.name)
            return super().execute(op, inputs, plan)
        if not self.keeps(op, inputs):
            return None
        self.seen.add(op.name)
        result = op.body(*map(_argument, inputs), **plan.attrs)
        results = result if isinstance(result, tuple) else (result,)
        return [r.numpy() for r in results]


def _argument(value: Any) -> Any:
    if isinstance(value, Constant):
        return value.value
    return value if value is None else tensor(value, device="numpy")


def families() -> dict[str, list[Op]]:
    """Return the ops by what declares them, a file of `tensor` or another package, by name."""
    found: dict[str, list[Op]] = {}
    for op in all_records().values():
        meaning = op.body or op.scalar or op.reference
        assert meaning is not None, f"{op} has no meaning"
        root, package, *file = (*meaning.__module__.split("."), "")
        if root != "pyrite":
            continue  # an application's composite
        family = file[-2].replace("_", " ") if package == "tensor" else package
        found.setdefault(family, []).append(op)
    return {name: found[name] for name in sorted(found)}
