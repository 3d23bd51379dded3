"""Declarations of ops: a method's signature and its rules become a record and an entry.

`primitive` and `composite` put it in the table `OPS`; `custom_op` is for applications.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, ParamSpec, Protocol, TypeVar, cast

from pyrite.content import Functions
from pyrite.errors import ArgumentError, PyriteError
from pyrite.op.arguments import Sorter, VariadicSorter
from pyrite.op.binding import callers, written
from pyrite.op.calls import call_into
from pyrite.op.derived import derivative_of
from pyrite.op.example import Sample
from pyrite.op.location import RAW, located, refused
from pyrite.op.record import OPS, Accepts, Attributes, Derivative, Op, Types
from pyrite.op.rule import Rule
from pyrite.op.signature import Signature
from pyrite.synchronization import awaited
from pyrite.types import TensorType

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

#: Names of attributes that are sizes of tensors, or places in them, where they are tuples.
SIZES: Final = frozenset({"shape", "size", "sizes", "output_size", "start"})

#: Compiles what a call of a method launches, given types in place of its tensors, its attributes
#: and the device that is meant.
Preparation = Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any], Any], None]

_preparation: list[Preparation] = []


def prepares(preparation: Preparation) -> Preparation:
    """Mark what prepares a call: who knows devices is further up."""
    _preparation[:] = [preparation]
    return preparation


class CustomOp(Protocol[P, R_co]):
    """An op of an application, as `custom_op` returns it: called as its signature says."""

    op: Op

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the op."""
        ...

    async def prepare(self, *inputs: Any, device: Any = None, **attributes: Any) -> None:
        """Compile what a call would launch on a device, on another thread; see `_preparing`."""
        ...


def primitive(
    *,
    scalar: Callable[..., Any] | None = None,
    rule: Rule | None = None,
    reference: Callable[..., Any] | None = None,
    infer: Callable[..., Types] | None = None,
    canonical: Callable[..., Attributes] | None = None,
    vjp: Callable[..., Any] | Sequence[Callable[..., Any] | None] | None = None,
    accepts: Accepts = "number",
    returns: Literal["same", "bool"] = "same",
    promotes: tuple[int, ...] | Literal["all"] | None = None,
    sync: bool = False,
    accumulates: bool = False,
    domain: tuple[Any, ...] | None = None,
    samples: tuple[Sample, ...] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare the decorated signature as an op whose meaning is ``scalar`` or ``reference``.

    Beside a reference a ``rule`` of a class (`pyrite.op.rule`), or a ``scalar`` rule that reads
    where its element lies (`pyrite.op.coordinates`), says the same in a form that all backends
    read.

    ``accepts`` and ``returns`` state the dtypes; ``promotes`` the positions of the inputs that meet
    in one dtype (all, for elementwise ops); ``domain`` where the op is defined and smooth, as
    (low, high) or one such pair per input; ``sync`` marks a result whose shape depends on values,
    ``accumulates`` an op whose reference adds up or multiplies many elements, and is computed in
    float64.
    """
    if scalar is None and reference is None:
        raise TypeError("a primitive has a scalar rule or a reference")
    if scalar is not None and rule is not None:
        raise TypeError("a primitive has either a scalar rule or one of another class")
    if promotes is None:
        promotes = "all" if scalar else ()
    return _declare(
        scalar=scalar, rule=rule, reference=reference, infer=infer, canonical=canonical, vjp=vjp,
        accepts=accepts, returns=returns, promotes=promotes, sync=sync,
        accumulates=accumulates, domain=domain, samples=samples,
    )  # fmt: skip


def composite(
    *,
    rule: Rule | None = None,
    infer: Callable[..., Types] | None = None,
    canonical: Callable[..., Attributes] | None = None,
    vjp: Callable[..., Any] | Sequence[Callable[..., Any] | None] | None = None,
    joint: Callable[..., Any] | None = None,
    residuals: Attributes | None = None,
    accepts: Accepts = "any",
    promotes: tuple[int, ...] | Literal["all"] = (),
    domain: tuple[Any, ...] | None = None,
    samples: tuple[Sample, ...] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare the decorated method as an op made of others, which a backend may still run whole.

    The body computes with its inputs and attributes, and what else it reads; a backend may run it
    once for all calls of one kind, so what it does beside that (prints, counts) is not repeated.
    With a ``vjp`` Autodiff keeps it whole too; without, its body is differentiated.  ``residuals``
    are attributes with which further results follow, which the ``vjp`` alone reads: a tape runs it
    with these, unless another one below wants gradients of what it keeps.  A ``rule`` of a class
    (`pyrite.op.rule`) says the same as the body, in a form that makes the better kernel; it needs
    ``infer``.
    """
    return _declare(
        is_composite=True, rule=rule, infer=infer, canonical=canonical, vjp=vjp, joint=joint,
        residuals=residuals, accepts=accepts, promotes=promotes, domain=domain, samples=samples,
    )  # fmt: skip


def custom_op(
    *,
    infer: Callable[..., Types] | None = None,
    scalar: Callable[..., Any] | None = None,
    rule: Rule | None = None,
    body: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    kernels: Sequence[Any] = (),
    vjp: Callable[..., Any] | Sequence[Callable[..., Any] | None] | None = None,
    canonical: Callable[..., Attributes] | None = None,
    accepts: Accepts = "any",
    promotes: tuple[int, ...] | Literal["all"] | None = None,
    domain: tuple[Any, ...] | None = None,
    samples: tuple[Sample, ...] = (),
) -> Callable[[Callable[P, R]], CustomOp[P, R]]:
    """Declare the decorated signature as an op of an application.

    It is a record like any other, but not in `OPS`: two applications may have ops of one name, and
    a notebook may declare one again.  ``kernels`` run it on the devices that they are for, the
    first that fits; elsewhere it is its ``body`` (tensor operators), ``scalar`` rule, ``rule`` of a
    class or ``reference`` (NumPy), at most one of them, or a ``rule`` that a ``reference`` judges.
    Without any it is an error there.  A body says the types too, where there is no ``infer``.

    A kernel that is ``differentiable`` gives it a ``vjp``, where there is no other.

    An op with kernels takes ``out=``, a tensor in memory of the application's for each result
    (`pyrite.wgpu.from_buffer`, or `pyrite.from_dlpack` without a copy): the kernel writes there,
    and the tensor, which is returned, has the new values.  ``await op.prepare(*types)`` compiles
    its kernels beforehand, on another thread.
    """
    if sum(meaning is not None for meaning in (scalar, body, rule or reference)) > 1:
        raise TypeError("a custom op has a scalar rule, a body or a reference, not two of them")
    if not (kernels or scalar or rule or body or reference):
        raise TypeError("a custom op has kernels, a scalar rule, a body or a reference")
    if infer is None and scalar is None and body is None:
        raise TypeError("a custom op has infer, which gives the type of its result")
    if promotes is None:
        promotes = "all" if scalar else ()
    vjp = vjp or next(filter(None, (getattr(k, "derivative", None) for k in kernels)), None)
    rules = {
        "canonical": canonical, "scalar": scalar, "rule": rule, "body": body,
        "reference": reference, "kernels": tuple(kernels), "vjp": vjp, "accepts": accepts,
        "promotes": promotes, "domain": domain, "samples": samples,
        "reads": Functions(infer, canonical, scalar, *(rule.functions if rule else ())),
        "body_reads": Functions(body) if body else None,
    }  # fmt: skip

    def decorate(function: Callable[P, R]) -> CustomOp[P, R]:
        op, method = _made(function, infer=infer and _giving_types(function, infer), **rules)
        if op.name in OPS:
            raise TypeError(
                f"custom_op requires a name that no op of Pyrite has, got {op.name}; rename it"
            )
        method.prepare = _preparing(method)  # type: ignore[attr-defined]
        return cast("CustomOp[P, R]", method)

    return decorate


def _preparing(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method ``prepare`` of an op's method."""

    async def prepare(*inputs: Any, device: Any = None, **attributes: Any) -> None:
        """Compile what a call would launch on a device, on another thread, and launch nothing.

        ``inputs`` are those of a call, each tensor by its type, ``TensorType((64, 64), float32)``;
        ``attributes`` are given by keyword, and numbers among them may be others later.  The event
        loop goes on meanwhile (asyncio's, trio's, rendercanvas').  Tensors of a call may have other
        sizes or lie otherwise (transposed, a slice): that may compile another kernel.

        Where an op has no kernel for the device, what its body calls is prepared; on a device that
        compiles nothing there is nothing to do.  A derivative is prepared by
        `pyrite.prepare(pyrite.grad(f), *examples)`.

        Raises what the call would raise for inputs of these types, and ArgumentError where a body
        asks for the values of tensors.
        """
        await awaited(lambda: _preparation[0](method, inputs, attributes, device))

    return prepare


def _giving_types(function: Callable[..., Any], infer: Callable[..., Any]) -> Callable[..., Types]:
    """Return an application's rule for types, which may have forgotten to return them."""

    @functools.wraps(infer)
    def inferred(*types: Any, **attrs: Any) -> Types:
        out: Types = infer(*types, **attrs)
        results = out if isinstance(out, tuple) else (out,)
        wrong = [t for t in results if not isinstance(t, TensorType)]
        if wrong:
            raise ArgumentError(
                f"{function.__name__} requires infer to return the type of each result, got "
                f"{wrong[0]!r}; return that of an input, or pyrite.types.TensorType(shape, dtype)"
            )
        return out

    return inferred


def _declare(
    *, is_composite: bool = False, **rules: Any
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        body = function if is_composite else None
        reads = Functions(body) if body is not None and not _is_own(body) else None
        op, method = _made(function, body=body, body_reads=reads, **rules)
        before = OPS.get(op.name)
        if before is not None and (before.body_reads is None or reads is None):
            raise TypeError(f"op {op.name} is declared twice")
        OPS[op.name] = op
        return method

    return decorate


def _is_own(function: Callable[..., Any]) -> bool:
    """Whether a function is Pyrite's, not an application's."""
    return function.__module__.partition(".")[0] == "pyrite"


def _made(
    function: Callable[P, R], *, vjp: Any = None, joint: Any = None, **rules: Any
) -> tuple[Op, Callable[P, R]]:
    """Return the record of a decorated signature, and the method that users call."""
    signature = Signature.of(function)
    inputs, attributes, variadic, optional = _split_parameters(signature)
    name = function.__name__.strip("_")
    if (rule := rules.get("rule")) is not None:
        rules["rule"] = rule = rule.declared(name)
        rules["canonical"] = rules.get("canonical") or rule.canonical(name)
    derived = None if variadic else derivative_of(rule, len(inputs))
    op = Op(
        name=name,
        inputs=inputs,
        attributes=attributes,
        variadic=variadic,
        optional=optional,
        integers=frozenset(n for n in attributes if _is_integer(signature.annotations.get(n))),
        sizes=SIZES.intersection(attributes),
        derivative=derived if vjp is None else Derivative(vjp, joint),
        doc=function.__doc__ or "",
        at_launch=_at_launch(attributes, rules.get("kernels", ())),
        **rules,
    )
    return op, _entry(op, function, signature)


def _split_parameters(
    signature: Signature,
) -> tuple[tuple[str, ...], dict[str, Any], bool, frozenset[int]]:
    """Return inputs, attributes with defaults, whether variadic, and which inputs may be None."""
    variadic = (signature.variadic,) if signature.variadic is not None else ()
    inputs = (*signature.positional_only, *variadic)
    kinds = [str(signature.annotations.get(name, "")) for name in inputs]
    optional = frozenset(i for i, kind in enumerate(kinds) if "None" in kind)
    names = (*signature.positional, *signature.keyword_only)
    return inputs, {name: signature.default(name) for name in names}, bool(variadic), optional


def _at_launch(attributes: Iterable[str], kernels: Sequence[Any]) -> frozenset[str]:
    """Return the attributes whose numbers are no part of any kernel."""
    if not kernels:
        return frozenset()
    return frozenset(attributes).difference(*[getattr(k, "static", ()) for k in kernels])


def _is_integer(annotation: Any) -> bool:
    return str(annotation) in ("int", "int | None", str(int))


def _entry(op: Op, function: Callable[P, R], signature: Signature) -> Callable[P, R]:
    """Return the method that users call: arguments sorted into inputs and attributes, then bind."""
    sorter = (VariadicSorter if op.variadic else Sorter)(op, signature)
    is_own = op.reads is None and op.body_reads is None
    sort = sorter.sorted if is_own else sorter.sorted_with_rules
    writes_out = bool(op.kernels) and "out" not in (*op.inputs, *op.attributes)
    #: Whether machine code may sort and bind a call in one.
    is_usual = is_own and not writes_out
    #: How many arguments need no sorting: all are inputs.
    plain = len(op.inputs) if is_own and not op.variadic and not op.attributes else -1
    attributes = op.attributes
    at = len(op.inputs) if len(op.inputs) < len(callers) and not op.variadic else 0

    @functools.wraps(function)
    def method(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if len(args) == plain and not kwargs:
                return callers[at](op, args, attributes, ())  # type: ignore[no-any-return]
            if is_usual and written:
                return written[0](sorter, args, kwargs)  # type: ignore[no-any-return]
            if writes_out and "out" in kwargs:
                given = kwargs.pop("out")
                return call_into(op, *sort(args, kwargs), given)  # type: ignore[no-any-return]
            inputs, attrs, form = sort(args, kwargs)
            return callers[at](op, inputs, attrs, form)  # type: ignore[no-any-return]
        except PyriteError as error:
            raise located(error)  # noqa: B904 - the same error, with the frames inside Pyrite cut off
        except RAW as error:
            if (found := refused(op.name, error, args, kwargs)) is None:
                raise
            raise found from None

    method.op = op  # type: ignore[attr-defined]
    return method
