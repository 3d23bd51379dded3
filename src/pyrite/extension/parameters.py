"""Whether the parameters of a kernel's function are those that its op has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyrite.errors import KernelError
from pyrite.op import Op


def require_parameters(
    kernel: str,
    op: Op,
    outputs: int,
    positional: Sequence[str],
    by_keyword: Mapping[str, bool] | None,
    static: Collection[str],
) -> None:
    """Raise KernelError unless there is a parameter for each input, output and attribute.

    ``positional`` are those after the scope; ``by_keyword`` says of the others whether they must be
    given, None where any may be.
    """
    if by_keyword is not None and not set(static) - op.attributes.keys():  # another error
        _require_attributes(kernel, op, positional, by_keyword)
    if len(positional) != len(op.inputs) + outputs:
        raise KernelError(
            f"kernel '{kernel}' requires a parameter for the scope, {len(op.inputs)} for the "
            f"inputs of {op.name} and {outputs} for its outputs, got {len(positional) + 1}"
        )


def _require_attributes(
    kernel: str, op: Op, positional: Sequence[str], by_keyword: Mapping[str, bool]
) -> None:
    if unknown := [name for name in op.attributes if name not in by_keyword]:
        raise KernelError(
            f"kernel '{kernel}' requires a parameter for each attribute of {op.name}, got none for "
            f"{', '.join(unknown)}; write it behind *: "
            f"def {kernel}({', '.join(('k', *positional, '*', *op.attributes))})"
        )
    wanted = [name for name, is_wanted in by_keyword.items() if is_wanted]
    if missing := [name for name in wanted if name not in op.attributes]:
        raise KernelError(
            f"kernel '{kernel}' requires the attributes that it names, got none called "
            f"{', '.join(missing)} of {op.name}; give the op that attribute, or the parameter a "
            "default"
        )
