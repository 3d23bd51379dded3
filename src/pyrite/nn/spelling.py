"""Other spellings of layers: PyTorch's and Burn's names for what is called otherwise here.

Names here are PyTorch's where it has the layer.
"""

from __future__ import annotations

from pyrite.nn import activation, interpolate, loss, norm, rearrangement

# ---- PyTorch's ----

# One class serves every rank.
BatchNorm1d = BatchNorm2d = BatchNorm3d = norm.BatchNorm
InstanceNorm1d = InstanceNorm2d = InstanceNorm3d = norm.InstanceNorm
Upsample = interpolate.Interpolate2d
BCELoss = loss.BinaryCrossEntropyLoss

# ---- Burn's ----

Celu = activation.CELU
Elu = activation.ELU
Gelu = activation.GELU
HardShrink = activation.Hardshrink
HardSigmoid = activation.Hardsigmoid
HardSwish = activation.Hardswish
LeakyRelu = activation.LeakyReLU
PRelu = activation.PReLU
RRelu = activation.RReLU
Relu = activation.ReLU
Relu6 = activation.ReLU6
Selu = activation.SELU
SoftShrink = activation.Softshrink
SwiGlu = activation.SwiGLU
ThresholdedRelu = activation.ThresholdedReLU
Unfold4d = rearrangement.Unfold
Fold4d = rearrangement.Fold
RmsNorm = norm.RMSNorm
MseLoss = loss.MSELoss
PoissonNllLoss = loss.PoissonNLLLoss
