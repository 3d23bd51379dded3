"""Ops as functions, under the names of the array API standard: ``pyrite.exp(x)`` is ``x.exp()``.

What takes several tensors or none, as ``concat`` and ``zeros``, is a function only.
Written by scripts/functions.py from the ops that tensors have: do not edit.
"""

import math

from pyrite.tensor.comparison import where as where
from pyrite.tensor.creation import arange as arange
from pyrite.tensor.creation import asarray as asarray
from pyrite.tensor.creation import empty as empty
from pyrite.tensor.creation import empty_like as empty_like
from pyrite.tensor.creation import full as full
from pyrite.tensor.creation import full_like as full_like
from pyrite.tensor.creation import linspace as linspace
from pyrite.tensor.creation import logspace as logspace
from pyrite.tensor.creation import ones as ones
from pyrite.tensor.creation import ones_like as ones_like
from pyrite.tensor.creation import tensor as tensor
from pyrite.tensor.creation import zeros as zeros
from pyrite.tensor.creation import zeros_like as zeros_like
from pyrite.tensor.ctc import ctc_loss as ctc_loss
from pyrite.tensor.dropout import alpha_dropout as alpha_dropout
from pyrite.tensor.dropout import dropout as dropout
from pyrite.tensor.dropout import feature_alpha_dropout as feature_alpha_dropout
from pyrite.tensor.dropout import feature_dropout as feature_dropout
from pyrite.tensor.einsum import einsum as einsum
from pyrite.tensor.embedding_bag import embedding_bag as embedding_bag
from pyrite.tensor.grid import cartesian_grid as cartesian_grid
from pyrite.tensor.grid import diag_mask as diag_mask
from pyrite.tensor.grid import eye as eye
from pyrite.tensor.grid import meshgrid as meshgrid
from pyrite.tensor.grid import tri as tri
from pyrite.tensor.grid import tril_mask as tril_mask
from pyrite.tensor.grid import triu_mask as triu_mask
from pyrite.tensor.grid_sampling import affine_grid as affine_grid
from pyrite.tensor.grid_sampling import grid_sample as grid_sample
from pyrite.tensor.histogram import histogram as histogram
from pyrite.tensor.inspection import FloatInfo as FloatInfo
from pyrite.tensor.inspection import IntegerInfo as IntegerInfo
from pyrite.tensor.inspection import broadcast_arrays as broadcast_arrays
from pyrite.tensor.inspection import can_cast as can_cast
from pyrite.tensor.inspection import finfo as finfo
from pyrite.tensor.inspection import iinfo as iinfo
from pyrite.tensor.inspection import isdtype as isdtype
from pyrite.tensor.inspection import result_type as result_type
from pyrite.tensor.interop import from_dlpack as from_dlpack
from pyrite.tensor.interop import from_torch as from_torch
from pyrite.tensor.joining import cat as cat
from pyrite.tensor.joining import concat as concat
from pyrite.tensor.joining import stack as stack
from pyrite.tensor.mask import causal_mask as causal_mask
from pyrite.tensor.mask import generate_autoregressive_mask as generate_autoregressive_mask
from pyrite.tensor.mask import generate_padding_mask as generate_padding_mask
from pyrite.tensor.namespace import NamespaceInfo as NamespaceInfo
from pyrite.tensor.namespace import __array_api_version__ as __array_api_version__
from pyrite.tensor.namespace import __array_namespace_info__ as __array_namespace_info__
from pyrite.tensor.namespace import astype as astype
from pyrite.tensor.namespace import conj as conj
from pyrite.tensor.namespace import imag as imag
from pyrite.tensor.namespace import real as real
from pyrite.tensor.namespace import reshape as reshape
from pyrite.tensor.printing import check_closeness as check_closeness
from pyrite.tensor.printing import print_options as print_options
from pyrite.tensor.printing import set_print_options as set_print_options
from pyrite.tensor.random import bernoulli as bernoulli
from pyrite.tensor.random import bernoulli_like as bernoulli_like
from pyrite.tensor.random import categorical as categorical
from pyrite.tensor.random import multinomial as multinomial
from pyrite.tensor.random import normal as normal
from pyrite.tensor.random import normal_like as normal_like
from pyrite.tensor.random import permutation as permutation
from pyrite.tensor.random import randint as randint
from pyrite.tensor.random import randint_like as randint_like
from pyrite.tensor.random import random_bits as random_bits
from pyrite.tensor.random import shuffle as shuffle
from pyrite.tensor.random import uniform as uniform
from pyrite.tensor.random import uniform_like as uniform_like
from pyrite.tensor.stacking import atleast_1d as atleast_1d
from pyrite.tensor.stacking import atleast_2d as atleast_2d
from pyrite.tensor.stacking import atleast_3d as atleast_3d
from pyrite.tensor.stacking import column_stack as column_stack
from pyrite.tensor.stacking import dstack as dstack
from pyrite.tensor.stacking import hstack as hstack
from pyrite.tensor.stacking import vstack as vstack
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.transducer import rnnt_loss as rnnt_loss

#: Constants of the array API standard.
e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None

abs = Tensor.abs
acos = Tensor.acos
acosh = Tensor.acosh
adaptive_avg_pool = Tensor.adaptive_avg_pool
adaptive_avg_pool1d = Tensor.adaptive_avg_pool1d
adaptive_avg_pool2d = Tensor.adaptive_avg_pool2d
adaptive_avg_pool3d = Tensor.adaptive_avg_pool3d
adaptive_max_pool = Tensor.adaptive_max_pool
adaptive_max_pool1d = Tensor.adaptive_max_pool1d
adaptive_max_pool2d = Tensor.adaptive_max_pool2d
adaptive_max_pool3d = Tensor.adaptive_max_pool3d
adaptive_max_pool_with_indices = Tensor.adaptive_max_pool_with_indices
add = Tensor.add
addcdiv = Tensor.addcdiv
addcmul = Tensor.addcmul
addmm = Tensor.addmm
addmv = Tensor.addmv
all = Tensor.all
allclose = Tensor.allclose
amax = Tensor.amax
amin = Tensor.amin
aminmax = Tensor.aminmax
any = Tensor.any
argmax = Tensor.argmax
argmin = Tensor.argmin
argsort = Tensor.argsort
argtopk = Tensor.argtopk
argwhere = Tensor.argwhere
asin = Tensor.asin
asinh = Tensor.asinh
atan = Tensor.atan
atan2 = Tensor.atan2
atanh = Tensor.atanh
avg_pool = Tensor.avg_pool
avg_pool1d = Tensor.avg_pool1d
avg_pool2d = Tensor.avg_pool2d
avg_pool3d = Tensor.avg_pool3d
baddbmm = Tensor.baddbmm
batch_norm = Tensor.batch_norm
batch_norm_inference = Tensor.batch_norm_inference
bilinear = Tensor.bilinear
binary_cross_entropy_with_logits = Tensor.binary_cross_entropy_with_logits
bincount = Tensor.bincount
bitwise_and = Tensor.bitwise_and
bitwise_invert = Tensor.bitwise_invert
bitwise_left_shift = Tensor.bitwise_left_shift
bitwise_not = Tensor.bitwise_not
bitwise_or = Tensor.bitwise_or
bitwise_right_shift = Tensor.bitwise_right_shift
bitwise_xor = Tensor.bitwise_xor
bmm = Tensor.bmm
broadcast_to = Tensor.broadcast_to
bucketize = Tensor.bucketize
cdist = Tensor.cdist
ceil = Tensor.ceil
celu = Tensor.celu
chunk = Tensor.chunk
clamp = Tensor.clamp
clamp_max = Tensor.clamp_max
clamp_min = Tensor.clamp_min
clip = Tensor.clip
contains_nan = Tensor.contains_nan
conv1d = Tensor.conv1d
conv2d = Tensor.conv2d
conv3d = Tensor.conv3d
conv_transpose1d = Tensor.conv_transpose1d
conv_transpose2d = Tensor.conv_transpose2d
conv_transpose3d = Tensor.conv_transpose3d
convolution = Tensor.convolution
copysign = Tensor.copysign
cos = Tensor.cos
cosh = Tensor.cosh
cosine_similarity = Tensor.cosine_similarity
count_nonzero = Tensor.count_nonzero
cov = Tensor.cov
cross = Tensor.cross
cross_entropy = Tensor.cross_entropy
cross_entropy_with_logits = Tensor.cross_entropy_with_logits
cummax = Tensor.cummax
cummax_with_indices = Tensor.cummax_with_indices
cummin = Tensor.cummin
cummin_with_indices = Tensor.cummin_with_indices
cumprod = Tensor.cumprod
cumsum = Tensor.cumsum
cumulative_logsumexp = Tensor.cumulative_logsumexp
cumulative_prod = Tensor.cumulative_prod
cumulative_sum = Tensor.cumulative_sum
deg2rad = Tensor.deg2rad
diag = Tensor.diag
diagonal = Tensor.diagonal
diff = Tensor.diff
digamma = Tensor.digamma
dist = Tensor.dist
div = Tensor.div
divide = Tensor.divide
dot = Tensor.dot
elu = Tensor.elu
embedding = Tensor.embedding
equal = Tensor.equal
erf = Tensor.erf
erfc = Tensor.erfc
erfinv = Tensor.erfinv
exp = Tensor.exp
exp2 = Tensor.exp2
expand_dims = Tensor.expand_dims
expm1 = Tensor.expm1
flatten = Tensor.flatten
flip = Tensor.flip
fliplr = Tensor.fliplr
flipud = Tensor.flipud
floor = Tensor.floor
floor_divide = Tensor.floor_divide
fmax = Tensor.fmax
fmin = Tensor.fmin
fmod = Tensor.fmod
fold4d = Tensor.fold4d
frac = Tensor.frac
gather = Tensor.gather
gather_nd = Tensor.gather_nd
gelu = Tensor.gelu
glu = Tensor.glu
greater = Tensor.greater
greater_equal = Tensor.greater_equal
group_norm = Tensor.group_norm
hard_shrink = Tensor.hard_shrink
hard_sigmoid = Tensor.hard_sigmoid
hard_swish = Tensor.hard_swish
hardtanh = Tensor.hardtanh
heaviside = Tensor.heaviside
hypot = Tensor.hypot
index_add = Tensor.index_add
index_select = Tensor.index_select
instance_norm = Tensor.instance_norm
interpolate = Tensor.interpolate
isclose = Tensor.isclose
isfinite = Tensor.isfinite
isin = Tensor.isin
isinf = Tensor.isinf
isnan = Tensor.isnan
kron = Tensor.kron
kthvalue = Tensor.kthvalue
layer_norm = Tensor.layer_norm
leaky_relu = Tensor.leaky_relu
lerp = Tensor.lerp
less = Tensor.less
less_equal = Tensor.less_equal
lgamma = Tensor.lgamma
linear = Tensor.linear
local_response_norm = Tensor.local_response_norm
log = Tensor.log
log10 = Tensor.log10
log1p = Tensor.log1p
log2 = Tensor.log2
log_sigmoid = Tensor.log_sigmoid
log_softmax = Tensor.log_softmax
logaddexp = Tensor.logaddexp
logcumsumexp = Tensor.logcumsumexp
logical_and = Tensor.logical_and
logical_not = Tensor.logical_not
logical_or = Tensor.logical_or
logical_xor = Tensor.logical_xor
logit = Tensor.logit
logsumexp = Tensor.logsumexp
masked_select = Tensor.masked_select
matmul = Tensor.matmul
matrix_transpose = Tensor.matrix_transpose
matvec = Tensor.matvec
max = Tensor.max
max_abs = Tensor.max_abs
max_pool = Tensor.max_pool
max_pool1d = Tensor.max_pool1d
max_pool1d_with_indices = Tensor.max_pool1d_with_indices
max_pool2d = Tensor.max_pool2d
max_pool2d_with_indices = Tensor.max_pool2d_with_indices
max_pool3d = Tensor.max_pool3d
max_pool3d_with_indices = Tensor.max_pool3d_with_indices
max_pool_with_indices = Tensor.max_pool_with_indices
max_with_indices = Tensor.max_with_indices
maximum = Tensor.maximum
mean = Tensor.mean
median = Tensor.median
median_with_indices = Tensor.median_with_indices
min = Tensor.min
min_with_indices = Tensor.min_with_indices
minimum = Tensor.minimum
mish = Tensor.mish
mm = Tensor.mm
moveaxis = Tensor.moveaxis
movedim = Tensor.movedim
mul = Tensor.mul
multiply = Tensor.multiply
mv = Tensor.mv
nan_to_num = Tensor.nan_to_num
nanmean = Tensor.nanmean
nansum = Tensor.nansum
narrow = Tensor.narrow
ndtr = Tensor.ndtr
neg = Tensor.neg
negative = Tensor.negative
nextafter = Tensor.nextafter
nll_loss = Tensor.nll_loss
nonzero = Tensor.nonzero
not_equal = Tensor.not_equal
one_hot = Tensor.one_hot
outer = Tensor.outer
pad = Tensor.pad
pairwise_distance = Tensor.pairwise_distance
permute = Tensor.permute
permute_dims = Tensor.permute_dims
pixel_shuffle = Tensor.pixel_shuffle
pixel_unshuffle = Tensor.pixel_unshuffle
popcount = Tensor.popcount
positive = Tensor.positive
pow = Tensor.pow
prelu = Tensor.prelu
prod = Tensor.prod
quantile = Tensor.quantile
quiet_softmax = Tensor.quiet_softmax
rad2deg = Tensor.rad2deg
reciprocal = Tensor.reciprocal
relu = Tensor.relu
relu6 = Tensor.relu6
remainder = Tensor.remainder
repeat = Tensor.repeat
rms_norm = Tensor.rms_norm
roll = Tensor.roll
rot90 = Tensor.rot90
round = Tensor.round
rsqrt = Tensor.rsqrt
scaled_dot_product_attention = Tensor.scaled_dot_product_attention
scatter = Tensor.scatter
scatter_add = Tensor.scatter_add
scatter_nd = Tensor.scatter_nd
searchsorted = Tensor.searchsorted
selu = Tensor.selu
shrink = Tensor.shrink
sigmoid = Tensor.sigmoid
sign = Tensor.sign
signbit = Tensor.signbit
silu = Tensor.silu
sin = Tensor.sin
sinc = Tensor.sinc
sinh = Tensor.sinh
sliding_window = Tensor.sliding_window
soft_shrink = Tensor.soft_shrink
softmax = Tensor.softmax
softmin = Tensor.softmin
softplus = Tensor.softplus
softsign = Tensor.softsign
sort = Tensor.sort
sort_with_indices = Tensor.sort_with_indices
split = Tensor.split
sqrt = Tensor.sqrt
square = Tensor.square
squeeze = Tensor.squeeze
std = Tensor.std
sub = Tensor.sub
subtract = Tensor.subtract
sum = Tensor.sum
swap_axes = Tensor.swap_axes
swapaxes = Tensor.swapaxes
swiglu = Tensor.swiglu
take = Tensor.take
take_along_axis = Tensor.take_along_axis
tan = Tensor.tan
tanh = Tensor.tanh
tanhshrink = Tensor.tanhshrink
tensor_split = Tensor.tensor_split
tensordot = Tensor.tensordot
threshold = Tensor.threshold
thresholded_relu = Tensor.thresholded_relu
tile = Tensor.tile
topk = Tensor.topk
trace = Tensor.trace
transpose = Tensor.transpose
tril = Tensor.tril
triu = Tensor.triu
trunc = Tensor.trunc
unflatten = Tensor.unflatten
unfold4d = Tensor.unfold4d
unique = Tensor.unique
unique_all = Tensor.unique_all
unique_counts = Tensor.unique_counts
unique_inverse = Tensor.unique_inverse
unique_values = Tensor.unique_values
unsqueeze = Tensor.unsqueeze
unstack = Tensor.unstack
var = Tensor.var
var_bias = Tensor.var_bias
var_mean = Tensor.var_mean
var_mean_bias = Tensor.var_mean_bias
vecdot = Tensor.vecdot
vector_norm = Tensor.vector_norm
vector_normalize = Tensor.vector_normalize
xlogy = Tensor.xlogy

__all__ = [
    "FloatInfo", "IntegerInfo", "NamespaceInfo", "__array_api_version__",
    "__array_namespace_info__", "abs", "acos", "acosh", "adaptive_avg_pool", "adaptive_avg_pool1d",
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "adaptive_max_pool_with_indices", "add",
    "addcdiv", "addcmul", "addmm", "addmv", "affine_grid", "all", "allclose", "alpha_dropout",
    "amax", "amin", "aminmax", "any", "arange", "argmax", "argmin", "argsort", "argtopk",
    "argwhere", "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "atleast_1d",
    "atleast_2d", "atleast_3d", "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "baddbmm",
    "batch_norm", "batch_norm_inference", "bernoulli", "bernoulli_like", "bilinear",
    "binary_cross_entropy_with_logits", "bincount", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bmm",
    "broadcast_arrays", "broadcast_to", "bucketize", "can_cast", "cartesian_grid", "cat",
    "categorical", "causal_mask", "cdist", "ceil", "celu", "check_closeness", "chunk", "clamp",
    "clamp_max", "clamp_min", "clip", "column_stack", "concat", "conj", "contains_nan", "conv1d",
    "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution",
    "copysign", "cos", "cosh", "cosine_similarity", "count_nonzero", "cov", "cross",
    "cross_entropy", "cross_entropy_with_logits", "ctc_loss", "cummax", "cummax_with_indices",
    "cummin", "cummin_with_indices", "cumprod", "cumsum", "cumulative_logsumexp", "cumulative_prod",
    "cumulative_sum", "deg2rad", "diag", "diag_mask", "diagonal", "diff", "digamma", "dist", "div",
    "divide", "dot", "dropout", "dstack", "e", "einsum", "elu", "embedding", "embedding_bag",
    "empty", "empty_like", "equal", "erf", "erfc", "erfinv", "exp", "exp2", "expand_dims", "expm1",
    "eye", "feature_alpha_dropout", "feature_dropout", "finfo", "flatten", "flip", "fliplr",
    "flipud", "floor", "floor_divide", "fmax", "fmin", "fmod", "fold4d", "frac", "from_dlpack",
    "from_torch", "full", "full_like", "gather", "gather_nd", "gelu",
    "generate_autoregressive_mask", "generate_padding_mask", "glu", "greater", "greater_equal",
    "grid_sample", "group_norm", "hard_shrink", "hard_sigmoid", "hard_swish", "hardtanh",
    "heaviside", "histogram", "hstack", "hypot", "iinfo", "imag", "index_add", "index_select",
    "inf", "instance_norm", "interpolate", "isclose", "isdtype", "isfinite", "isin", "isinf",
    "isnan", "kron", "kthvalue", "layer_norm", "leaky_relu", "lerp", "less", "less_equal", "lgamma",
    "linear", "linspace", "local_response_norm", "log", "log1p", "log2", "log10", "log_sigmoid",
    "log_softmax", "logaddexp", "logcumsumexp", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logit", "logspace", "logsumexp", "masked_select", "matmul", "matrix_transpose",
    "matvec", "max", "max_abs", "max_pool", "max_pool1d", "max_pool1d_with_indices", "max_pool2d",
    "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices", "max_pool_with_indices",
    "max_with_indices", "maximum", "mean", "median", "median_with_indices", "meshgrid", "min",
    "min_with_indices", "minimum", "mish", "mm", "moveaxis", "movedim", "mul", "multinomial",
    "multiply", "mv", "nan", "nan_to_num", "nanmean", "nansum", "narrow", "ndtr", "neg", "negative",
    "newaxis", "nextafter", "nll_loss", "nonzero", "normal", "normal_like", "not_equal", "one_hot",
    "ones", "ones_like", "outer", "pad", "pairwise_distance", "permutation", "permute",
    "permute_dims", "pi", "pixel_shuffle", "pixel_unshuffle", "popcount", "positive", "pow",
    "prelu", "print_options", "prod", "quantile", "quiet_softmax", "rad2deg", "randint",
    "randint_like", "random_bits", "real", "reciprocal", "relu", "relu6", "remainder", "repeat",
    "reshape", "result_type", "rms_norm", "rnnt_loss", "roll", "rot90", "round", "rsqrt",
    "scaled_dot_product_attention", "scatter", "scatter_add", "scatter_nd", "searchsorted", "selu",
    "set_print_options", "shrink", "shuffle", "sigmoid", "sign", "signbit", "silu", "sin", "sinc",
    "sinh", "sliding_window", "soft_shrink", "softmax", "softmin", "softplus", "softsign", "sort",
    "sort_with_indices", "split", "sqrt", "square", "squeeze", "stack", "std", "sub", "subtract",
    "sum", "swap_axes", "swapaxes", "swiglu", "take", "take_along_axis", "tan", "tanh",
    "tanhshrink", "tensor", "tensor_split", "tensordot", "threshold", "thresholded_relu", "tile",
    "topk", "trace", "transpose", "tri", "tril", "tril_mask", "triu", "triu_mask", "trunc",
    "unflatten", "unfold4d", "uniform", "uniform_like", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "unsqueeze", "unstack", "var", "var_bias", "var_mean",
    "var_mean_bias", "vecdot", "vector_norm", "vector_normalize", "vstack", "where", "xlogy",
    "zeros", "zeros_like",
]  # fmt: skip
