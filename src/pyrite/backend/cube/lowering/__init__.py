"""Lowerings from ops to kernels: one file per family; `registry` says how a family is added."""

from pyrite.backend.cube.lowering import argwhere as argwhere
from pyrite.backend.cube.lowering import attention as attention
from pyrite.backend.cube.lowering import binning as binning
from pyrite.backend.cube.lowering import contract as contract
from pyrite.backend.cube.lowering import convolution as convolution
from pyrite.backend.cube.lowering import cross_entropy as cross_entropy
from pyrite.backend.cube.lowering import gathering as gathering
from pyrite.backend.cube.lowering import group_norm as group_norm
from pyrite.backend.cube.lowering import movement as movement
from pyrite.backend.cube.lowering import random_bits as random_bits
from pyrite.backend.cube.lowering import recurrent as recurrent
from pyrite.backend.cube.lowering import recurrent_gradient as recurrent_gradient
from pyrite.backend.cube.lowering import reduction as reduction
from pyrite.backend.cube.lowering import scan as scan
from pyrite.backend.cube.lowering import scattering as scattering
from pyrite.backend.cube.lowering import searching as searching
from pyrite.backend.cube.lowering import sorting as sorting
from pyrite.backend.cube.lowering import window as window
from pyrite.backend.cube.registry import LOWERINGS as LOWERINGS
from pyrite.backend.cube.registry import lowering_of as lowering_of

__all__ = ["LOWERINGS", "lowering_of"]
