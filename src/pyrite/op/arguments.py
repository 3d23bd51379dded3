"""What a call gives an op: its inputs, its attributes, and the form of these.

A program writes most calls again and again with the same attributes, so what was made of those is
kept, under what was given and its classes: 1, 1.0 and True are equal.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import copysign
from typing import Any, Final

from pyrite.errors import DTypeError
from pyrite.op.foreign import instead, renamed
from pyrite.op.key import rules_key
from pyrite.op.launch_number import is_number
from pyrite.op.plan import Form, attributes_form
from pyrite.op.record import Attributes, Op, TensorBase
from pyrite.op.signature import NO_DEFAULT, Signature
from pyrite.types import DType, TensorType

#: How many ways of giving attributes are kept for an op.
_KEPT: Final = 512

#: In the place of how many inputs an op has.
ANY_NUMBER: Final = -1

#: Inputs, attributes, and their form by `attributes_form`.
Arguments = tuple[Sequence[Any], dict[str, Any], Form | None]


class KnownArguments:
    """What was made of the arguments of a method: its op, and attributes by how they were given.

    ``known`` has them with their form, and the inputs that were left out; machine code looks there.
    ``of_type`` is None, or says that they depend on the type of the first input too.
    """

    __slots__ = ("arity", "known", "of_type", "op")

    def __init__(self, op: Op, of_type: bool | None = None) -> None:
        self.op = op
        self.arity = len(op.inputs)
        self.of_type = of_type
        self.known: dict[Any, tuple[dict[str, Any], Form | None, tuple[Any, ...]]] = {}

    def sorted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Return what a call gives.  Raises TypeError for a call that does not fit."""
        raise NotImplementedError

    def _keep(
        self, key: Any, attrs: dict[str, Any], form: Form | None, left_out: Sequence[Any] = ()
    ) -> None:
        """Keep what was found out of attributes for the next call that gives the same."""
        if len(self.known) >= _KEPT:
            self.known.clear()
        self.known[key] = attrs, form, tuple(left_out)


class Translator(KnownArguments):
    """Makes attributes of what a method takes whose arguments are not those of its op.

    They depend on nothing but what is given behind the inputs, and the type of the first of these
    where it is asked for ``of_type``: then that comes first.
    """

    __slots__ = ("_attributes", "_function")

    def __init__(
        self, op: Op, function: Callable[..., Any], attributes: Callable[..., Attributes],
        of_type: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(op, of_type)
        self._function, self._attributes = function, attributes

    def sorted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Return what a call gives.  Raises TypeError for a call that does not fit."""
        inputs, given = args[: self.arity], args[self.arity :]
        key = _key(given, kwargs)
        leading: tuple[Any, ...] = ()
        if self.of_type:
            of = self._type_of_first(args, kwargs)
            leading = (of,)
            # Sizes that are marked, and symbols, are no part of what is kept.
            is_plain = of.key and _INTEGERS.issuperset(map(type, of.shape))
            key = (of.key, *key) if key is not None and is_plain else None
        if key is not None and (kept := self.known.get(key)) is not None:
            return inputs, kept[0], kept[1]
        try:
            attrs = {**self._attributes(*leading, *given, **kwargs)}
        except TypeError:
            self._bind(args, kwargs)
            raise
        form = attributes_form(self.op, attrs)
        if key is not None:
            self._keep(key, attrs, form)
        return inputs, attrs, form

    def _type_of_first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TensorType:
        if not args:
            self._bind(args, kwargs)
        if not isinstance(args[0], TensorBase):
            name = self._function.__name__
            raise DTypeError(f"{name} requires tensors, {instead(args[0])}")
        return args[0]._type

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise TypeError for a call that does not fit the method's signature."""
        try:
            inspect.signature(self._function).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._function.__qualname__}() {error}") from None


class Sorter(KnownArguments):
    """Sorts the arguments of an op's method; ten times as fast as inspect for ordinary calls."""

    __slots__ = (
        "_defaults", "_fillers", "_forms", "_last", "_least", "_most", "_named", "_required",
        "_signature", "_with_one",
    )  # fmt: skip

    def __init__(self, op: Op, signature: Signature) -> None:
        super().__init__(op)
        self._signature, arity = signature, self.arity
        self._fillers = [signature.default(name) for name in op.inputs]
        self._named = signature.positional
        self._least = sum(default is NO_DEFAULT for default in self._fillers)
        # None of a variable number of inputs is ordinary.
        self._most = -1 if op.variadic else arity + len(self._named)
        #: How many arguments a call has that gives one attribute by its place.
        self._with_one = -1 if op.variadic or op.at_launch else arity + 1
        self._defaults = dict(op.attributes)
        self._required = [n for n, default in self._defaults.items() if default is NO_DEFAULT]
        #: The forms of attributes that are numbers of a launch, by their names and classes.
        self._forms: dict[tuple[Any, ...], tuple[Form | None]] = {}
        #: The last of them that names all: names with classes, and the form with a key of rules.
        self._last: tuple[tuple[tuple[str, Any], ...], Form, Hashable, Form] = ((), (), None, ())

    def sorted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Return what a call gives.  Raises TypeError for a call that does not fit."""
        count, arity = len(args), self.arity
        if count == self._with_one and not kwargs:
            # One attribute by its place, as of most views and reductions: its key, in short.
            kind = type(args[-1])
            if kind in _ONE or (kind is tuple and _INTEGERS.issuperset(map(type, args[-1]))):
                kept = self.known.get((kind, args[-1]))
                if kept is not None:
                    return args[:-1], kept[0], kept[1]
        if count == arity and not kwargs and not self._defaults:
            return args, self._defaults, ()
        is_kept = self._least <= count <= self._most and not self.op.at_launch
        key = _key(args[arity:], kwargs) if is_kept else None
        if key is not None and count < arity:
            # Inputs that may be left out are, as a bias.
            key = (count, *key)
        if key is not None and (kept := self.known.get(key)) is not None:
            return (*args[:arity], *kept[2]), kept[0], kept[1]
        inputs, attrs = self._in_order(args, kwargs) or self._bound(args, kwargs)
        form = attributes_form(self.op, attrs)
        if key is not None:
            self._keep(key, attrs, form, self._fillers[count:])
        return inputs, attrs, form

    def _form_of_numbers(
        self, key: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Form | None] | None:
        """Keep and return the form of numbers of these names and classes; None where it is none."""
        at_launch = self.op.at_launch
        if not all(name in at_launch and is_number(value) for name, value in kwargs.items()):
            return None
        attrs = {**self._defaults, **kwargs}
        if any(attrs[name] is NO_DEFAULT for name in self._required):
            return None
        found = self._forms[key] = (attributes_form(self.op, attrs),)
        return found

    def sorted_with_rules(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Return what `sorted` does for an application's op, whose form has what its rules read."""
        op = self.op
        kinds, form, rules, whole = self._last
        if kinds and len(args) == self.arity and len(kwargs) == len(kinds):
            # Most calls give numbers of the same names and classes as the one before.
            for name, kind in kinds:
                number: Any = kwargs.get(name)
                if number.__class__ is not kind or number - number != 0:
                    break
            else:
                now = rules_key(op)
                return args, kwargs, whole if now is rules else (*form, now)
        if op.at_launch and len(args) == self.arity:
            # The form of numbers that a launch gives is that of all numbers of their classes.
            key = (*kwargs, *map(type, kwargs.values()))
            kept = self._forms.get(key) or self._form_of_numbers(key, kwargs)
            if kept is not None and (form_of_numbers := kept[0]) is not None:
                for value in kwargs.values():
                    if value - value != 0:  # infinity and NaN are no numbers of a launch
                        break
                else:
                    return args, *self._of_numbers(kwargs, form_of_numbers)
        inputs, attrs, found = self.sorted(args, kwargs)
        return inputs, attrs, None if found is None else (*found, rules_key(op))

    def _of_numbers(self, kwargs: dict[str, Any], form: Form) -> tuple[dict[str, Any], Form]:
        """Return the attributes and the form of a call whose keywords are numbers of a launch."""
        rules = rules_key(self.op)
        whole = (*form, rules)
        if len(kwargs) < len(self._defaults):
            return {**self._defaults, **kwargs}, whole
        kinds = tuple([(name, value.__class__) for name, value in kwargs.items()])
        self._last = kinds, form, rules, whole
        return kwargs, whole

    def _in_order(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Sequence[Any], dict[str, Any]] | None:
        """Return what an ordinary call gives; None for others, and for mistakes."""
        count, arity = len(args), self.arity
        if not self._least <= count <= self._most:
            return None
        attrs = self._defaults.copy()
        for name, value in kwargs.items():
            if name not in attrs:
                return None
            attrs[name] = value
        for name, value in zip(self._named, args[arity:], strict=False):
            if name in kwargs:
                return None
            attrs[name] = value
        for name in self._required:
            if attrs[name] is NO_DEFAULT:
                return None
        return args[:arity] if count >= arity else (*args, *self._fillers[count:]), attrs

    def _bound(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        op, signature = self.op, self._signature.inspected()
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            call = f"{op.name}({', '.join(signature.parameters)})"
            raise TypeError(f"{call}: {error}{renamed(kwargs, signature.parameters)}") from None
        bound.apply_defaults()
        arguments = bound.arguments
        inputs = arguments[op.inputs[0]] if op.variadic else [arguments[n] for n in op.inputs]
        return inputs, {name: arguments[name] for name in op.attributes}


class VariadicSorter(Sorter):
    """Sorts the arguments of a method of any number of inputs: all that have no name are."""

    __slots__ = ()

    def __init__(self, op: Op, signature: Signature) -> None:
        super().__init__(op, signature)
        self.arity = ANY_NUMBER

    def sorted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """Return what a call gives.  Raises TypeError for a call that does not fit."""
        key = None if self.op.at_launch else _key((), kwargs)
        if key is not None and (found := self.known.get(key)) is not None:
            return args, found[0], found[1]
        inputs, attrs = self._bound(args, kwargs)
        form = attributes_form(self.op, attrs)
        if key is not None:
            self._keep(key, attrs, form)
        return inputs, attrs, form


def _key(given: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what tells attributes apart as they were given; None where that takes a closer look.

    Two zeros among floats are equal, so -0.0 has none, and NaN is equal to nothing; arrays and
    lists change.  It is
    class and value of each that has its place, then name, class and value of each other: machine
    code makes the same (`sorting.ll`).
    """
    parts: list[Any] = []
    # By `type`: sizes that are marked, and symbols, say that they are plain.
    for value in given:
        parts += (type(value), value)
    for name, value in kwargs.items():
        parts += (name, type(value), value)
    for value in (*given, *kwargs.values()) if kwargs else given:
        kind = type(value)
        if kind is tuple:
            if not _INTEGERS.issuperset(map(type, value)):
                return None
        elif kind not in _PLAIN or (kind is float and not _is_itself(value)):
            return None
    return tuple(parts)


def _is_itself(value: float) -> bool:
    """Whether a float is equal to itself and to no other that is: the zero of the two is 0.0."""
    return value - value == 0 and (value != 0 or copysign(1.0, value) > 0)


_PLAIN: Final = frozenset({int, float, bool, str, type(None), DType, tuple})
#: Those of them of which one value is enough of a key.
_ONE: Final = _PLAIN - {float, tuple}
_INTEGERS: Final = frozenset({int})
