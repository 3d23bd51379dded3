"""How long `import pyrite` takes, in milliseconds, and how that compares with `import numpy`.

The bounds are 250 ms and 2.5 times `import numpy`.  Processor time of fresh interpreters in turns,
less that of an empty one: other programs slow both alike.  Medians, after a run that fills caches.
OpenBLAS is told to start no threads: they wait in a loop for a while, which would count as NumPy's
own time, twice as much as all else on two cores.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

PROGRAMS = ("pass", "import numpy", "import pyrite")
RUNS = 15


def main() -> None:
    """Print the times."""
    with tempfile.TemporaryDirectory() as folder:
        environment = with_bytecode(folder)
        rounds = [
            [processor_seconds(program, environment) for program in PROGRAMS]
            for _ in range(RUNS + 1)
        ]
    empty, numpy, pyrite = map(statistics.median, zip(*rounds[1:], strict=True))
    numpy, pyrite = numpy - empty, pyrite - empty
    print(f"import numpy   {numpy * 1e3:6.0f} ms of processor time")
    print(f"import pyrite  {pyrite * 1e3:6.0f} ms, bound 250 ms on an idle machine")
    print(f"               {pyrite / numpy:6.2f} times numpy, bound 2.50")


def with_bytecode(folder: str) -> dict[str, str]:
    """Return the environment of an interpreter that keeps what it compiles, as users' do."""
    own = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**own, "PYTHONPYCACHEPREFIX": folder, "OPENBLAS_NUM_THREADS": "1"}


def processor_seconds(program: str, environment: dict[str, str]) -> float:
    """Return the processor time of an interpreter that runs the program, of user and system."""
    process = subprocess.Popen([sys.executable, "-c", program], env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{program!r} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
