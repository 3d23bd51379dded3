"""Settings come from the environment, typed, and a bad one is an error that names the variable."""

from __future__ import annotations

import pytest

from pyrite.config import MOST_THREADS, Config
from pyrite.errors import ArgumentError


def test_every_kind_of_setting_is_read() -> None:
    found = Config.from_environment(
        {"PYRITE_DEVICE": "numpy", "PYRITE_STRICT": "yes", "PYRITE_THREADS": "3", "OTHER": "1"}
    )

    assert found == Config(device="numpy", strict=True, threads=3)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "", "1000000"])
def test_a_number_of_threads_is_positive_and_bounded(text: str) -> None:
    with pytest.raises(ArgumentError, match=rf"PYRITE_THREADS requires .* got '?{text}'?; leave"):
        Config.from_environment({"PYRITE_THREADS": text})


@pytest.mark.parametrize("count", [0, "two", 1_000_000])
def test_a_number_of_threads_is_checked_when_it_is_set(count: object) -> None:
    config = Config(threads=MOST_THREADS)

    with pytest.raises(ArgumentError, match=r"config\.threads requires a whole number from 1 to"):
        config.threads = count  # type: ignore[assignment]

    assert config.threads == MOST_THREADS


def test_a_flag_is_yes_or_no() -> None:
    with pytest.raises(ArgumentError, match=r"PYRITE_STRICT requires .* got 'maybe'"):
        Config.from_environment({"PYRITE_STRICT": "maybe"})


@pytest.mark.parametrize(
    ("text", "wanted"), [("1", "after"), ("before", "before"), ("After", "after"), ("0", None)]
)
def test_a_guard_is_a_side_or_yes(text: str, wanted: str | None) -> None:
    assert Config.from_environment({"PYRITE_GUARD": text}).guard == wanted


def test_a_guard_is_checked_when_it_is_set() -> None:
    config = Config(guard="before")

    with pytest.raises(ArgumentError, match=r"config\.guard requires one of \('after', 'before'"):
        config.guard = "around"  # type: ignore[assignment]
    assert config.guard == "before"
