"""Tensors and the ops on them, one family a file, each building on the one before.

    arithmetic → comparison → bitwise → mathematics → movement → view → joining → rearrangement
    → gathering → scattering → indexing → reduction → extremum → truth → statistics → cumulative
    → sorting → sets → contraction → linalg → rectifier → activation → softmax → normalization
    → channel_normalization → attention → convolution → transposed_convolution → unfolding
    → resampling → max_pooling → average_pooling → interpolation → loss → Tensor

Each file holds one class of methods that extends the class before it; `Tensor` is the last.
"""
