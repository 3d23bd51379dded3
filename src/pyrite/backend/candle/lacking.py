"""The ops that may fall back to NumPy on Candle, and for which inputs: the one place that says so.

An op that is not named here never falls back, which the conformance suite asserts, and one that is
does for some input, which a test of the backend asserts.  "always", or the inputs that do.
"""

from __future__ import annotations

from collections.abc import Mapping

_FLOATS = "floats"
_BITS = "integers"
_LARGE = "more than 16 million pairs of a place and an index"

#: What falls back, by op.
LACKING: Mapping[str, str] = {
    # Functions that Candle has no series or bits for.
    **dict.fromkeys(("digamma", "erfinv", "lgamma", "trigamma"), "always"),
    **dict.fromkeys(("copysign", "nextafter", "signbit"), "always"),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift", "popcount"), "always"),
    **dict.fromkeys(("bitwise_and", "bitwise_invert", "bitwise_or", "bitwise_xor"), _BITS),
    **dict.fromkeys(("floor_divide", "fmod", "remainder"), _FLOATS),
    "random_bits": "always",
    # Order, and shapes that depend on values.
    **dict.fromkeys(("argsort", "argwhere", "argwhere_within", "searchsorted"), "always"),
    # Writes by index, which compare every place with every index.
    **dict.fromkeys(("scatter", "scatter_nd", "scatter_reduce", "scatter_nd_reduce"), _LARGE),
    **dict.fromkeys(("is_last_scattered", "is_last_scattered_nd"), _LARGE),
    **dict.fromkeys(("bincount_within", "embedding_backward", "max_pool_backward"), _LARGE),
}
