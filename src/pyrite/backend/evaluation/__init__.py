"""Rules evaluated on whole arrays: how NumPy and PyTorch read a rule of a class.

Each class has one evaluator, which serves both: what differs between the two is `Arrays`.
"""

from pyrite.backend.evaluation import contract as contract
from pyrite.backend.evaluation import gather as gather
from pyrite.backend.evaluation import map as map
from pyrite.backend.evaluation import scatter as scatter
from pyrite.backend.evaluation import window as window
from pyrite.backend.evaluation.arrays import Arrays as Arrays
from pyrite.backend.evaluation.coordinates import coordinates_for as coordinates_for
from pyrite.backend.evaluation.evaluator import EVALUATORS as EVALUATORS
from pyrite.backend.evaluation.evaluator import evaluate as evaluate
from pyrite.backend.evaluation.evaluator import evaluates as evaluates
from pyrite.backend.evaluation.fold import fold_axes as fold_axes
from pyrite.backend.evaluation.scan import recur_along as recur_along
from pyrite.backend.evaluation.scan import scan_axis as scan_axis

__all__ = [
    "EVALUATORS",
    "Arrays",
    "coordinates_for",
    "evaluate",
    "evaluates",
    "fold_axes",
    "recur_along",
    "scan_axis",
]
