"""How long `import pyrite` takes, in milliseconds, and how that compares with `import numpy`.

The bounds are 250 ms and 2.5 times `import numpy`.  It is the processor time of that statement, in
fresh interpreters in turns: other programs slow both alike.  Medians, after a run that fills
caches.  What the end of an interpreter takes, which throws away what was imported, is printed too.
OpenBLAS is told to start no threads: they wait in a loop for a while, which would count as NumPy's
own time, twice as much as all else on two cores.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

STATEMENT = """
from time import process_time
start = process_time()
import {module}
print(process_time() - start)
"""
MODULES = ("numpy", "pyrite")
RUNS = 15


def main() -> None:
    """Print the times."""
    with tempfile.TemporaryDirectory() as folder:
        environment = with_bytecode(folder)
        rounds = [
            [times(STATEMENT.format(module=module), environment) for module in MODULES]
            for _ in range(RUNS + 1)
        ]
    (numpy, numpy_end), (pyrite, pyrite_end) = (
        [statistics.median(kind) for kind in zip(*module, strict=True)]
        for module in zip(*rounds[1:], strict=True)
    )
    print(
        f"import numpy   {numpy * 1e3:6.0f} ms of processor time, {numpy_end * 1e3:4.0f} around it"
    )
    print(
        f"import pyrite  {pyrite * 1e3:6.0f} ms, bound 250 ms; {pyrite_end * 1e3:17.0f} around it"
    )
    print(f"               {pyrite / numpy:6.2f} times numpy, bound 2.50")


def with_bytecode(folder: str) -> dict[str, str]:
    """Return the environment of an interpreter that keeps what it compiles, as users' do."""
    own = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**own, "PYTHONPYCACHEPREFIX": folder, "OPENBLAS_NUM_THREADS": "1"}


def times(program: str, environment: dict[str, str]) -> tuple[float, float]:
    """Return the seconds that a program prints, and what its interpreter took besides.

    Both are processor time, of user and system.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{program!r} ended with {process.returncode}")
    inside = float(printed)
    return inside, usage.ru_utime + usage.ru_stime - inside


if __name__ == "__main__":
    main()
