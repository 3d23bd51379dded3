"""Losses, as modules: ``MSELoss()(prediction, target)``.

reduction       what they share: mean, sum, batch_mean or none
regression      of numbers
classification  of classes and distributions
alignment       of sequences whose alignment is not known
ranking         of comparisons and pairs
"""

from pyrite.nn.loss.alignment import CTCLoss as CTCLoss
from pyrite.nn.loss.alignment import RNNTLoss as RNNTLoss
from pyrite.nn.loss.classification import BCEWithLogitsLoss as BCEWithLogitsLoss
from pyrite.nn.loss.classification import BinaryCrossEntropyLoss as BinaryCrossEntropyLoss
from pyrite.nn.loss.classification import CrossEntropyLoss as CrossEntropyLoss
from pyrite.nn.loss.classification import FocalLoss as FocalLoss
from pyrite.nn.loss.classification import KLDivLoss as KLDivLoss
from pyrite.nn.loss.classification import MultiLabelMarginLoss as MultiLabelMarginLoss
from pyrite.nn.loss.classification import MultiMarginLoss as MultiMarginLoss
from pyrite.nn.loss.classification import NLLLoss as NLLLoss
from pyrite.nn.loss.classification import SoftMarginLoss as SoftMarginLoss
from pyrite.nn.loss.ranking import CosineEmbeddingLoss as CosineEmbeddingLoss
from pyrite.nn.loss.ranking import HingeEmbeddingLoss as HingeEmbeddingLoss
from pyrite.nn.loss.ranking import MarginRankingLoss as MarginRankingLoss
from pyrite.nn.loss.ranking import TripletMarginLoss as TripletMarginLoss
from pyrite.nn.loss.reduction import Loss as Loss
from pyrite.nn.loss.reduction import Reduction as Reduction
from pyrite.nn.loss.regression import GaussianNLLLoss as GaussianNLLLoss
from pyrite.nn.loss.regression import HuberLoss as HuberLoss
from pyrite.nn.loss.regression import L1Loss as L1Loss
from pyrite.nn.loss.regression import LpLoss as LpLoss
from pyrite.nn.loss.regression import MSELoss as MSELoss
from pyrite.nn.loss.regression import PoissonNLLLoss as PoissonNLLLoss
from pyrite.nn.loss.regression import SmoothL1Loss as SmoothL1Loss
