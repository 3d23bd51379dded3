"""Windows on a device: folds over what lies under them, and sums of windows back where it lay.

`axis` says which taps of a window are elements, inside a kernel.
"""

from pyrite.backend.cube.skeleton.window.fold import fold_windows as fold_windows
from pyrite.backend.cube.skeleton.window.sum import add_up as add_up

__all__ = ["add_up", "fold_windows"]
