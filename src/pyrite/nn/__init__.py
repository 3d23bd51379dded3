"""Networks: modules, layers, initial values and losses."""

from pyrite.nn import init as init
from pyrite.nn.attention import KeyValueCache as KeyValueCache
from pyrite.nn.attention import MultiHeadAttention as MultiHeadAttention
from pyrite.nn.container import Lambda as Lambda
from pyrite.nn.container import Sequential as Sequential
from pyrite.nn.dropout import Dropout as Dropout
from pyrite.nn.linear import Linear as Linear
from pyrite.nn.module import Module as Module
from pyrite.nn.recurrent import GRU as GRU
from pyrite.nn.recurrent import LSTM as LSTM
from pyrite.nn.recurrent import RNN as RNN
from pyrite.nn.recurrent import LSTMState as LSTMState

__all__ = [
    "Dropout",
    "GRU",
    "KeyValueCache",
    "LSTM",
    "LSTMState",
    "Lambda",
    "Linear",
    "Module",
    "MultiHeadAttention",
    "RNN",
    "Sequential",
    "init",
]
