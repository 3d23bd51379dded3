"""Metrics: one class each, measured on the device and read together."""

from pyrite.train.metric.auroc import AUROC as AUROC
from pyrite.train.metric.average_precision import AveragePrecision as AveragePrecision
from pyrite.train.metric.bleu import BLEU as BLEU
from pyrite.train.metric.classification import Accuracy as Accuracy
from pyrite.train.metric.classification import FBeta as FBeta
from pyrite.train.metric.classification import Precision as Precision
from pyrite.train.metric.classification import Recall as Recall
from pyrite.train.metric.classification import TopK as TopK
from pyrite.train.metric.confusion import ConfusionMatrix as ConfusionMatrix
from pyrite.train.metric.dice import Dice as Dice
from pyrite.train.metric.error_rate import CharErrorRate as CharErrorRate
from pyrite.train.metric.error_rate import WordErrorRate as WordErrorRate
from pyrite.train.metric.image import PSNR as PSNR
from pyrite.train.metric.image import SSIM as SSIM
from pyrite.train.metric.image import MultiScaleSSIM as MultiScaleSSIM
from pyrite.train.metric.loss import Loss as Loss
from pyrite.train.metric.loss import Perplexity as Perplexity
from pyrite.train.metric.machine import CPUUse as CPUUse
from pyrite.train.metric.machine import Memory as Memory
from pyrite.train.metric.metric import Metric as Metric
from pyrite.train.metric.metric import SumMetric as SumMetric
from pyrite.train.metric.progress import IterationSpeed as IterationSpeed
from pyrite.train.metric.progress import LearningRate as LearningRate
from pyrite.train.metric.ranking import RankingMetric as RankingMetric
from pyrite.train.metric.rouge import RougeL as RougeL
from pyrite.train.metric.text import TextMetric as TextMetric

__all__ = [
    "AUROC",
    "BLEU",
    "PSNR",
    "SSIM",
    "Accuracy",
    "AveragePrecision",
    "CPUUse",
    "CharErrorRate",
    "ConfusionMatrix",
    "Dice",
    "FBeta",
    "IterationSpeed",
    "LearningRate",
    "Loss",
    "Memory",
    "Metric",
    "MultiScaleSSIM",
    "Perplexity",
    "Precision",
    "RankingMetric",
    "Recall",
    "RougeL",
    "SumMetric",
    "TextMetric",
    "TopK",
    "WordErrorRate",
]
