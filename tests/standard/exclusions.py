"""What of the array API standard Pyrite does not follow, each with its reason.

``MISSING`` are names that are not there; a test asserts that they are not, so that this list stays
true.  ``DIFFERENT`` are functions of which some calls are not drawn; `docs/array-api.md` has the
same reasons in prose.
"""

from __future__ import annotations

_COMPLEX = "Pyrite has no complex numbers: no GPU computes with them"
_EXTENSION = "an optional extension of the standard, which is not there yet"
_FLAGS = "of array-api-strict itself, not of the standard"
_NEXT = "of the standard after 2024.12"

#: Names of array-api-strict's namespace that `pyrite` lacks.
MISSING = {
    "complex64": _COMPLEX,
    "complex128": _COMPLEX,
    "linalg": _EXTENSION,
    "fft": _EXTENSION,
    "ArrayAPIStrictFlags": _FLAGS,
    "get_array_api_strict_flags": _FLAGS,
    "reset_array_api_strict_flags": _FLAGS,
    "set_array_api_strict_flags": _FLAGS,
    "broadcast_shapes": _NEXT,
}

#: Functions that `pyrite` has and that are not judged.
UNJUDGED = {"isin": _NEXT}

#: Methods and attributes of array-api-strict's arrays that tensors lack, or refuse.
MISSING_METHODS = {
    "__setitem__": "tensors are values; x.at[key].set(v) makes another",
    "__buffer__": "Python's buffer protocol is no part of the standard; __dlpack__ is",
    **dict.fromkeys(
        (
            "__iadd__", "__iand__", "__ifloordiv__", "__ilshift__", "__imatmul__", "__imod__",
            "__imul__", "__ior__", "__ipow__", "__irshift__", "__isub__", "__itruediv__",
            "__ixor__",
        ),
        "x += y is x = x + y, by the operator that makes another tensor",
    ),
}  # fmt: skip

#: Calls that are not drawn, by function.
DIFFERENT = {
    "pow": "integers to a negative power: NumPy refuses them, Pyrite returns 0, 1 or -1",
    "floor_divide": "of infinities Python's results, which the standard allows, and integers by 0",
    "remainder": "of integers by 0 the standard leaves the result open; it is 0 here",
    "bitwise_left_shift": "by the width or more the standard leaves the result open",
    "bitwise_right_shift": "by the width or more the standard leaves the result open",
    "uint64": "beside a signed integer is an error here, and left open by the standard",
    "result_type": "uint64 beside a signed integer is an error here, and left open by the standard",
    "unique_all": "of several NaN, whose order the standard leaves open",
}

#: Functions for which the standard leaves open which of two zeros is returned.
EITHER_ZERO = {"maximum": "0.0 is the greater here", "minimum": "-0.0 is the lesser here"}

#: Special values for which NumPy, the judge, is not the standard's: function, and why.
NOT_JUDGED = {
    "floor_divide": "both follow Python and not floor(x / y), as the standard allows",
    "remainder": "left open by the standard beside infinities, where NumPy follows C's fmod",
    "nextafter": "of two zeros NumPy's float16 alone returns the first",
}
