"""The Candle backend, for the optional package candle-nn."""

from pyrite.backend.candle.backend import Candle as Candle

__all__ = ["Candle"]
