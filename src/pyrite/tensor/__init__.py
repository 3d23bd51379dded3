"""Tensors and the ops on them, one family a file, each building on the one before.

    arithmetic → comparison → bitwise → mathematics → movement → indexing → reduction
    → statistics → cumulative → sorting → sets → contraction → activation → normalization
    → channel_normalization → attention → convolution → pooling → interpolation → loss → Tensor

Each file holds one class of methods that extends the class of the file before; `Tensor` is the last.
"""
