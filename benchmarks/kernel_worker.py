"""One library, asked by `kernel_table`: a line in is a case and how often, a line out the times.

The first line out says whether it is there.

python kernel_worker.py kernel_numba cpu
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

import numpy as np
from kernel_cases import Case, cases


def main() -> None:
    """Say ``ready`` or why not, then answer until there is no more to do."""
    # What a library says when it is imported is no answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    device = sys.argv[2]
    library, state = _imported(sys.argv[1], device)
    print(json.dumps(state), file=answers, flush=True)
    known = {case.name: case for case in cases()}
    ready: dict[str, Any] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        name = asked["case"]
        if name not in ready:
            ready[name] = _prepared(library, device, known[name])
        times = [_time(ready[name]) for _ in range(asked["runs"])] if ready[name] else None
        print(json.dumps(times), file=answers, flush=True)


def _imported(module: str, device: str) -> tuple[Any, str]:
    """Return a library and ``ready``, or None and why it cannot be had."""
    try:
        library = importlib.import_module(module)
        if hasattr(library, "begin"):
            library.begin(device)
    except Exception as error:  # whatever a peer raises where it does not work
        return None, f"{type(error).__name__}: {error}".splitlines()[0]
    return library, "ready"


def _prepared(library: Any, device: str, case: Case) -> Any:
    """Return what runs a case, after its result was compared; None where it is not there."""
    try:
        run, result = library.prepared(device, case.name, case.inputs)
        run()
    except KeyError:
        return None
    off = np.abs(result().astype(np.float64) - case.wanted(*case.inputs))
    wrong = np.quantile(off, case.share, method="lower")
    assert wrong <= case.tolerance, f"{case.name} is wrong by {wrong}"
    return run


def _time(run: Any) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
