"""Ops of ai.onnx.ml that compute with numbers: trees, linear models, features; and n-grams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyrite import types
from pyrite.errors import ArgumentError
from pyrite.onnx.converter import Fixed, Host, converts
from pyrite.onnx.graph import Weight
from pyrite.onnx.program import Call
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array

ML = "ai.onnx.ml"


@converts("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(x: Tensor, y: Fixed) -> Tensor:
    """Return the features at indices, along the last axis."""
    found = x.take(y.reshape((-1,)), x.ndim - 1)
    return found.reshape((1, -1)) if x.ndim == 1 else found


@converts("Binarizer", domain=ML)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    """Return 1 where x is greater than a threshold, else 0."""
    return (x > threshold).astype(x.dtype)


@converts("Scaler", domain=ML)
def scaler(
    call: Call, x: Tensor, *, offset: Sequence[float] = (0.0,), scale: Sequence[float] = (1.0,)
) -> Tensor:
    """Return (x - offset) * scale."""
    shift, factor = (call.tensor(np.array(v, np.float32)) for v in (offset, scale))
    return (x.astype(types.float32) - shift) * factor


@converts("Normalizer", domain=ML)
def normalizer(x: Tensor, *, norm: str = "MAX") -> Tensor:
    """Return rows divided by their greatest element, the sum of sizes, or the length."""
    x = x.astype(types.float32)
    if norm == "MAX":
        return x / x.max(-1, keepdims=True)
    size = x.abs().sum(-1, keepdims=True) if norm == "L1" else (x * x).sum(-1, keepdims=True).sqrt()
    return x / size


@converts("LinearRegressor", domain=ML)
def linear_regressor(
    call: Call,
    x: Tensor,
    *,
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    post_transform: str = "NONE",
    targets: int = 1,
) -> Tensor:
    """Return x times the coefficients plus the intercepts: (N, D) -> (N, targets)."""
    weight = call.tensor(np.array(coefficients, np.float32).reshape(targets, -1))
    y = x.astype(types.float32).matmul(weight.mT)
    y = y + call.tensor(np.array(intercepts, np.float32)) if intercepts else y
    return _transformed(y, post_transform)


def _transformed(y: Tensor, name: str) -> Tensor:
    if name == "LOGISTIC":
        return y.sigmoid()
    if name == "PROBIT":
        return (y * 2 - 1).erfinv() * 2**0.5
    if name == "SOFTMAX":
        return y.softmax(-1)
    if name == "SOFTMAX_ZERO":
        kept = functions.where(y == 0, -float("inf"), y).softmax(-1)
        return functions.where(y == 0, 0.0, kept)
    return y


# ---- trees ----

_MODES = {"BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3, "BRANCH_EQ": 4,
          "BRANCH_NEQ": 5}  # fmt: skip
_POST = {0: "NONE", 1: "SOFTMAX", 2: "LOGISTIC", 3: "SOFTMAX_ZERO", 4: "PROBIT"}
#: The mode of a node that asks whether a value is in a set.
_MEMBER = 6


@converts("TreeEnsemble", since=5, domain=ML)
def tree_ensemble(
    call: Call,
    x: Tensor,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Sequence[int],
    leaf_weights: Weight,
    membership_values: Weight | None = None,
    n_targets: int = 1,
    nodes_falseleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_hitrates: Weight | None = None,
    nodes_missing_value_tracks_true: Sequence[int] = (),
    nodes_modes: Weight,
    nodes_splits: Weight,
    nodes_trueleafs: Sequence[int],
    nodes_truenodeids: Sequence[int],
    post_transform: int = 0,
    tree_roots: Sequence[int],
) -> Tensor:
    """Return what the leaves that rows reach say, taken together for each target."""
    count = len(nodes_featureids)
    yes = np.where(nodes_trueleafs, np.array(nodes_truenodeids) + count, nodes_truenodeids)
    no = np.where(nodes_falseleafs, np.array(nodes_falsenodeids) + count, nodes_falsenodeids)
    leaves = np.arange(count, count + len(leaf_targetids))
    modes = nodes_modes.read().reshape(-1)
    members = None if membership_values is None else _member_sets(modes, membership_values.read())
    table = {
        "yes": np.concatenate([yes, leaves]).astype(np.int32),
        "no": np.concatenate([no, leaves]).astype(np.int32),
        "feature": np.concatenate([nodes_featureids, 0 * leaves]).astype(np.int32),
        "mode": np.concatenate([modes, 0 * leaves]).astype(np.int32),
        "split": np.concatenate([nodes_splits.read(), 0.0 * leaves]),
        "missing": np.concatenate(
            [nodes_missing_value_tracks_true or [0] * count, 0 * leaves]
        ).astype(bool),
    }
    reached = _reached(call, x, table, members, tree_roots, count) - count
    weights = (
        call.tensor(leaf_weights.read().reshape(-1)).astype(x.dtype).take(reached.reshape((-1,)), 0)
    )
    targets = call.tensor(np.array(leaf_targetids, np.int32)).take(reached.reshape((-1,)), 0)
    y = _aggregated(
        weights.reshape(reached.shape),
        targets.reshape(reached.shape),
        n_targets,
        aggregate_function,
    )
    return _transformed(y, _POST[post_transform])


def _member_sets(modes: Array, values: Array) -> list[Array]:
    """Return the set of each node, NaN-parted in the file; empty for nodes of other modes."""
    sets: list[Array] = []
    current: list[float] = []
    for value in values.tolist():
        if np.isnan(value):
            sets.append(np.array(current))
            current = []
        else:
            current.append(value)
    rest = iter([*sets, np.array(current)])
    return [next(rest) if mode == _MEMBER else np.array([]) for mode in modes]


def _reached(
    call: Call, x: Tensor, table: dict[str, Array], members: list[Array] | None,
    roots: Sequence[int], count: int,
) -> Tensor:  # fmt: skip
    """Return the leaf that each row reaches in each tree: (N, trees)."""
    on_device = {name: call.tensor(array) for name, array in table.items()}
    at = call.tensor(np.array([roots], np.int32)).broadcast_to((x.shape[0], len(roots)))
    for _ in range(_depth(table, roots, count)):
        flat = at.reshape((-1,))
        node = {name: t.take(flat, 0).reshape(at.shape) for name, t in on_device.items()}
        value = x.take_along_axis(node["feature"], 1)
        goes = _holds(value, node["split"].astype(x.dtype), node["mode"])
        if members is not None:
            goes = _is_member(call, value, at, members, goes, node["mode"])
        goes = goes.logical_or(value.isnan().logical_and(node["missing"]))
        at = functions.where(goes, node["yes"], node["no"])
    return at


def _holds(value: Tensor, split: Tensor, mode: Tensor) -> Tensor:
    answers = (value <= split, value < split, value >= split, value > split, value == split,
               value != split)  # fmt: skip
    found = answers[0]
    for number, answer in enumerate(answers[1:], 1):
        found = functions.where(mode == number, answer, found)
    return found


def _is_member(
    call: Call, value: Tensor, at: Tensor, members: list[Array], goes: Tensor, mode: Tensor
) -> Tensor:
    for node, values in enumerate(members):
        if values.size:
            there = (at == node).logical_and(mode == _MEMBER)
            inside = (
                value.unsqueeze(-1) == call.tensor(values.astype(np.float32)).astype(value.dtype)
            ).any(-1)
            goes = functions.where(there, inside, goes)
    return goes


def _depth(table: dict[str, Array], roots: Sequence[int], count: int) -> int:
    """Return the number of steps after which every path from the roots is at a leaf."""
    front, steps = set(roots), 0
    while any(node < count for node in front):
        front = {
            int(n)
            for node in front
            for n in (table["yes"][node], table["no"][node])
            if node < count
        }
        steps += 1
        if steps > count:
            raise ArgumentError("a tree requires nodes without a cycle, got one")
    return steps


def _aggregated(weights: Tensor, targets: Tensor, count: int, function: int) -> Tensor:
    """Return sums (1), means (0), least (2) or greatest (3) weights of each target."""
    numbers = functions.arange(count, dtype=targets.dtype, device=targets.device)
    belongs = targets.unsqueeze(-1) == numbers
    spread = weights.unsqueeze(-1)
    if function == 2:
        return functions.where(belongs, spread, float(np.finfo(np.float32).max)).min(1)
    if function == 3:
        return functions.where(belongs, spread, float(np.finfo(np.float32).min)).max(1)
    total = functions.where(belongs, spread, 0).sum(1)
    return total / weights.shape[1] if function == 0 else total


# ---- n-grams ----


@converts("TfIdfVectorizer", since=9)
def tfidf_vectorizer(
    call: Call,
    x: Host,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int],
    weights: Sequence[float] = (),
) -> Tensor:
    """Return how often each n-gram of a pool occurs, with up to so many skips; the host counts."""
    pool = _pool(pool_int64s, ngram_counts, min_gram_length, max_gram_length)
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    counts = np.zeros((len(rows), max(ngram_indexes) + 1), np.float32)
    for row, out in zip(rows.tolist(), counts, strict=True):
        for gram in _grams(row, min_gram_length, max_gram_length, max_skip_count):
            if gram in pool:
                out[ngram_indexes[pool[gram]]] += 1
    if mode != "TF":
        counts = np.minimum(counts, 1) if mode == "IDF" else counts
        counts = counts * np.array(weights, np.float32) if weights else counts
    return call.tensor(counts.reshape(-1) if x.ndim < 2 else counts)


def _pool(items: Sequence[int], starts: Sequence[int], least: int, most: int) -> dict[Any, int]:
    """Return the number of each n-gram in the pool."""
    found: dict[Any, int] = {}
    number = 0
    for size, (start, end) in enumerate(zip(starts, [*starts[1:], len(items)], strict=True), 1):
        for at in range(start, end - size + 1, size):
            if least <= size <= most:
                found.setdefault(tuple(items[at : at + size]), number)
            number += 1
    return found


def _grams(row: Sequence[int], least: int, most: int, skips: int) -> Any:
    """Give the n-grams of a row; those of one item once, whatever the skips."""
    for step in range(1, skips + 2):
        for size in range(least, most + 1):
            if size == 1 and step > 1:
                continue
            for start in range(len(row) - step * (size - 1)):
                yield tuple(row[start : start + step * (size - 1) + 1 : step])
