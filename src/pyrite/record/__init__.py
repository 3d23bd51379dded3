"""Weights, checkpoints and configurations in files: safetensors, PyTorch state dicts, JSON.

Everything here speaks of NumPy arrays by dotted name; modules meet it in ``nn``.  No format that
can run code is ever written, and none is run when read.
"""

from __future__ import annotations

from pyrite.record.atomic import atomic_write as atomic_write
from pyrite.record.config import load_config as load_config
from pyrite.record.config import save_config as save_config
from pyrite.record.pytorch import load_pytorch as load_pytorch
from pyrite.record.pytorch import read_pytorch as read_pytorch
from pyrite.record.record import Record as Record
from pyrite.record.remap import MatchError as MatchError
from pyrite.record.remap import MatchReport as MatchReport
from pyrite.record.remap import Mismatch as Mismatch
from pyrite.record.remap import cast as cast
from pyrite.record.remap import fit as fit
from pyrite.record.remap import match as match
from pyrite.record.remap import remap as remap
from pyrite.record.safetensors import SafetensorsFile as SafetensorsFile
from pyrite.record.safetensors import load_safetensors as load_safetensors
from pyrite.record.safetensors import save_safetensors as save_safetensors
from pyrite.record.sharded import ShardedCheckpoint as ShardedCheckpoint
from pyrite.record.sharded import load_sharded as load_sharded

__all__ = [
    "MatchError",
    "MatchReport",
    "Mismatch",
    "Record",
    "SafetensorsFile",
    "ShardedCheckpoint",
    "atomic_write",
    "cast",
    "fit",
    "load_config",
    "load_pytorch",
    "load_safetensors",
    "load_sharded",
    "match",
    "read_pytorch",
    "remap",
    "save_config",
    "save_safetensors",
]
