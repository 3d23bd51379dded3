"""What is due at a step: the parameters of a model that have a gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from pyrite.autodiff.gradients import Gradients
from pyrite.errors import GradientError, PyriteError, ShapeError
from pyrite.optim.values import grounded
from pyrite.tensor.parameter import Identified, Parameter
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_paths


class ParameterGradient(NamedTuple):
    """A parameter of a model to be stepped, its value and its gradient as rules compute with them.

    That is on the plain device, and in float32 for a parameter in float16 or bfloat16.
    """

    model: Any
    parameter: Parameter
    value: Tensor
    gradient: Tensor

    def named(self, error: PyriteError) -> PyriteError:
        """Return the error with the path of the parameter."""
        error.add_note(f"for parameter {_path(self.model, self.parameter)!r}")
        return error


#: What makes one of a tuple, in half the time.
_made: Callable[[tuple[Any, ...]], ParameterGradient] = partial(tuple.__new__, ParameterGradient)


def parameter_gradients(
    model: Any, held: Sequence[Identified], gradients: Gradients
) -> list[ParameterGradient]:
    """Return what is due of the parameters and states that a model holds.

    Raises GradientError when there is no gradient at all, and when there are others or those of
    another version; ShapeError for one of another shape.
    """
    _require_own(gradients, held)
    _require_any(gradients, held)
    return [
        _due(model, t, g)
        for t in held
        if isinstance(t, Parameter) and (g := gradients.get(t)) is not None and t.trainable
    ]


def _require_own(gradients: Gradients, held: Sequence[Identified]) -> None:
    ids = {t.id for t in held}
    foreign = len(gradients.by_id().keys() - ids), len(gradients.updates.keys() - ids)
    if any(foreign):
        raise GradientError(
            "step requires gradients of the model's own parameters and states, got "
            f"{foreign[0]} gradients and {foreign[1]} state updates of others; step the models "
            "together, step((a, b), grads), or leave the others out, step(a, grads.only(a))"
        )


def _require_any(gradients: Gradients, held: Sequence[Identified]) -> None:
    is_trained = any(isinstance(t, Parameter) and t.trainable for t in held)
    if is_trained and not len(gradients) and not gradients.updates:
        raise GradientError(
            "step requires a gradient of at least one parameter, got none; the loss depends on no "
            "parameter of the model: was it detached, or a constant?"
        )


def _due(model: Any, parameter: Parameter, g: Tensor) -> ParameterGradient:
    type, of, backend = parameter._type, g._type, parameter._backend
    if of.key == type.key != 0 and not backend.level and g._backend is backend:
        if type.dtype.compute is type.dtype:
            return _made((model, parameter, parameter, g))
    if of.shape != type.shape:
        raise ShapeError(
            f"step requires a gradient of the parameter's shape, got {g.shape} for "
            f"{parameter.shape}, {_path(model, parameter)!r}"
        )
    dtype = parameter._type.dtype.compute
    return ParameterGradient(model, parameter, grounded(parameter, dtype), grounded(g, dtype))


def _path(model: Any, parameter: Parameter) -> str:
    return next(path for path, t in tree_paths(model) if t is parameter)
