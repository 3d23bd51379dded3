"""Networks: modules, layers, initial values and losses."""

import typing as _typing

from pyrite.nn import init as init
from pyrite.nn.activation import CELU as CELU
from pyrite.nn.activation import ELU as ELU
from pyrite.nn.activation import GELU as GELU
from pyrite.nn.activation import GLU as GLU
from pyrite.nn.activation import SELU as SELU
from pyrite.nn.activation import Activation as Activation
from pyrite.nn.activation import Hardshrink as Hardshrink
from pyrite.nn.activation import Hardsigmoid as Hardsigmoid
from pyrite.nn.activation import Hardswish as Hardswish
from pyrite.nn.activation import Hardtanh as Hardtanh
from pyrite.nn.activation import Identity as Identity
from pyrite.nn.activation import LeakyReLU as LeakyReLU
from pyrite.nn.activation import LogSigmoid as LogSigmoid
from pyrite.nn.activation import LogSoftmax as LogSoftmax
from pyrite.nn.activation import Mish as Mish
from pyrite.nn.activation import PReLU as PReLU
from pyrite.nn.activation import ReLU as ReLU
from pyrite.nn.activation import ReLU6 as ReLU6
from pyrite.nn.activation import RReLU as RReLU
from pyrite.nn.activation import Shrink as Shrink
from pyrite.nn.activation import Sigmoid as Sigmoid
from pyrite.nn.activation import SiLU as SiLU
from pyrite.nn.activation import Softmax as Softmax
from pyrite.nn.activation import Softplus as Softplus
from pyrite.nn.activation import Softshrink as Softshrink
from pyrite.nn.activation import Softsign as Softsign
from pyrite.nn.activation import SwiGLU as SwiGLU
from pyrite.nn.activation import Tanh as Tanh
from pyrite.nn.activation import Tanhshrink as Tanhshrink
from pyrite.nn.activation import Threshold as Threshold
from pyrite.nn.activation import ThresholdedReLU as ThresholdedReLU
from pyrite.nn.attention import MultiHeadAttention as MultiHeadAttention
from pyrite.nn.cache import FixedKeyValueCache as FixedKeyValueCache
from pyrite.nn.cache import KeyValueCache as KeyValueCache
from pyrite.nn.container import Lambda as Lambda
from pyrite.nn.container import Sequential as Sequential
from pyrite.nn.conv import Conv1d as Conv1d
from pyrite.nn.conv import Conv2d as Conv2d
from pyrite.nn.conv import Conv3d as Conv3d
from pyrite.nn.conv import ConvTranspose1d as ConvTranspose1d
from pyrite.nn.conv import ConvTranspose2d as ConvTranspose2d
from pyrite.nn.conv import ConvTranspose3d as ConvTranspose3d
from pyrite.nn.distance import CosineSimilarity as CosineSimilarity
from pyrite.nn.distance import PairwiseDistance as PairwiseDistance
from pyrite.nn.dropout import AlphaDropout as AlphaDropout
from pyrite.nn.dropout import Dropout as Dropout
from pyrite.nn.dropout import Dropout1d as Dropout1d
from pyrite.nn.dropout import Dropout2d as Dropout2d
from pyrite.nn.dropout import Dropout3d as Dropout3d
from pyrite.nn.dropout import FeatureAlphaDropout as FeatureAlphaDropout
from pyrite.nn.embedding import Embedding as Embedding
from pyrite.nn.embedding import EmbeddingBag as EmbeddingBag
from pyrite.nn.generation import Beams as Beams
from pyrite.nn.generation import beam_search as beam_search
from pyrite.nn.generation import generate as generate
from pyrite.nn.interpolate import Interpolate1d as Interpolate1d
from pyrite.nn.interpolate import Interpolate2d as Interpolate2d
from pyrite.nn.interpolate import Interpolate3d as Interpolate3d
from pyrite.nn.linear import Linear as Linear
from pyrite.nn.lora import LoRA as LoRA
from pyrite.nn.lora import lora as lora
from pyrite.nn.lora import merge_lora as merge_lora
from pyrite.nn.loss import BCEWithLogitsLoss as BCEWithLogitsLoss
from pyrite.nn.loss import BinaryCrossEntropyLoss as BinaryCrossEntropyLoss
from pyrite.nn.loss import CosineEmbeddingLoss as CosineEmbeddingLoss
from pyrite.nn.loss import CrossEntropyLoss as CrossEntropyLoss
from pyrite.nn.loss import CTCLoss as CTCLoss
from pyrite.nn.loss import FocalLoss as FocalLoss
from pyrite.nn.loss import GaussianNLLLoss as GaussianNLLLoss
from pyrite.nn.loss import HingeEmbeddingLoss as HingeEmbeddingLoss
from pyrite.nn.loss import HuberLoss as HuberLoss
from pyrite.nn.loss import KLDivLoss as KLDivLoss
from pyrite.nn.loss import L1Loss as L1Loss
from pyrite.nn.loss import LpLoss as LpLoss
from pyrite.nn.loss import MarginRankingLoss as MarginRankingLoss
from pyrite.nn.loss import MSELoss as MSELoss
from pyrite.nn.loss import MultiLabelMarginLoss as MultiLabelMarginLoss
from pyrite.nn.loss import MultiMarginLoss as MultiMarginLoss
from pyrite.nn.loss import NLLLoss as NLLLoss
from pyrite.nn.loss import PoissonNLLLoss as PoissonNLLLoss
from pyrite.nn.loss import RNNTLoss as RNNTLoss
from pyrite.nn.loss import SmoothL1Loss as SmoothL1Loss
from pyrite.nn.loss import SoftMarginLoss as SoftMarginLoss
from pyrite.nn.loss import TripletMarginLoss as TripletMarginLoss
from pyrite.nn.module import Module as Module
from pyrite.nn.noise import GaussianNoise as GaussianNoise
from pyrite.nn.norm import BatchNorm as BatchNorm
from pyrite.nn.norm import GroupNorm as GroupNorm
from pyrite.nn.norm import InstanceNorm as InstanceNorm
from pyrite.nn.norm import LayerNorm as LayerNorm
from pyrite.nn.norm import LocalResponseNorm as LocalResponseNorm
from pyrite.nn.norm import Normalization as Normalization
from pyrite.nn.norm import RMSNorm as RMSNorm
from pyrite.nn.pool import AdaptiveAvgPool1d as AdaptiveAvgPool1d
from pyrite.nn.pool import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from pyrite.nn.pool import AdaptiveAvgPool3d as AdaptiveAvgPool3d
from pyrite.nn.pool import AdaptiveMaxPool1d as AdaptiveMaxPool1d
from pyrite.nn.pool import AdaptiveMaxPool2d as AdaptiveMaxPool2d
from pyrite.nn.pool import AdaptiveMaxPool3d as AdaptiveMaxPool3d
from pyrite.nn.pool import AvgPool1d as AvgPool1d
from pyrite.nn.pool import AvgPool2d as AvgPool2d
from pyrite.nn.pool import AvgPool3d as AvgPool3d
from pyrite.nn.pool import MaxPool1d as MaxPool1d
from pyrite.nn.pool import MaxPool2d as MaxPool2d
from pyrite.nn.pool import MaxPool3d as MaxPool3d
from pyrite.nn.position import PositionalEncoding as PositionalEncoding
from pyrite.nn.position import RotaryEncoding as RotaryEncoding
from pyrite.nn.position import sinusoids as sinusoids
from pyrite.nn.rearrangement import Flatten as Flatten
from pyrite.nn.rearrangement import Fold as Fold
from pyrite.nn.rearrangement import PixelShuffle as PixelShuffle
from pyrite.nn.rearrangement import PixelUnshuffle as PixelUnshuffle
from pyrite.nn.rearrangement import Unfold as Unfold
from pyrite.nn.recurrent import GRU as GRU
from pyrite.nn.recurrent import LSTM as LSTM
from pyrite.nn.recurrent import RNN as RNN
from pyrite.nn.recurrent import LSTMState as LSTMState
from pyrite.nn.spelling import BatchNorm1d as BatchNorm1d
from pyrite.nn.spelling import BatchNorm2d as BatchNorm2d
from pyrite.nn.spelling import BatchNorm3d as BatchNorm3d
from pyrite.nn.spelling import BCELoss as BCELoss
from pyrite.nn.spelling import Celu as Celu
from pyrite.nn.spelling import Elu as Elu
from pyrite.nn.spelling import Fold4d as Fold4d
from pyrite.nn.spelling import Gelu as Gelu
from pyrite.nn.spelling import HardShrink as HardShrink
from pyrite.nn.spelling import HardSigmoid as HardSigmoid
from pyrite.nn.spelling import HardSwish as HardSwish
from pyrite.nn.spelling import InstanceNorm1d as InstanceNorm1d
from pyrite.nn.spelling import InstanceNorm2d as InstanceNorm2d
from pyrite.nn.spelling import InstanceNorm3d as InstanceNorm3d
from pyrite.nn.spelling import LeakyRelu as LeakyRelu
from pyrite.nn.spelling import MseLoss as MseLoss
from pyrite.nn.spelling import PoissonNllLoss as PoissonNllLoss
from pyrite.nn.spelling import PRelu as PRelu
from pyrite.nn.spelling import Relu as Relu
from pyrite.nn.spelling import Relu6 as Relu6
from pyrite.nn.spelling import RmsNorm as RmsNorm
from pyrite.nn.spelling import RRelu as RRelu
from pyrite.nn.spelling import Selu as Selu
from pyrite.nn.spelling import SoftShrink as SoftShrink
from pyrite.nn.spelling import SwiGlu as SwiGlu
from pyrite.nn.spelling import ThresholdedRelu as ThresholdedRelu
from pyrite.nn.spelling import Unfold4d as Unfold4d
from pyrite.nn.spelling import Upsample as Upsample
from pyrite.nn.transformer import Transformer as Transformer
from pyrite.nn.transformer import TransformerDecoder as TransformerDecoder
from pyrite.nn.transformer import TransformerEncoder as TransformerEncoder
from pyrite.nn.transformer_layer import DecoderCache as DecoderCache
from pyrite.nn.transformer_layer import PositionWiseFeedForward as PositionWiseFeedForward
from pyrite.nn.transformer_layer import TransformerDecoderLayer as TransformerDecoderLayer
from pyrite.nn.transformer_layer import TransformerEncoderLayer as TransformerEncoderLayer
from pyrite.op.foreign import answering as _answering

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LSTM",
    "RNN",
    "SELU",
    "Activation",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AlphaDropout",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Beams",
    "BinaryCrossEntropyLoss",
    "CTCLoss",
    "Celu",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "DecoderCache",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Elu",
    "Embedding",
    "EmbeddingBag",
    "FeatureAlphaDropout",
    "FixedKeyValueCache",
    "Flatten",
    "FocalLoss",
    "Fold",
    "Fold4d",
    "GaussianNLLLoss",
    "GaussianNoise",
    "Gelu",
    "GroupNorm",
    "HardShrink",
    "HardSigmoid",
    "HardSwish",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "InstanceNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "Interpolate1d",
    "Interpolate2d",
    "Interpolate3d",
    "KLDivLoss",
    "KeyValueCache",
    "L1Loss",
    "LSTMState",
    "Lambda",
    "LayerNorm",
    "LeakyReLU",
    "LeakyRelu",
    "Linear",
    "LoRA",
    "LocalResponseNorm",
    "LogSigmoid",
    "LogSoftmax",
    "LpLoss",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Mish",
    "Module",
    "MseLoss",
    "MultiHeadAttention",
    "MultiLabelMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "Normalization",
    "PReLU",
    "PRelu",
    "PairwiseDistance",
    "PixelShuffle",
    "PixelUnshuffle",
    "PoissonNLLLoss",
    "PoissonNllLoss",
    "PositionWiseFeedForward",
    "PositionalEncoding",
    "RMSNorm",
    "RNNTLoss",
    "RReLU",
    "RRelu",
    "ReLU",
    "ReLU6",
    "Relu",
    "Relu6",
    "RmsNorm",
    "RotaryEncoding",
    "Selu",
    "Sequential",
    "Shrink",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "SoftShrink",
    "Softmax",
    "Softplus",
    "Softshrink",
    "Softsign",
    "SwiGLU",
    "SwiGlu",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "ThresholdedReLU",
    "ThresholdedRelu",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "Unfold",
    "Unfold4d",
    "Upsample",
    "beam_search",
    "generate",
    "init",
    "lora",
    "merge_lora",
    "sinusoids",
]

if not _typing.TYPE_CHECKING:
    #: What PyTorch has at this place: what to write instead.
    _INSTEAD = {
        "Buffer": "pyrite.State, for what forward passes renew, or the tensor itself",
        "ConstantPad2d": "nn.Lambda(lambda x: x.pad([(1, 1), (1, 1)], value=0.0))",
        "Container": "nn.Module",
        "CircularPad2d": "nn.Lambda(lambda x: x.pad([(1, 1), (1, 1)], mode='circular'))",
        "DataParallel": "one device: nothing splits a batch over several yet",
        "LazyLinear": "nn.Linear(2, 3), with its in_features",
        "LSTMCell": "nn.LSTM(2, 3), over sequences of one step",
        "GRUCell": "nn.GRU(2, 3), over sequences of one step",
        "RNNCell": "nn.RNN(2, 3), over sequences of one step",
        "NLLLoss2d": "nn.NLLLoss(axis=1)",
        "ParameterDict": "a dict of parameters in a field",
        "ParameterList": "a list of parameters in a field",
        "ReflectionPad2d": "nn.Lambda(lambda x: x.pad([(1, 1), (1, 1)], mode='reflect'))",
        "ReplicationPad2d": "nn.Lambda(lambda x: x.pad([(1, 1), (1, 1)], mode='edge'))",
        "Softmax2d": "nn.Softmax(axis=1)",
        "Softmin": "nn.Lambda(lambda x: (-x).softmax(-1))",
        "SyncBatchNorm": "nn.BatchNorm(2), of one device",
        "Unflatten": "nn.Lambda(lambda x: x.unflatten(1, (2, -1)))",
        "UpsamplingBilinear2d": "nn.Upsample((4, 4), mode='linear')",
        "ZeroPad2d": "nn.Lambda(lambda x: x.pad([(1, 1), (1, 1)]))",
        "parameter": "pyrite.Parameter",
        "functional": "methods of tensors, x.relu(), or functions, pyrite.relu(x)",
        "ModuleDict": "a dict of modules in a field",
        "ModuleList": "a list of modules in a field",
        "MultiheadAttention": "nn.MultiHeadAttention",
        "Parameter": "pyrite.Parameter",
        "utils": "optimizer.with_clipping(global_norm=1.0) for gradients",
    }

    __getattr__ = _answering("pyrite.nn", _INSTEAD)
