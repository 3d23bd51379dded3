"""A kernel's function called once, to record the kernel that it is for one problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyrite.backend.cube.custom import Call
from pyrite.backend.cube.operand import Layout
from pyrite.errors import KernelError, PyriteError
from pyrite.extension.argument import AtomicWanted, TensorArgument, WordsWanted
from pyrite.extension.direct import DirectArgument
from pyrite.extension.flow import Flow
from pyrite.extension.problem import Known, Problem
from pyrite.extension.rewriting import bound
from pyrite.extension.scope import KernelScope
from pyrite.kernel.ir import Access
from pyrite.op import Attributes, raised_at
from pyrite.symbol import Symbols
from pyrite.types import Shape, element_count, float64


class Writing:
    """What recordings of one kernel have in common.

    ``readable`` are the outputs that hold something before; ``by_grid`` says that it runs for each
    invocation of a grid, and not for each element; ``follows`` that others ran before it;
    ``is_counted`` that nobody knows its grid before it runs.  So many
    ``inner`` axes of the first output are the business of one invocation.  ``scope`` is of what the
    device has, as is whether it ``adds_floats``.
    """

    def __init__(
        self,
        function: Callable[..., None],
        name: str,
        sizes: Shape,
        *,
        readable: set[str],
        by_grid: bool,
        follows: bool,
        is_counted: bool = False,
        inner: int = 0,
        scope: type[KernelScope] = KernelScope,
        adds_floats: bool = False,
    ) -> None:
        self._function, self._name, self._sizes = function, name, sizes
        self._readable, self._by_grid, self._follows = readable, by_grid, follows
        self._is_counted = is_counted
        self._inner = inner
        self._scope = scope
        self._adds_floats = adds_floats
        #: Outputs of floats that are changed by atomics of integers.
        self._in_words: set[str] = set()

    def written(
        self, call: Call, grid: Shape, problem: Problem, *, are_known: bool
    ) -> tuple[KernelScope, Symbols]:
        """Return the scope in which the kernel of a call is recorded, and its symbols.

        It is recorded anew for each output that turns out to be changed by atomics, and where a
        scope of another kind has what it asks for.
        """
        atomic: set[str] = set()
        self._in_words = set()
        while True:
            symbols = Symbols()
            known = Known(symbols, problem, are_known=are_known)
            try:
                scope = self._recorded(call, grid, known, len(problem.extents), atomic)
                if scope.instead is None:
                    return scope, symbols
                self._scope = scope.instead
            except WordsWanted as wanted:
                self._in_words.add(wanted.name)
            except AtomicWanted as wanted:
                atomic.add(wanted.name)

    def _recorded(
        self, call: Call, grid: Shape, known: Known, sizes: int, atomic: set[str]
    ) -> KernelScope:
        described = [None if t is None else known.tensor(t) for t in call.tensors]
        counts = () if self._is_counted else known.workgroups(grid)
        scope = self._scope(
            self._name, workgroup_size=self._sizes, grid=len(grid), counts=counts, sizes=sizes
        )
        inputs = len(call.inputs)
        tensors: list[Any] = []
        for position, (name, of) in enumerate(zip(call.names, described, strict=True)):
            access = self._access(name, position >= inputs, atomic)
            tensors.append(of and self._argument(scope, name, *of, access))
        scope.is_written = True
        if any(t is not None and t.dtype is float64 for t in call.tensors):
            scope.weak_float = float64
        attrs = known.attributes(call.attrs)
        self.call(scope, self.bound(scope), tensors, tensors[inputs], attrs)
        require_writes(self._name, tensors[inputs:], self._readable, self._follows)
        return scope

    def _argument(
        self, scope: KernelScope, name: str, shape: Shape, layout: Layout, access: Access
    ) -> TensorArgument:
        in_words = not self._adds_floats or name in self._in_words
        return TensorArgument(scope, name, shape, layout, access=access, in_words=in_words)

    def _access(self, name: str, is_output: bool, atomic: set[str]) -> Access:
        if not is_output:
            return "read"
        if name in atomic:
            return "atomic"
        return "read_write" if self._follows or name in self._readable else "write"

    def bound(self, scope: KernelScope) -> Callable[..., None]:
        """Return the function, rewritten to record in a scope."""
        return bound(self._function, Flow(scope))

    def call(
        self,
        scope: KernelScope,
        function: Callable[..., None],
        tensors: Sequence[Any],
        output: Any,
        attrs: Attributes,
    ) -> None:
        """Call a function, for each element of an output where there is no grid.

        Raises KernelError, with the line, for what it cannot take.
        """
        try:
            if self._by_grid:
                function(scope, *tensors, **attrs)
                return
            points = output.shape[: output.ndim - self._inner]
            with scope.if_(scope.stand_at(points) < element_count(points)):
                function(scope, *tensors, **attrs)
        except PyriteError as error:
            error.location = error.location or raised_at(error)[0]
            raise
        except (AttributeError, AssertionError, LookupError, TypeError, ValueError) as error:
            location, is_ours = raised_at(error)
            if not is_ours:
                raise
            wrong = KernelError(
                f"kernel '{self._name}' requires arguments that its scope takes, got others: "
                f"{error}"
            )
            wrong.location = location
            raise wrong from error


def require_writes(
    kernel: str,
    outputs: Sequence[TensorArgument | DirectArgument],
    readable: set[str],
    follows: bool,
) -> None:
    """Raise unless each result is written: what is not holds what was in memory before."""
    if follows:
        return
    unwritten = [
        t.name for t in outputs if not t.is_written and t.size != 0 and t.name not in readable
    ]
    if unwritten:
        raise KernelError(
            f"kernel '{kernel}' requires every output to be written, got no write to "
            f"{', '.join(unwritten)}; write out[k.at] = value"
        )
