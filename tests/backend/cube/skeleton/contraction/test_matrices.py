"""Which product of matrices a contraction is: that of matmul, whatever lies where."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite.backend.cube.layout import broadcast_strides, row_major
from pyrite.backend.cube.skeleton.contraction.matrices import matrices_of
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.implicit_gemm import OperandLayout
from pyrite.kernel.template.operand import OperandMap
from pyrite.kernel.template.product import Product
from pyrite.op.rule import Terms
from pyrite.tensor.product_rules import CONVOLUTION, MATMUL
from pyrite.types import Shape, float32

MACHINE = Machine.gpu()


def layout_of(shape: Shape, how: str) -> OperandLayout:
    """Return where a tensor of a shape lies, from address 0 on or, reversed, down to it."""
    dense = row_major(shape)
    strides = {
        "dense": dense,
        "transposed": (*row_major((*shape[:-2], shape[-1], shape[-2]))[:-2], 1, shape[-2]),
        "spaced": tuple(2 * s for s in dense),
        "reversed": tuple(-s for s in dense),
        "stretched": (0,) * (len(shape) - 1) + (1,),
        "permuted": tuple(dense[a] for a in (1, 0, *range(2, len(shape)))),
    }[how]
    return OperandLayout(float32, strides)


def product_of(
    terms: Terms, x: OperandLayout, y: OperandLayout, out: OperandLayout
) -> tuple[Product, bool]:
    """Return the product of a contraction, and whether its operands change places."""
    matrices = matrices_of(terms)
    assert matrices is not None
    matrices = matrices.split(x, y, out)
    return matrices.product(x, y, out, MACHINE), matrices.is_swapped


def places(map: OperandMap) -> np.ndarray:
    """Return where the elements of matrices lie: (batch, rows, columns)."""
    found = np.zeros(1, np.int64)
    sizes = []
    for axis in (map.batch, map.rows, map.columns):
        size = 1
        for digit in axis:
            found = np.add.outer(found, np.arange(digit.size) * digit.stride).reshape(-1)
            size *= digit.size
        sizes.append(size)
    return found.reshape(sizes)


CASES = [
    ((3, 4), (4, 5)),
    ((7, 2, 3, 4), (4, 5)),
    ((7, 2, 3, 4), (7, 2, 4, 5)),
    ((7, 1, 3, 4), (1, 2, 4, 5)),
    ((2, 3, 4), (7, 2, 4, 5)),
    ((3, 4), (6, 4, 5)),
    ((5, 1, 4), (5, 4, 1)),
    ((5, 6, 1), (5, 1, 7)),
    ((1, 1), (1, 1)),
]


@pytest.mark.parametrize("y_lies", ["dense", "transposed", "spaced", "reversed", "stretched"])
@pytest.mark.parametrize("x_lies", ["dense", "transposed", "spaced", "reversed", "permuted"])
@pytest.mark.parametrize(("x_shape", "y_shape"), CASES)
def test_a_matmul_is_a_batch_of_matrices_whose_rows_and_columns_are_one_digit(
    x_shape: Shape, y_shape: Shape, x_lies: str, y_lies: str
) -> None:
    if x_lies == "permuted" and len(x_shape) < 4:
        pytest.skip("there are no two axes of a batch")
    terms = MATMUL.of([x_shape, y_shape], {})
    out_shape = terms.shape
    x, y = layout_of(x_shape, x_lies), layout_of(y_shape, y_lies)
    out = OperandLayout(float32, row_major(out_shape))

    product, is_swapped = product_of(terms, x, y, out)

    assert not is_swapped
    for map in (product.x, product.y, product.out):
        assert len(map.rows) <= 1
        assert len(map.columns) <= 1
    # What each element adds up is at the same places as in the contraction itself.
    batch = np.broadcast_shapes(x_shape[:-2], y_shape[:-2])
    wide_x, wide_y = (*batch, *x_shape[-2:]), (*batch, *y_shape[-2:])
    got = addends(places(product.x), places(product.y), places(product.out))
    want = addends(
        positions(wide_x, broadcast_strides(x_shape, x.strides, wide_x)),
        positions(wide_y, broadcast_strides(y_shape, y.strides, wide_y)),
        positions(out_shape, out.strides),
    )
    assert got == want


def positions(shape: Shape, strides: Shape) -> np.ndarray:
    """Return where the elements of batches of matrices lie: (batch, rows, columns)."""
    found = sum(i * s for i, s in zip(np.indices(shape), strides, strict=True))
    return np.asarray(found).reshape(-1, *shape[-2:])


def addends(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> dict[int, list[tuple[int, int]]]:
    """Return by the place of each result the places of what is multiplied for it."""
    x, y = (np.broadcast_to(a, (len(out), *a.shape[1:])) for a in (x, y))
    return {
        int(out[b, i, j]): [(int(x[b, i, k]), int(y[b, k, j])) for k in range(x.shape[2])]
        for b, i, j in np.ndindex(*out.shape)
    }


def test_a_contraction_with_windows_stays_one_product() -> None:
    windows = {
        "stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1,
    }  # fmt: skip
    terms = CONVOLUTION.of([(2, 3, 6, 5), (4, 3, 3, 3)], windows)
    matrices = matrices_of(terms)
    assert matrices is not None
    layouts = [
        OperandLayout(float32, row_major(s)) for s in ((2, 3, 6, 5), (4, 3, 3, 3), terms.shape)
    ]
    assert matrices.split(*layouts) is matrices
