"""Events of a trace that chrome://tracing and Perfetto show."""

from __future__ import annotations

from typing import Any


def chrome_event(
    name: str, category: str, track: str, start: float, seconds: float, **more: Any
) -> dict[str, Any]:
    """Return a complete event; times are in seconds, and in microseconds in the trace.

    >>> chrome_event("matmul", "cpu", "cpu", 0.5, 0.25)["dur"]
    250000.0
    """
    return {
        "name": name, "cat": category, "ph": "X", "pid": 1, "tid": track,
        "ts": start * 1e6, "dur": seconds * 1e6, "args": more,
    }  # fmt: skip
