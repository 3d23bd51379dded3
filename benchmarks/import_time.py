"""How long `import pyrite` takes, in milliseconds, and how that compares with `import numpy`.

The bound is 250 ms. Each time is the median of ten fresh interpreters, less the interpreter's own.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from time import perf_counter


def main() -> None:
    """Print the times."""
    empty = median_seconds("pass")
    numpy, pyrite = (median_seconds(f"import {name}") - empty for name in ("numpy", "pyrite"))
    print(f"import numpy   {numpy * 1e3:6.0f} ms")
    print(f"import pyrite  {pyrite * 1e3:6.0f} ms   {pyrite / numpy:.2f} times numpy, bound 250 ms")


def median_seconds(program: str, runs: int = 10) -> float:
    """The median time of an interpreter that runs the program; a first run warms the disk cache."""
    times = []
    for _ in range(runs + 1):
        start = perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        times.append(perf_counter() - start)
    return statistics.median(times[1:])


if __name__ == "__main__":
    main()
