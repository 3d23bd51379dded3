"""Sums of products of two operands.

Most are products of matrices that lie anyhow (`product`), whose kernels are the templates of
`pyrite.kernel.template`; `matrices` says which product a contraction is.  Any other is added up
term by term (`terms`).  What is applied to the sums is fused (`epilogue`).
"""

from pyrite.backend.cube.skeleton.contraction.contraction import contract_terms as contract_terms
from pyrite.backend.cube.skeleton.contraction.contraction import takes_epilogue as takes_epilogue
from pyrite.backend.cube.skeleton.contraction.product import PRODUCT as PRODUCT
from pyrite.backend.cube.skeleton.contraction.product import Schedule as Schedule
from pyrite.backend.cube.skeleton.contraction.product import contract as contract
from pyrite.backend.cube.skeleton.contraction.product import layout_of as layout_of

__all__ = ["PRODUCT", "Schedule", "contract", "contract_terms", "layout_of", "takes_epilogue"]
