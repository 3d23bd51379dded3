"""``compile(fn)``: a function of tensors that runs as one program after a few calls.

The first call runs as it is written.  Later ones are captured until two in a row agree; from then
on a call like these runs their program and does not enter the function.  What a call depends on
besides the values of tensors is looked at each time.  Calls that differ in it are of another kind,
whose first call runs as it is written too, for it may come once, as each length of a text does.
"""

from __future__ import annotations

import functools
import inspect
import types
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from pyrite.autodiff.mode import context
from pyrite.backend.capture import Capture, capturing
from pyrite.backend.device import device
from pyrite.backend.fusion import Fusion
from pyrite.backend.precision import matmul_precision
from pyrite.compiled.arguments import Tree
from pyrite.compiled.captured import CapturedCall, call_captured, undo
from pyrite.compiled.environment import Environment
from pyrite.compiled.replay import ReplayedCall
from pyrite.errors import CompileError
from pyrite.op import located, user_frame
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import TreeNode

P = ParamSpec("P")
R = TypeVar("R")

#: Captured calls of one kind among which two must agree.
MOST_CAPTURES = 8
#: Kinds of calls at one function, before it says that they are many.
MOST_KINDS = 8
#: Kinds that are known at most: one whose calls are no program is forgotten first.
MOST_KEPT = 256
#: Calls that are captured again, and compared: the 4th, 8th, 16th … replay, and each of these.
AUDITED = 1000


@dataclass(slots=True, eq=False)
class Kind:
    """Calls that depend on the same."""

    form: Hashable
    facts: list[Hashable]
    context: Hashable
    ids: list[int]
    device: Fusion
    #: Whether one of them may run as it is written: nothing is known of these yet, and they may
    #: come once, as a last batch does.
    may_be_plain: bool
    captures: int = 0
    #: The last call that was captured, until it is confirmed; then what does it again.
    candidate: CapturedCall | None = None
    replay: ReplayedCall | None = None
    replays: int = 0

    def is_of(self, tree: Tree, facts: Sequence[Hashable], context: Hashable) -> bool:
        """Whether a call is one of them."""
        return (
            self.facts == facts
            and self.form == tree.form
            and self.context == context
            and ((self.replay is not None and not self.replay.needs_ids) or self.ids == tree.ids)
        )


@dataclass(slots=True)
class Specialization:
    """What is known of a function in one environment."""

    environment: Environment
    kinds: list[Kind] = field(default_factory=list)
    #: How many calls of kinds that are forgotten ran as a program.
    forgotten: int = 0


class Compiled(Generic[P, R]):
    """A function that is compiled; see `compile`."""

    def __init__(self, function: Callable[P, R]) -> None:
        if not isinstance(function, TreeNode):
            functools.update_wrapper(self, function)
        self._function = function
        self._known: Specialization | None = None
        self._calls = self._environments = 0
        self._is_warned = False
        self._lock = RLock()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        named = self._function
        return f"compile({getattr(named, '__qualname__', type(named).__name__)})"

    @property
    def replays(self) -> int:
        """How many calls ran as a program, without the function."""
        known = self._known
        return 0 if known is None else known.forgotten + sum(k.replays for k in known.kinds)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what the function returns."""
        tree = Tree.of((args, kwargs))
        fusion = _device_of(tree.leaves)
        if fusion is None:
            return self._function(*args, **kwargs)
        with self._lock:
            self._calls += 1
            if self._calls == 1:
                return self._function(*args, **kwargs)
            kind = self._kind(tree, fusion, (args, kwargs))
            replay = kind.replay
            if replay is None or kind.replays + 1 in _AUDITS or not (kind.replays + 1) % AUDITED:
                return self._captured(kind, tree, args, kwargs)
        found = replay.run(tree.leaves)
        if found is None:
            with self._lock:
                kind.replay = kind.candidate = None
                kind.captures = 0
                return self._captured(kind, tree, args, kwargs)
        kind.replays += 1
        return cast(R, found[0])

    # ---- which calls are alike ----

    def _kind(self, tree: Tree, fusion: Fusion, given: Any) -> Kind:
        known = self._known
        changed = None if known is None else known.environment.changed()
        if known is None or changed is not None:
            known = self._known = Specialization(Environment([self._function, *_modules(given)]))
            self._environments += 1
            if self._environments > MOST_KINDS and not self._is_warned:
                self._is_warned = True
                _warn(f"{self!r} found {MOST_KINDS} times that {changed} had changed, and begins "
                      "anew each time; give what changes as an argument")  # fmt: skip
        facts, now = tree.facts, (*context(), matmul_precision())
        for kind in known.kinds:
            if kind.is_of(tree, facts, now):
                return kind
        if len(known.kinds) == MOST_KINDS and not self._is_warned:
            self._is_warned = True
            _warn(f"{self!r} has {MOST_KINDS} kinds of calls, and each is captured: "
                  f"{_difference(known.kinds[-1], tree, facts, now)} differs; "
                  "give what changes as a tensor")  # fmt: skip
        may_be_plain = bool(known.kinds) and fusion.compiles_later
        kind = Kind(tree.form, facts, now, tree.ids, fusion, may_be_plain)
        if len(known.kinds) >= MOST_KEPT:
            oldest = next((k for k in known.kinds if k.replay is None), known.kinds[0])
            known.kinds.remove(oldest)
            known.forgotten += oldest.replays
        known.kinds.append(kind)
        return kind

    # ---- capturing ----

    def _captured(self, kind: Kind, tree: Tree, args: Any, kwargs: Any) -> R:
        """Run the function, and compare the call with the one before."""
        if kind.may_be_plain:
            kind.may_be_plain = False
            return self._function(*args, **kwargs)
        if kind.captures >= MOST_CAPTURES and kind.replay is None:
            return self._function(*args, **kwargs)
        capture = Capture()
        waits = not self._is_another(kind)
        try:
            result, call = call_captured(
                self._function, args, kwargs, tree, kind.device, capture, waits=waits
            )
        except CompileError as error:
            raise located(error)  # noqa: B904 - the same error
        before = kind.candidate if kind.replay is None else kind.replay.call
        difference = "" if before is None else before.difference(call, kind.device.download)
        if kind.replay is not None:
            kind.replays += 1
            if difference is not None:
                replayed = kind.replay.call
                is_another = replayed.at is not call.at or replayed.answers != call.answers
                kind.replay, kind.candidate, kind.captures = None, call, 0
                if is_another:
                    # A comparison of the step was answered otherwise; or a gradient was walked by
                    # other ops, as plans or recorded walks were dropped.
                    return cast(R, result)
                undo(capture)
                raise located(
                    CompileError(
                        f"compile requires a function that does the same at each call, got another "
                        f"call than those that were replayed: {difference} differs; give what "
                        "changes as an argument"
                    )
                )
        elif difference is None:
            kind.replay, kind.candidate, kind.captures = ReplayedCall(call, kind.device), None, 0
        else:
            kind.candidate = call
            kind.captures += 1
            if kind.captures == MOST_CAPTURES:
                _warn(
                    f"{self!r} runs as it is written, for no two of {MOST_CAPTURES} calls did the "
                    f"same: {difference} differs; give what changes as an argument"
                )
                kind.candidate = None
        return cast(R, result)

    def _is_another(self, kind: Kind) -> bool:
        """Whether there are others: these may come once, as a last batch does."""
        known = self._known
        return known is not None and any(other is not kind for other in known.kinds)


_AUDITS = frozenset(2**n for n in range(2, 10))


@overload
def compile(function: Callable[P, R]) -> Compiled[P, R]: ...
@overload
def compile() -> Callable[[Callable[P, R]], Compiled[P, R]]: ...


def compile(function: Callable[P, R] | None = None) -> Any:
    """Return a function that runs as one program, once it was called a few times.

    It is for whole steps of training and for inference, with tensors of a device with `fusion`:

        @pyrite.compile
        def train(model, x, y):
            loss, grads = pyrite.value_and_grad(loss_of)(model, x, y)
            return optimizer.step(model, grads), loss

    The first call runs as it is written, the next ones are captured, and once two agree, a call
    like them does not enter the function any more.  Optimisers that it steps, states of modules and
    draws of random numbers go on as without it.  Other Python state that it changes, a list that it
    appends to, is not: a replay does not run its lines.  Calls whose arguments differ in more than
    the values of tensors, or which find another global, are captured by themselves; some replays
    are captured again, and a difference is an error.

    Raises CompileError where a value is read in the function, or turned into a number that stays;
    and for tensors of a device without `fusion`.

    >>> import pyrite
    >>> @pyrite.compile
    ... def scaled(x, factor):
    ...     return (x * factor).exp().sum()
    >>> x = pyrite.ones((3,), device=pyrite.fusion("cpu"))
    >>> [scaled(x * n, 0.5).item() > 3 for n in range(1, 5)], scaled.replays
    ([True, True, True, True], 1)
    """
    return _compiled if function is None else _compiled(function)


def _compiled(function: Any) -> Compiled[Any, Any]:
    if not callable(function):
        raise located(
            CompileError(
                f"compile requires a function or a module, got {type(function).__name__}; give the "
                "function itself: compile(step)"
            )
        )
    if any(is_one(function) for is_one in _RETURN_LATER):
        raise located(
            CompileError(
                f"compile requires a function that returns when it is done, got "
                f"{getattr(function, '__qualname__', function)!r}, which is async or yields; "
                "compile the part between two awaits or yields"
            )
        )
    return Compiled(function)


#: Functions whose lines do not run when they are called.
_RETURN_LATER = (
    inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction,
)  # fmt: skip


def _modules(value: Any) -> list[TreeNode]:
    """Return a module of each class among what is given."""
    found: dict[type, TreeNode] = {}

    def look(value: Any) -> None:
        if isinstance(value, TreeNode):
            found.setdefault(type(value), value)
            value = vars(value)
        if isinstance(value, Mapping):
            value = [*value.values()]
        if isinstance(value, list | tuple):
            for item in value:
                look(item)

    look(value)
    return list(found.values())


def _difference(kind: Kind, tree: Tree, facts: Sequence[Hashable], context: Hashable) -> str:
    """Return in what a call differs from others."""
    if kind.context != context:
        return "whether it trains or records gradients, or the precision of products,"
    if kind.form != tree.form:
        return "an argument that is no tensor"
    for n, (one, other) in enumerate(zip(kind.facts, facts, strict=False)):
        if one != other:
            return f"tensor {n} of the arguments, {tree.leaves[n]._type},"
    return "whose parameters they are" if kind.facts == facts else "the number of tensors"


def _warn(message: str) -> None:
    frame = user_frame()
    warnings.warn_explicit(message, UserWarning, frame.f_code.co_filename, frame.f_lineno)


def _device_of(leaves: Sequence[Tensor]) -> Fusion | None:
    """Return the device of a call; None for one inside of another one, or of a gradient."""
    if capturing() is not None:
        return None
    backends = list(dict.fromkeys([t._backend for t in leaves])) or [device(None).backend]
    if any([backend.level for backend in backends]):
        return None
    found = backends[0]
    if len(backends) > 1 or not isinstance(found, Fusion):
        names = " and ".join(sorted({b.root.name for b in backends}))
        raise located(
            CompileError(
                f"compile requires tensors of one device with fusion, got {names}; move them: "
                f'x.to(pyrite.fusion("{found.root.name}"))'
            )
        )
    return found
