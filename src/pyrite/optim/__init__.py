"""Optimisers, learning rate schedules, clipping and accumulation of gradients."""

import typing as _typing

from pyrite.op.foreign import answering as _answering
from pyrite.optim import schedule as schedule
from pyrite.optim.accumulate import GradientAccumulator as GradientAccumulator
from pyrite.optim.adadelta import Adadelta as Adadelta
from pyrite.optim.adafactor import Adafactor as Adafactor
from pyrite.optim.adagrad import Adagrad as Adagrad
from pyrite.optim.adam import Adam as Adam
from pyrite.optim.adamw import AdamW as AdamW
from pyrite.optim.adan import Adan as Adan
from pyrite.optim.clip import clip_by_global_norm as clip_by_global_norm
from pyrite.optim.clip import clip_by_norm as clip_by_norm
from pyrite.optim.clip import clip_by_value as clip_by_value
from pyrite.optim.clip import global_norm as global_norm
from pyrite.optim.lamb import LAMB as LAMB
from pyrite.optim.lbfgs import LBFGS as LBFGS
from pyrite.optim.lion import Lion as Lion
from pyrite.optim.muon import Muon as Muon
from pyrite.optim.nadam import NAdam as NAdam
from pyrite.optim.optimizer import Optimizer as Optimizer
from pyrite.optim.radam import RAdam as RAdam
from pyrite.optim.rmsprop import RMSprop as RMSprop
from pyrite.optim.rprop import Rprop as Rprop
from pyrite.optim.sgd import SGD as SGD
from pyrite.optim.torch_names import MODULE as _MODULE

__all__ = [
    "LAMB",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adan",
    "GradientAccumulator",
    "Lion",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "global_norm",
    "schedule",
]

if not _typing.TYPE_CHECKING:
    __getattr__ = _answering("pyrite.optim", _MODULE)
