"""What `make test` runs of a large suite changes with the commit, and a seed repeats it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import core as hypothesis

SUITE = {number: {"number": number} for number in range(200)}


@pytest.fixture
def shared(pytestconfig: pytest.Config) -> Any:
    """What all tests share: the file of that name."""
    return pytestconfig.pluginmanager.get_plugin(str(Path(__file__).with_name("conftest.py")))


def test_a_sample_changes_with_the_commit_and_a_seed_repeats_it(
    shared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def numbers(seed: str) -> set[int]:
        monkeypatch.setattr(shared, "seed_of_samples", lambda: seed)
        chosen: set[int] = shared.sample("a suite", pytest.mark.sample(5).mark, SUITE)
        return chosen

    samples = [numbers(seed) for seed in "abcdefgh"]
    assert [numbers(seed) for seed in "abcdefgh"] == samples
    assert len({frozenset(s) for s in samples}) == len(samples)
    assert all(len(s) == 5 for s in samples)


def test_what_hypothesis_draws_changes_with_the_commit(pytestconfig: pytest.Config) -> None:
    assert hypothesis.global_force_seed is not None
    assert str(hypothesis.global_force_seed) == str(pytestconfig.getoption("hypothesis_seed"))
