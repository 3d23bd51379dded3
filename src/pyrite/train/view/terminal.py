"""Whether the dashboard can be shown here, and why not."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

#: What the extra ``tui`` brings, as it is imported.
PACKAGES = ("textual", "plotext")


def problem(stdin: int = 0, stdout: int = 1) -> str | None:
    """Return why no dashboard can be shown in the terminal of two descriptors, None if it can."""
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        return (
            f"{' and '.join(missing)} cannot be imported; get it: "
            f"{sys.executable} -m pip install 'pyrite[tui]'"
        )
    if not (_is_terminal(stdin) and _is_terminal(stdout)):
        return "this is no terminal"
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        return f"this terminal cannot draw (TERM={os.environ.get('TERM', '')})"
    if hasattr(os, "tcgetpgrp") and os.tcgetpgrp(stdout) != os.getpgrp():
        return "this runs in the background of its terminal"
    return None


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False
