"""Memory of the workgroup or of the invocation, of which every index is tested."""

from __future__ import annotations

from typing import NoReturn

from pyrite.errors import KernelError
from pyrite.extension.mistake import checked, not_iterable, shown
from pyrite.extension.reporting import Reporting
from pyrite.kernel import Memory, Value
from pyrite.kernel.builder import Operand
from pyrite.kernel.ir import ATOMICS, Node


@checked("load", "store", "atomic")
class Scratch(Memory):
    """Memory of the workgroup or the invocation; an access outside is an error as of a tensor."""

    __slots__ = ("_scope", "size")

    def __init__(self, scope: Reporting, node: Node, size: int) -> None:
        super().__init__(scope, node)
        self._scope = scope
        #: The number of its elements.
        self.size = size

    def __iter__(self) -> NoReturn:
        raise not_iterable("memory of a workgroup")

    def load(
        self,
        index: Operand,
        *,
        width: int = 1,
        mask: Value | None = None,
        other: Operand = 0,
        is_aligned: bool = False,
    ) -> Value:
        """Return ``width`` elements from index on; 0 outside."""
        inside = self._inside(index, width, mask)
        return super().load(index, width=width, mask=inside, other=other, is_aligned=is_aligned)

    def store(
        self,
        index: Operand,
        value: Operand,
        *,
        mask: Value | None = None,
        is_aligned: bool = False,
    ) -> None:
        """Write value, a scalar or a vector; nothing outside."""
        width = value.width if isinstance(value, Value) else 1
        if isinstance(value, Value) and value.dtype is not self.dtype:
            raise KernelError(
                f"memory of a workgroup requires a value of {self.dtype.name}, got {shown(value)}; "
                f"cast it: k.cast(value, {self.dtype.name!r})"
            )
        inside = self._inside(index, width, mask)
        super().store(index, value, mask=inside, is_aligned=is_aligned)

    def atomic(
        self,
        name: str,
        index: Operand,
        value: Operand = 0,
        *,
        expected: Operand | None = None,
        mask: Value | None = None,
    ) -> Value:
        """Change one element at once, by an operation of `ATOMICS`; return what it was."""
        access = self.node.attr[2]
        if access != "atomic":
            raise KernelError(
                f"atomic requires memory of access='atomic', got {access!r}; write "
                "k.shared('int32', size, access='atomic')"
            )
        if name not in ATOMICS:
            raise KernelError(f"atomic requires one of {', '.join(ATOMICS)}, got {shown(name)}")
        if name == "exchange_equal" and expected is None:
            raise KernelError("atomic requires expected= for exchange_equal, got None")
        inside = self._inside(index, 1, mask)
        return super().atomic(name, index, value, expected=expected, mask=inside)

    def _inside(self, index: Operand, width: int, mask: Value | None) -> Value | None:
        """Return the mask of an access, with the test of the index where it needs one."""
        scope = self._scope
        at = scope.index(index)
        if at.dtype is not scope.index_type.dtype:
            raise KernelError(
                f"memory of a workgroup requires an index of {scope.index_type}, got {shown(at)}; "
                f"cast it: k.cast(i, {scope.index_type.dtype.name!r})"
            )
        if mask is not None and not mask.dtype.is_bool:
            raise KernelError(f"a mask requires bools of the kernel, got {shown(mask)}")
        if at.width != 1 or (mask is not None and mask.width != 1 != width):
            raise KernelError(
                f"memory of a workgroup requires one index for {width} elements, got {at.type}; "
                "take them one by one"
            )
        test = scope.inside(at, self.size - width + 1)
        if test is None:
            return mask
        scope.fail(~test if mask is None else mask & ~test, "its shared or private memory")
        both = test if mask is None else mask & test
        return both if width == 1 else scope.splat(both, width)
