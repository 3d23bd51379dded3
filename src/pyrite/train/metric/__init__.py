"""Metrics: one class each, measured on the device and read together."""

from pyrite.train.metric.auroc import AUROC as AUROC
from pyrite.train.metric.classification import Accuracy as Accuracy
from pyrite.train.metric.classification import FBeta as FBeta
from pyrite.train.metric.classification import Precision as Precision
from pyrite.train.metric.classification import Recall as Recall
from pyrite.train.metric.classification import TopK as TopK
from pyrite.train.metric.loss import Loss as Loss
from pyrite.train.metric.loss import Perplexity as Perplexity
from pyrite.train.metric.machine import CPUUse as CPUUse
from pyrite.train.metric.machine import Memory as Memory
from pyrite.train.metric.metric import Metric as Metric
from pyrite.train.metric.metric import SumMetric as SumMetric
from pyrite.train.metric.progress import IterationSpeed as IterationSpeed
from pyrite.train.metric.progress import LearningRate as LearningRate

__all__ = [
    "AUROC",
    "Accuracy",
    "CPUUse",
    "FBeta",
    "IterationSpeed",
    "LearningRate",
    "Loss",
    "Memory",
    "Metric",
    "Perplexity",
    "Precision",
    "Recall",
    "SumMetric",
    "TopK",
]
