"""The entries of PyTorch's op database and the samples that it tests them with."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import numpy as np
import torch

#: How many samples of each variant of an entry are compared.
COUNTS = {"numpy": 24, "cpu": 6, "torch:cpu": 4, "wgpu": 2}


@functools.cache
def database() -> dict[str, list[Any]]:
    """The entries by name.  To import it takes seconds, and changes hypothesis' profile."""
    profile = hypothesis.settings.get_current_profile_name()
    from torch.testing._internal import common_methods_invocations

    hypothesis.settings.load_profile(profile)
    found: dict[str, list[Any]] = {}
    for entry in common_methods_invocations.op_db:
        found.setdefault(entry.name, []).append(entry)
    return found


def variants_of(name: str) -> Iterator[tuple[str, Any]]:
    """The entries of a name, or the one that is meant by name/variant."""
    base, _, variant = name.partition("/")
    for entry in database()[base]:
        if variant in ("", entry.variant_test_name):
            yield entry.variant_test_name, entry


def kind_of(entry: Any, device: str) -> Any:
    """The dtype in which an entry is compared."""
    wanted = [torch.float64, torch.int32, torch.int64, torch.bool, torch.uint8]
    if device == "wgpu":
        wanted[0], wanted[2] = torch.float32, torch.int32
    return next((k for k in wanted if k in entry.dtypes), None)


def samples_of(entry: Any, device: str) -> list[Any]:
    """All samples of an entry, in a random order that depends on its name."""
    kind = kind_of(entry, device)
    if kind is None:
        return []
    found = _seeded(lambda: list(entry.sample_inputs("cpu", kind, requires_grad=False)))
    return random.Random(entry.name).sample(found, len(found))


def _seeded(make: Callable[[], list[Any]]) -> list[Any]:
    """What is made with the generators of the process at one state, which are then put back."""
    kept = torch.get_rng_state(), random.getstate(), np.random.get_state()
    torch.manual_seed(0)
    random.seed(0)
    np.random.set_state(np.random.RandomState(0).get_state())
    try:
        return make()
    finally:
        torch.set_rng_state(kept[0])
        random.setstate(kept[1])
        np.random.set_state(kept[2])


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Arguments with each tensor and dtype changed; containers as they are."""
    if isinstance(value, (torch.Tensor, torch.dtype)):
        return change(value)
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(v, change) for v in value)
    if isinstance(value, dict):
        return {k: mapped(v, change) for k, v in value.items()}
    return value


def arguments(
    sample: Any, change: Callable[[Any, bool], Any], constant: frozenset[int | str] = frozenset()
) -> tuple[list[Any], dict[str, Any]]:
    """A sample's arguments with each tensor and dtype changed, which is told of constants."""
    args = [
        mapped(value, functools.partial(change, is_constant=place in constant))
        for place, value in enumerate((sample.input, *sample.args))
    ]
    kwargs = {
        key: mapped(value, functools.partial(change, is_constant=key in constant))
        for key, value in sample.kwargs.items()
    }
    return args, kwargs


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from leaves(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from leaves(one)
    elif value is not None:
        yield value
