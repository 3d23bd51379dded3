"""Functions that run as one program: captured for a few calls, and then replayed.

Below it, `pyrite.backend.capture` says what a call does besides ops, and the optimisers and the
random streams what they do in one.
"""

from pyrite.compiled.function import Compiled as Compiled
from pyrite.compiled.function import compile as compile
from pyrite.compiled.preparation import prepare as prepare

__all__ = ["Compiled", "compile", "prepare"]
