"""What is not collected here: the modules of optional packages that are not installed."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["src/pyrite/backend/torch"]
