"""Networks: modules, layers, initial values and losses."""

from pyrite.nn import init as init
from pyrite.nn.container import Lambda as Lambda
from pyrite.nn.container import Sequential as Sequential
from pyrite.nn.dropout import Dropout as Dropout
from pyrite.nn.linear import Linear as Linear
from pyrite.nn.module import Module as Module

__all__ = ["Dropout", "Lambda", "Linear", "Module", "Sequential", "init"]
