"""Training: the learner, its metrics, goals, checkpoints and events, and what shows a run."""

from pyrite.train.checkpoint import Checkpoint as Checkpoint
from pyrite.train.checkpoint import CheckpointPolicy as CheckpointPolicy
from pyrite.train.directory import RunDirectory as RunDirectory
from pyrite.train.event import CheckpointDamaged as CheckpointDamaged
from pyrite.train.event import Checkpointed as Checkpointed
from pyrite.train.event import EpochEnded as EpochEnded
from pyrite.train.event import EpochStarted as EpochStarted
from pyrite.train.event import Event as Event
from pyrite.train.event import Failed as Failed
from pyrite.train.event import Interrupted as Interrupted
from pyrite.train.event import Logged as Logged
from pyrite.train.event import Paused as Paused
from pyrite.train.event import PauseEnded as PauseEnded
from pyrite.train.event import Resumed as Resumed
from pyrite.train.event import RunEnded as RunEnded
from pyrite.train.event import RunStarted as RunStarted
from pyrite.train.event import Sampled as Sampled
from pyrite.train.event import StepEnded as StepEnded
from pyrite.train.event import StoppedEarly as StoppedEarly
from pyrite.train.event import StopRequested as StopRequested
from pyrite.train.event_file import Entry as Entry
from pyrite.train.event_file import EventReader as EventReader
from pyrite.train.event_file import read_events as read_events
from pyrite.train.history import EarlyStopping as EarlyStopping
from pyrite.train.history import Goal as Goal
from pyrite.train.history import History as History
from pyrite.train.history import SplitResult as SplitResult
from pyrite.train.interruption import Interrupter as Interrupter
from pyrite.train.learner import Learner as Learner
from pyrite.train.metric import AUROC as AUROC
from pyrite.train.metric import BLEU as BLEU
from pyrite.train.metric import PSNR as PSNR
from pyrite.train.metric import SSIM as SSIM
from pyrite.train.metric import Accuracy as Accuracy
from pyrite.train.metric import AveragePrecision as AveragePrecision
from pyrite.train.metric import CharErrorRate as CharErrorRate
from pyrite.train.metric import ConfusionMatrix as ConfusionMatrix
from pyrite.train.metric import CPUUse as CPUUse
from pyrite.train.metric import Dice as Dice
from pyrite.train.metric import FBeta as FBeta
from pyrite.train.metric import IterationSpeed as IterationSpeed
from pyrite.train.metric import LearningRate as LearningRate
from pyrite.train.metric import Loss as Loss
from pyrite.train.metric import Memory as Memory
from pyrite.train.metric import Metric as Metric
from pyrite.train.metric import MultiScaleSSIM as MultiScaleSSIM
from pyrite.train.metric import Perplexity as Perplexity
from pyrite.train.metric import Precision as Precision
from pyrite.train.metric import RankingMetric as RankingMetric
from pyrite.train.metric import Recall as Recall
from pyrite.train.metric import RougeL as RougeL
from pyrite.train.metric import SumMetric as SumMetric
from pyrite.train.metric import TextMetric as TextMetric
from pyrite.train.metric import TopK as TopK
from pyrite.train.metric import WordErrorRate as WordErrorRate
from pyrite.train.output import Output as Output
from pyrite.train.output import Show as Show
from pyrite.train.output import Step as Step
from pyrite.train.output import supervised as supervised
from pyrite.train.reading import Reading as Reading
from pyrite.train.result import Result as Result
from pyrite.train.sample import ImageSample as ImageSample
from pyrite.train.sample import Sample as Sample
from pyrite.train.sample import TableSample as TableSample
from pyrite.train.sample import TextSample as TextSample
from pyrite.train.summary import SummaryRow as SummaryRow
from pyrite.train.summary import summary as summary
from pyrite.train.summary import summary_text as summary_text
from pyrite.train.view import CommandingView as CommandingView
from pyrite.train.view import Dashboard as Dashboard
from pyrite.train.view import PlainView as PlainView
from pyrite.train.view import View as View

__all__ = [
    "AUROC",
    "BLEU",
    "PSNR",
    "SSIM",
    "Accuracy",
    "AveragePrecision",
    "CPUUse",
    "CharErrorRate",
    "Checkpoint",
    "CheckpointDamaged",
    "CheckpointPolicy",
    "Checkpointed",
    "CommandingView",
    "ConfusionMatrix",
    "Dashboard",
    "Dice",
    "EarlyStopping",
    "Entry",
    "EpochEnded",
    "EpochStarted",
    "Event",
    "EventReader",
    "FBeta",
    "Failed",
    "Goal",
    "History",
    "ImageSample",
    "Interrupted",
    "Interrupter",
    "IterationSpeed",
    "Learner",
    "LearningRate",
    "Logged",
    "Loss",
    "Memory",
    "Metric",
    "MultiScaleSSIM",
    "Output",
    "PauseEnded",
    "Paused",
    "Perplexity",
    "PlainView",
    "Precision",
    "RankingMetric",
    "Reading",
    "Recall",
    "Result",
    "Resumed",
    "RougeL",
    "RunDirectory",
    "RunEnded",
    "RunStarted",
    "Sample",
    "Sampled",
    "Show",
    "SplitResult",
    "Step",
    "StepEnded",
    "StopRequested",
    "StoppedEarly",
    "SumMetric",
    "SummaryRow",
    "TableSample",
    "TextMetric",
    "TextSample",
    "TopK",
    "View",
    "WordErrorRate",
    "read_events",
    "summary",
    "summary_text",
    "supervised",
]
