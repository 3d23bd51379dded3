"""Fits the arrays of a file to what a module expects: names, shapes, dtypes.

Weights from elsewhere rarely have our names, and a failed load is read by a person who has to mend
it, so every problem of all keys is told in one report, with the names that were probably meant.
Invariant: nothing is dropped, cast or left at its old value unless the caller asked for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np

from pyrite.errors import DTypeError, RecordError
from pyrite.types import Array, DType, DTypeLike, Shape, dtype

#: Rules as of ``re.sub``: (pattern, replacement), each applied to each name, in order.
Rules = Sequence[tuple[str, str]] | Mapping[str, str]
#: What a module expects by dotted name.
Expected = Mapping[str, tuple[Shape, DTypeLike]]

#: A report shows so many names of a group; its fields hold all.
SHOWN = 20

#: What puts which words among the names of its parameters.
_WRAPPERS = {"_orig_mod.": "torch.compile", "module.": "DataParallel"}
#: The one that stands in the middle of names too, where a part of a model was compiled.
_COMPILED = ((r"_orig_mod\.", ""),)
_NOTHING: Array = np.empty(0)


def fit(
    arrays: Mapping[str, Array],
    expected: Expected,
    *,
    rules: Rules = (),
    dtype: DTypeLike = "module",
    partial: bool = False,
    allow_unused: bool = False,
) -> tuple[dict[str, Array], MatchReport]:
    """Return the arrays that a module takes, by its own names, and the report: remap, match, cast.

    rules, dtype, partial, allow_unused: as for ``remap``, ``cast`` and ``match``.

    Raises MatchError when names, shapes or kinds do not fit, RecordError when a cast loses values.

    >>> arrays, report = fit({"fc.w": np.ones(2)}, {"w": ((2,), "float32")}, rules=[("^fc.", "")])
    >>> arrays["w"].dtype, report.applied
    (dtype('float32'), ('w',))
    """
    found = remap(arrays, rules)
    report = match(expected, found, partial=partial, allow_unused=allow_unused)
    return cast({name: found[name] for name in report.applied}, dtype, expected), report


def remap(arrays: Mapping[str, Array], rules: Rules) -> dict[str, Array]:
    r"""Return ``arrays`` under new names: each (pattern, replacement) is an ``re.sub``, in order.

    Two names may become one where they name one array, as tied weights do.

    Raises RecordError when a pattern is no regular expression, or names of two arrays become one.

    >>> sorted(remap({"model.0.w": np.ones(1)}, [(r"^model\.", ""), (r"^(\d+)", r"layer\1")]))
    ['layer0.w']
    """
    patterns = [(_compile(pattern), replacement) for pattern, replacement in _pairs(rules)]
    sources: dict[str, str] = {}
    for name in arrays:
        target = name
        for pattern, replacement in patterns:
            target = _substitute(pattern, replacement, target)
        if target in sources and not _is_same(arrays[sources[target]], arrays[name]):
            raise RecordError(
                f"remap requires distinct names, got {target!r} from both {sources[target]!r} "
                f"and {name!r}; make the pattern narrower"
            )
        sources[target] = name
    return {target: arrays[name] for target, name in sources.items()}


def _pairs(rules: Rules) -> list[tuple[str, str]]:
    """Return rules as pairs.  Raises RecordError for what is none."""
    pairs = list(rules.items() if isinstance(rules, Mapping) else rules)
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise RecordError(
                "rules requires pairs of (pattern, replacement), as of re.sub, got "
                f"{pair!r}; write rules=[(r'^model\\.', '')]"
            )
    return pairs


def cast(arrays: Mapping[str, Array], policy: DTypeLike, expected: Expected) -> dict[str, Array]:
    """Return ``arrays`` in the dtypes that ``policy`` says.

    policy: "file" keeps what was saved, "module" casts to what ``expected`` has under that name,
    and a float dtype casts to it what is float, leaving integers and bools.

    Raises RecordError, naming all arrays concerned, when a finite float would become infinite, an
    integer would change, or the dtype is one that Pyrite lacks; DTypeError for any other policy.
    """
    targets = {name: _target(name, array, policy, expected) for name, array in arrays.items()}
    result, problems = {}, []
    for name, array in arrays.items():
        with np.errstate(over="ignore", invalid="ignore"):  # _loses looks for what these report
            result[name] = array.astype(targets[name], copy=False)
        if _loses(array, result[name]):
            problems.append(f"{name!r} from {array.dtype} to {targets[name]}")
        elif kind_of(result[name].dtype) is None:
            problems.append(f"{name!r}, which Pyrite lacks {array.dtype} for")
    if problems:
        raise RecordError(
            f"casting with dtype={_policy_name(policy)} requires values that the dtype holds, got "
            f"{_shown(problems)}; load with another dtype"
        )
    return result


def match(
    expected: Expected,
    found: Mapping[str, Array],
    *,
    partial: bool = False,
    allow_unused: bool = False,
) -> MatchReport:
    """Return which arrays go where.

    partial: parameters that the file lacks keep their values.
    allow_unused: arrays that the module lacks are ignored.

    Raises MatchError when a name is missing or unexpected, or a shape or kind of dtype differs; the
    message, and ``error.report``, hold all of them.

    >>> match({"w": ((2,), "float32")}, {"w": np.ones(2)}).applied
    ('w',)
    """
    mismatched = tuple(
        problem
        for name, (shape, wanted) in expected.items()
        if name in found and (problem := _mismatch(name, found[name], tuple(shape), wanted))
    )
    wrong = {problem.name for problem in mismatched}
    missing = tuple(name for name in expected if name not in found)
    unexpected = tuple(name for name in found if name not in expected)
    report = MatchReport(
        applied=tuple(name for name in expected if name in found and name not in wrong),
        missing=missing,
        unexpected=unexpected,
        mismatched=mismatched,
        suggestions=_suggest(missing[:SHOWN], unexpected),
        partial=partial,
        allow_unused=allow_unused,
    )
    if not report.ok:
        raise MatchError(report)
    return report


@dataclass(frozen=True)
class Mismatch:
    """An array that has a parameter's name, but not its shape or kind of dtype."""

    name: str
    expected: str
    found: str


@dataclass(frozen=True)
class MatchReport:
    """What a load does: names are the module's in ``applied`` and ``missing``, else the file's."""

    applied: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    mismatched: tuple[Mismatch, ...]
    suggestions: Mapping[str, str] = field(default_factory=dict)
    partial: bool = False
    allow_unused: bool = False

    @property
    def ok(self) -> bool:
        """Whether it is what the caller allowed."""
        return (
            not self.mismatched
            and (self.partial or not self.missing)
            and (self.allow_unused or not self.unexpected)
        )

    def __str__(self) -> str:
        lines = [
            f"{len(self.applied)} applied, {len(self.missing)} missing, "
            f"{len(self.unexpected)} unexpected, {len(self.mismatched)} mismatched"
        ]
        wrong = [f"{m.name}: expected {m.expected}, found {m.found}" for m in self.mismatched]
        lines += _group("mismatched", wrong)
        lines += _group("missing (in the module, not in the file)", map(self._hinted, self.missing))
        lines += _group("unexpected (in the file, not in the module)", self.unexpected)
        return "\n".join(lines)

    def _hinted(self, name: str) -> str:
        close = self.suggestions.get(name)
        return f"{name}  (did you mean {close}?)" if close else name


class MatchError(RecordError):
    """The arrays of a file do not fit a module; ``report`` says all that differs."""

    def __init__(self, report: MatchReport) -> None:
        self.report = report
        super().__init__(f"loading requires the module's arrays, got {report}{_advice(report)}")


def kind_of(of: np.dtype[np.generic]) -> str | None:
    """Return "float", "integer" or "bool", or None for a dtype that Pyrite lacks."""
    try:
        found: DType = dtype(of)
    except DTypeError:
        return None
    return "integer" if found.is_integer else found.kind


def _is_same(x: Array, y: Array) -> bool:
    """Whether two arrays are the same memory, seen in the same way."""
    place = (x.ctypes.data, x.shape, x.strides, x.dtype)
    return x is y or (x.size > 0 and place == (y.ctypes.data, y.shape, y.strides, y.dtype))


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise RecordError(
            f"remap requires regular expressions, got {pattern!r}: {error}; escape dots as \\."
        ) from error


def _substitute(pattern: re.Pattern[str], replacement: str, name: str) -> str:
    try:
        return pattern.sub(replacement, name)
    except (re.error, IndexError) as error:
        raise RecordError(
            f"remap requires replacements that fit their pattern, got {replacement!r} for "
            f"{pattern.pattern!r}: {error}"
        ) from error


def _target(name: str, array: Array, policy: DTypeLike, expected: Expected) -> np.dtype[np.generic]:
    if isinstance(policy, str) and policy == "file":
        return array.dtype
    if isinstance(policy, str) and policy == "module":
        return dtype(expected[name][1]).numpy
    wanted = dtype(policy)
    if not wanted.is_float:
        raise RecordError(
            f"casting requires dtype 'file', 'module' or a float dtype, got {wanted.name}"
        )
    return wanted.numpy if _is_floating(array.dtype) else array.dtype


def _policy_name(policy: DTypeLike) -> str:
    return repr(policy if isinstance(policy, str) else dtype(policy).name)


def _is_floating(of: np.dtype[np.generic]) -> bool:
    """Whether it is a real floating dtype, the 8-bit ones that Pyrite lacks included."""
    return of.name.startswith(("float", "bfloat"))


def _loses(before: Array, after: Array) -> bool:
    """Whether a cast lost more than precision."""
    if before.dtype == after.dtype:
        return False
    if _is_floating(before.dtype) and _is_floating(after.dtype):
        if after.dtype.itemsize > before.dtype.itemsize:
            return False
        return bool(np.any(np.isfinite(before) & ~np.isfinite(after)))
    # An integer that wrapped comes back as it was, but not in sign: 2**63 is -2**63 as int64.
    is_same_sign = np.array_equal(np.less(before, 0), np.less(after, 0))
    return not is_same_sign or not np.array_equal(after.astype(before.dtype), before)


def _mismatch(name: str, array: Array, shape: Shape, wanted: DTypeLike) -> Mismatch | None:
    if array.shape != shape:
        return Mismatch(name, str(shape), str(array.shape))
    kind, found = kind_of(dtype(wanted).numpy), array.dtype
    if kind == kind_of(found) or (kind == "float" and _is_floating(found)):
        return None
    return Mismatch(name, dtype(wanted).name, str(found))


def _suggest(missing: Sequence[str], unexpected: Sequence[str]) -> dict[str, str]:
    """Return the unexpected name that each missing one was probably called."""
    # difflib takes about 20 us a pair, so it sees only names that end as the missing one does.
    by_tail: dict[str, list[str]] = {}
    for name in unexpected:
        by_tail.setdefault(name.rpartition(".")[2], []).append(name)
    suggestions = {}
    for name in missing:
        tail = name.rpartition(".")[2]
        candidates = by_tail.get(tail) or unexpected
        same = [other for other in candidates if _prefix(name, other) or _prefix(other, name)]
        close = same or get_close_matches(name, candidates[:500], n=1)
        if close:
            suggestions[name] = close[0]
    return suggestions


def _advice(report: MatchReport) -> str:
    """Return what to do: rules for the names that explain it, and what then is still to be allowed.

    What it says to load with is what loads.
    """
    what, rules = _renaming(report)
    names = remap(dict.fromkeys(report.unexpected, _NOTHING), rules)
    flags = [
        flag
        for flag, is_needed in (
            ("partial=True", set(report.missing) - names.keys() and not report.partial),
            ("allow_unused=True", names.keys() - set(report.missing) and not report.allow_unused),
        )
        if is_needed
    ]
    if rules:
        return f"\n{what}: load with {', '.join([f'rules={_pairs(rules)!r}', *flags])}"
    return f"\n{what}, load with {', '.join(flags)}" if flags else ""


def _renaming(report: MatchReport) -> tuple[str, Sequence[tuple[str, str]]]:
    """Return in words how the file's names differ from the module's, and rules that mend it."""
    wrappers = [word for word in _WRAPPERS if any(word in name for name in report.unexpected)]
    compiled = [rule for rule in _COMPILED if rule[0].replace("\\", "") in wrappers]
    plain = list(remap(dict.fromkeys(report.unexpected, _NOTHING), compiled))
    by = " and ".join(_WRAPPERS[word] for word in wrappers)
    for name, other in _suggest(report.missing[:SHOWN], plain).items():
        if prefix := _prefix(other, name):
            words = "the file's names have a prefix" + f", as of {by}" * bool(by)
            return words, [*compiled, ("^" + re.escape(prefix), "")]
        if prefix := _prefix(name, other):
            return "the file's names lack a prefix", [*compiled, ("^", prefix)]
    if compiled:
        return f"the file's names are of {by}", compiled
    return "if that is meant", ()


def _prefix(longer: str, shorter: str) -> str:
    """Return what stands before ``shorter`` in ``longer``, dot included, or "" if nothing does."""
    return longer.removesuffix(shorter) if longer.endswith(f".{shorter}") else ""


def _group(title: str, lines: Iterable[str]) -> list[str]:
    lines = list(lines)
    if not lines:
        return []
    rest = [f"    ... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return [f"  {title}:", *(f"    {line}" for line in lines[:SHOWN]), *rest]


def _shown(problems: Sequence[str]) -> str:
    rest = f" and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    return ", ".join(problems[:SHOWN]) + rest
