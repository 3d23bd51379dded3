"""Comparison, choice and logic, elementwise; the results of comparisons and tests are bools.

Shapes are (...) -> (...) throughout; several inputs broadcast.  NaN equals nothing, not even NaN.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

import ml_dtypes

from pyrite.errors import DTypeError
from pyrite.op import Attributes, TensorBase, bools, primitive, public, sample
from pyrite.types import Number, TensorType, broadcast

T = TypeVar("T", bound="Comparison")


@public
def where(condition: T, x: T | Number, y: T | Number) -> T:
    """Return x where the condition holds, else y: three shapes that broadcast -> (...).

    This is NumPy's and PyTorch's order.  The method ``x.where(condition, y)`` keeps x where
    the condition holds, as in PyTorch; Burn's ``x.mask_where(mask, y)`` replaces it there.
    No gradient passes at the places not chosen, not even NaN.

    Raises DTypeError when the condition is not bool.

    >>> import pyrite
    >>> x = pyrite.tensor([-1.0, 2.0])
    >>> where(x > 0, x, 0.0).numpy().tolist()
    [0.0, 2.0]
    """
    return condition._where(x, y)


def _chosen_type(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
    if not condition.dtype.is_bool:
        raise DTypeError(
            f"where requires a bool condition, got {condition.dtype.name}; compare it: condition "
            "!= 0"
        )
    return TensorType(broadcast("where", condition.shape, x.shape, y.shape), y.dtype)


def _replacements(
    x: TensorType, *, nan: Number, posinf: Number | None, neginf: Number | None
) -> Attributes:
    largest = float(ml_dtypes.finfo(x.dtype.numpy).max)  # type: ignore[no-untyped-call]
    return {
        "nan": nan,
        "posinf": largest if posinf is None else posinf,
        "neginf": -largest if neginf is None else neginf,
    }


def _nan_to_num_rule(k: Any, x: Any, *, nan: Number, posinf: Number, neginf: Number) -> Any:
    infinite = k.isinf(x)
    below = k.where(infinite & (x < 0), neginf, x)
    return k.where(k.isnan(x), nan, k.where(infinite & (x > 0), posinf, below))


def _isclose_rule(k: Any, x: Any, y: Any, *, rtol: float, atol: float, equal_nan: bool) -> Any:
    # Infinities are close to themselves only: their difference is NaN, or the bound is infinite.
    near = (k.abs(x - y) <= atol + rtol * k.abs(y)) & ~k.isinf(y)
    close = near | (x == y)
    return close | (k.isnan(x) & k.isnan(y)) if equal_nan else close


class Comparison(TensorBase):
    """Comparison, tests of floats, choice and logic."""

    __slots__ = ()

    # ---- comparison ----

    @primitive(
        scalar=lambda k, x, y: x == y,
        vjp=(None, None),
        accepts="any",
        returns="bool",
    )
    def equal(self, other: Self | Number, /) -> Self:
        """x == y, as bool."""
        ...

    __eq__ = equal  # type: ignore[assignment]

    __hash__ = None  # type: ignore[assignment]

    @primitive(
        scalar=lambda k, x, y: x != y,
        vjp=(None, None),
        accepts="any",
        returns="bool",
    )
    def not_equal(self, other: Self | Number, /) -> Self:
        """x != y, as bool."""
        ...

    __ne__ = not_equal  # type: ignore[assignment]

    @primitive(scalar=lambda k, x, y: x < y, vjp=(None, None), returns="bool")
    def less(self, other: Self | Number, /) -> Self:
        """x < y, as bool."""
        ...

    __lt__ = less

    @primitive(scalar=lambda k, x, y: x <= y, vjp=(None, None), returns="bool")
    def less_equal(self, other: Self | Number, /) -> Self:
        """x <= y, as bool."""
        ...

    __le__ = less_equal

    @primitive(scalar=lambda k, x, y: x > y, vjp=(None, None), returns="bool")
    def greater(self, other: Self | Number, /) -> Self:
        """x > y, as bool."""
        ...

    __gt__ = greater

    @primitive(scalar=lambda k, x, y: x >= y, vjp=(None, None), returns="bool")
    def greater_equal(self, other: Self | Number, /) -> Self:
        """x >= y, as bool."""
        ...

    __ge__ = greater_equal

    @primitive(scalar=_isclose_rule, vjp=(None, None), accepts="float", returns="bool")
    def isclose(
        self,
        other: Self | Number,
        /,
        rtol: float = 1e-5,
        atol: float = 1e-8,
        equal_nan: bool = False,
    ) -> Self:
        """|x - y| <= atol + rtol |y|, as bool; infinities are close to themselves only.

        Integers are compared as the default float.
        """
        ...

    # ---- tests ----

    @primitive(scalar=lambda k, x: k.isnan(x), vjp=(None,), accepts="float", returns="bool")
    def isnan(self, /) -> Self:
        """Whether it is NaN."""
        ...

    @primitive(scalar=lambda k, x: k.isinf(x), vjp=(None,), accepts="float", returns="bool")
    def isinf(self, /) -> Self:
        """Whether it is inf or -inf."""
        ...

    @primitive(
        scalar=lambda k, x: ~(k.isnan(x) | k.isinf(x)),
        vjp=(None,),
        accepts="float",
        returns="bool",
    )
    def isfinite(self, /) -> Self:
        """Whether it is neither NaN nor infinite."""
        ...

    @primitive(scalar=lambda k, x: k.signbit(x), vjp=(None,), accepts="float", returns="bool")
    def signbit(self, /) -> Self:
        """Whether the sign bit is set, as it is in -0.0 and may be in NaN."""
        ...

    # ---- choice ----

    @primitive(
        scalar=lambda k, condition, x, y: k.where(condition, x, y),
        infer=_chosen_type,
        vjp=(
            None,
            lambda g, _, condition: condition._where(g, 0),
            lambda g, _, condition: condition._where(0, g),
        ),
        accepts="any",
        promotes=(1, 2),
        samples=(sample(bools((2, 3)), (2, 3), (2, 3)), sample(bools((3,)), (2, 1), (1, 3))),
    )
    def _where(self, x: Any, y: Any, /) -> Self:
        """x where the condition holds, else y."""
        ...

    @public
    def where(self, condition: Self, other: Self | Number, /) -> Self:
        """Return x where the condition holds, else the other; see the function of this name."""
        return condition._where(self, other)

    @primitive(
        scalar=_nan_to_num_rule,
        canonical=_replacements,
        vjp=(lambda g, _, x: x.isfinite()._where(g, 0),),
        accepts="float",
    )
    def _nan_to_num(
        self,
        /,
        nan: Number = 0.0,
        posinf: Number | None = None,
        neginf: Number | None = None,
    ) -> Self:
        """x with NaN and the infinities replaced."""
        ...

    @public
    def nan_to_num(
        self,
        /,
        nan: Number = 0.0,
        posinf: Number | None = None,
        neginf: Number | None = None,
    ) -> Self:
        """Return x with NaN replaced, and infinities by the greatest and least finite values.

        Integers have neither and stay what they are.
        """
        return self._nan_to_num(nan, posinf, neginf) if self.dtype.is_float else self

    # ---- logic ----

    @primitive(scalar=lambda k, x, y: x & y, vjp=(None, None), accepts="bool", returns="bool")
    def logical_and(self, other: Self | bool, /) -> Self:
        """Whether both hold; of bools."""
        ...

    @primitive(scalar=lambda k, x, y: x | y, vjp=(None, None), accepts="bool", returns="bool")
    def logical_or(self, other: Self | bool, /) -> Self:
        """Whether either holds; of bools."""
        ...

    @primitive(scalar=lambda k, x, y: x ^ y, vjp=(None, None), accepts="bool", returns="bool")
    def logical_xor(self, other: Self | bool, /) -> Self:
        """Whether just one holds; of bools."""
        ...

    @primitive(scalar=lambda k, x: ~x, vjp=(None,), accepts="bool", returns="bool")
    def logical_not(self, /) -> Self:
        """Whether it does not hold; of bools."""
        ...
