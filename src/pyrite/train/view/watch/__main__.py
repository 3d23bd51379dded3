"""The process of a `pyrite.train.view.dashboard`: the folder of a run, and its end of the pipe."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyrite.train.view.control import Remote
from pyrite.train.view.watch.screen import show


def main() -> int:
    """Show the run, and return the exit status."""
    folder, pipe = Path(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run
    os.nice(19)  # where processors are short, the training has them
    return show(folder, remote=Remote(pipe))


if __name__ == "__main__":
    sys.exit(main())
