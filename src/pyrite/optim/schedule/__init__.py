"""Schedules: the learning rate of every step.

A schedule is a frozen value, called with the number of steps already made; it gives the rate of the
next one, so ``schedule(0)`` is the first.  An optimiser takes one wherever it takes a rate.  Any
function of the step will do: ``SGD(lambda step: 0.1 / (1 + step))``.

=======================  =============================================================
Burn, PyTorch            here
=======================  =============================================================
num_iters, total_iters   steps
initial_lr, base lr      learning_rate
eta_min, min_lr          min_learning_rate
LinearLrScheduler        Linear(start, end, steps)
CosineAnnealing (Burn)   CosineWarmRestarts: Burn's starts again after num_iters
LambdaLR                 the function itself
LinearLR (PyTorch)       WarmUp(schedule, steps, start_factor)
ChainedScheduler         Composed([...], "prod")
=======================  =============================================================
"""

import typing as _typing

from pyrite.op.foreign import answering as _answering
from pyrite.optim.schedule.composition import Composed as Composed
from pyrite.optim.schedule.composition import Sequential as Sequential
from pyrite.optim.schedule.composition import WarmUp as WarmUp
from pyrite.optim.schedule.cosine import CosineAnnealing as CosineAnnealing
from pyrite.optim.schedule.cosine import CosineWarmRestarts as CosineWarmRestarts
from pyrite.optim.schedule.cosine import OneCycle as OneCycle
from pyrite.optim.schedule.decay import Constant as Constant
from pyrite.optim.schedule.decay import Exponential as Exponential
from pyrite.optim.schedule.decay import Linear as Linear
from pyrite.optim.schedule.decay import MultiStep as MultiStep
from pyrite.optim.schedule.decay import Noam as Noam
from pyrite.optim.schedule.decay import Polynomial as Polynomial
from pyrite.optim.schedule.decay import Step as Step
from pyrite.optim.schedule.plateau import ReduceOnPlateau as ReduceOnPlateau
from pyrite.optim.schedule.rate import Rate as Rate
from pyrite.optim.schedule.rate import Schedule as Schedule
from pyrite.optim.torch_names import SCHEDULES as _SCHEDULES

__all__ = [
    "Composed",
    "Constant",
    "CosineAnnealing",
    "CosineWarmRestarts",
    "Exponential",
    "Linear",
    "MultiStep",
    "Noam",
    "OneCycle",
    "Polynomial",
    "Rate",
    "ReduceOnPlateau",
    "Schedule",
    "Sequential",
    "Step",
    "WarmUp",
]

if not _typing.TYPE_CHECKING:
    __getattr__ = _answering("pyrite.optim.schedule", _SCHEDULES)
