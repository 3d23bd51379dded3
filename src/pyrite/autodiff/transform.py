"""Gradients of functions: ``value_and_grad(fn)(model, batch)``.

The arguments are lifted one autodiff level up, the function runs, the result is lowered again, and
no graph outlives the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyrite.autodiff.gradients import Gradients
from pyrite.autodiff.lifting import lifted
from pyrite.autodiff.mode import at_depth, depth, recording, training_mode
from pyrite.autodiff.tape import Autodiff, Strategy
from pyrite.errors import ArgumentError, GradientError, ShapeError
from pyrite.op import located, public
from pyrite.tensor.creation import full
from pyrite.tensor.parameter import Identified
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_leaves, tree_map


def value_and_grad(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool = False,
    training: bool = True,
    checkpointing: Strategy = "none",
) -> Callable[..., tuple[Any, Any]]:
    """Return a function that gives ``fn``'s scalar value and its gradients.

    An argument that holds parameters (a module) gets `Gradients`; a tensor, or a list, tuple or
    dict of tensors, gets gradients in its own form.  Several ``argnums`` give a tuple, in which
    each module has those of its own parameters.  With ``has_aux``, ``fn`` returns ``(loss,
    anything)`` and the value is that pair.  ``training`` is what layers like dropout see.  Raises
    ShapeError when the loss is not a scalar.

    >>> import pyrite
    >>> value, g = value_and_grad(lambda x: (x * x).sum())(pyrite.tensor([1.0, 2.0]))
    >>> value.item(), g.numpy().tolist()
    (5.0, [2.0, 4.0])
    """
    if not callable(fn):
        raise located(
            GradientError(
                f"value_and_grad requires a function, got {type(fn).__name__}; give the function "
                "itself, and call what is returned: value_and_grad(loss)(model, batch)"
            )
        )
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @public
    def wrapped(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        chosen = _chosen(wanted, args)
        backend = _level_above(chosen, checkpointing)
        found = [lifted(a, backend) for a in chosen]
        given = [a for a, _ in found]
        leaves = [t for _, tensors in found for t in tensors]
        replaced = list(args)
        for position, value in zip(wanted, given, strict=True):
            replaced[position] = value
        with recording(), training_mode(training), at_depth(backend.level):
            result = fn(*replaced, **kwargs)
        loss = result[0] if has_aux else result
        gradients = _backward(loss, backend, leaves)
        shaped = tuple([_shaped(gradients, a, is_one=len(given) == 1) for a in given])
        value = tree_map(lambda t: _lower(t, backend), result)
        return value, shaped[0] if isinstance(argnums, int) else shaped

    return wrapped


def grad(
    fn: Callable[..., Any], argnums: int | Sequence[int] = 0, *, training: bool = True
) -> Callable[..., Any]:
    """Return a function that gives the gradients of ``fn``'s scalar value, as `value_and_grad`.

    >>> import pyrite
    >>> cube = lambda x: x**3
    >>> grad(grad(cube))(pyrite.tensor(2.0)).item()
    12.0
    """
    both = value_and_grad(fn, argnums, training=training)

    @public
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return wrapped


def _chosen(wanted: tuple[int, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
    for position in wanted:
        if not 0 <= position < len(args):
            raise ArgumentError(
                f"value_and_grad requires 0 <= argnums < {len(args)}, the number of positional "
                f"arguments, got {position}"
            )
    return tuple(args[position] for position in wanted)


def _level_above(args: tuple[Any, ...], checkpointing: Strategy) -> Autodiff:
    tensors = tree_leaves(args)
    if not any(t.dtype.is_float for t in tensors):
        found = [t.dtype.name for t in tensors] or [type(arg).__name__ for arg in args]
        raise GradientError(
            f"value_and_grad requires a float tensor or a module, got {', '.join(found)}; make "
            "one: pyrite.tensor(1.0)"
        )
    below = max((t._backend for t in tensors), key=lambda b: b.level)
    # An argument may come from further down than the calls around this one: what the function
    # takes from them lives at their level, and the gradient must still depend on it.
    while below.level < depth():
        below = Autodiff(below)
    return Autodiff(below, checkpointing=checkpointing)


def _lower(tensor: Tensor, backend: Autodiff) -> Tensor:
    return tensor.inner() if tensor._backend == backend else tensor


def _backward(loss: Any, backend: Autodiff, leaves: Sequence[Tensor]) -> Gradients:
    if not isinstance(loss, Tensor):
        raise GradientError(
            f"value_and_grad requires a function that returns a scalar tensor, got "
            f"{type(loss).__name__}; return the loss itself, or (loss, more) with has_aux=True"
        )
    if loss.size != 1:
        raise ShapeError(
            f"value_and_grad requires a scalar loss, got shape {loss.shape}; use .mean()"
        )
    if not loss.dtype.is_float:
        name = loss.dtype.name
        raise GradientError(f"value_and_grad requires a float loss, got {name}")
    if loss._backend != backend or loss._handle.node is None:
        return Gradients()
    own = {t._handle.node for t in leaves if t._backend is backend}
    return backend.gradients_of(loss._handle, own)


def _shaped(gradients: Gradients, arg: Any, *, is_one: bool) -> Any:
    if any(isinstance(leaf, Identified) for leaf in tree_leaves(arg)):
        # One model gets all: its optimiser refuses states that another module emitted.
        return gradients if is_one else gradients.only(arg)
    return tree_map(lambda t: _gradient_or_zeros(gradients, t), arg)


def _gradient_or_zeros(gradients: Gradients, leaf: Tensor) -> Tensor:
    found = gradients.get(leaf)
    if found is not None:
        return found
    return full(leaf.shape, 0, dtype=leaf.dtype, device=leaf.inner().device)
