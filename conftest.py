"""What pytest is to do before it collects doctests from Pyrite's files.

Pyrite is imported under its own name: otherwise the first file given on pytest's command line runs
twice, and declares its ops twice.  Modules of optional packages that are missing are left out.
"""

from __future__ import annotations

from importlib.util import find_spec

import pyrite as pyrite

collect_ignore = [] if find_spec("torch") else ["src/pyrite/backend/torch"]
