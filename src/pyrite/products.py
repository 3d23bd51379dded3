"""Sizes as products of others: what follows of two of them without a question.

A plan multiplies sizes and divides what it multiplied, and asks whether one size is another's.  So
most of what it would ask of a quotient, a rest or a comparison is known of the factors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pyrite.symbol import Symbol


class Product(NamedTuple):
    """A number times symbols by their names, in order."""

    number: int
    names: tuple[str, ...] = ()


#: So many factors have products at most: there is little to say of longer ones.
_MOST: Final = 16


class Products:
    """The symbols of one run as products, and which of them were found to be equal.

    Symbols are whole numbers, and those by which something is divided are never 0.
    """

    def __init__(self) -> None:
        self._of: dict[str, Product] = {}
        self._symbols: dict[Product, Symbol] = {}
        #: Symbols that are products of others, as was asked.
        self._equal: dict[str, Product] = {}

    def clear(self) -> None:
        """Forget all: symbols that hold each other stay until Python collects garbage."""
        for known in (self._of, self._symbols, self._equal):
            known.clear()

    def of(self, x: Any) -> Product | None:
        """Return a number as a product; None where it is no whole one."""
        if type(x) is int:
            return Product(x)
        if not isinstance(x, Symbol) or type(x.value) is not int:
            return None
        self._symbols.setdefault(Product(1, (x.text,)), x)
        return self._expanded(self._of.get(x.text) or Product(1, (x.text,)))

    def _expanded(self, product: Product) -> Product:
        """Return a product with what its symbols are equal to."""
        while not self._equal.keys().isdisjoint(product.names):
            number, names = product.number, list[str]()
            for name in product.names:
                factor = self._equal.get(name, Product(1, (name,)))
                number *= factor.number
                names += factor.names
            product = Product(number, tuple(sorted(names)))
        return product

    def made(self, sign: str, x: Any, y: Any, make: Callable[[], Any]) -> Any:
        """Return what an operation gives, by what is known if that is enough, else by ``make``."""
        one, other = self.of(x), self.of(y)
        found: Any = None
        if one is None or other is None:
            return make()
        if sign == "*":
            product = _product(one, other)
            found = self._known(product)
            if found is None:
                found = make()
                self._note(found, product)
            return found
        if sign in ("//", "%") and _is_positive(y):
            quotient = _quotient(one, other)
            if quotient is not None:
                found = 0 if sign == "%" else self._symbol(quotient)
        return make() if found is None else found

    def _known(self, product: Product) -> Any:
        """Return the number or the symbol that a product is, if there is one."""
        return self._symbols.get(product) if product.names else product.number

    def _symbol(self, product: Product) -> Any:
        """Return the number or the symbol that a product is, which is made if there is none."""
        found = self._known(product)
        if found is None:
            found = product.number
            for name in product.names:
                found = self._symbols[Product(1, (name,))] * found
        return found

    def _note(self, symbol: Any, product: Product) -> None:
        if isinstance(symbol, Symbol) and len(product.names) <= _MOST:
            self._of.setdefault(symbol.text, product)
            self._symbols.setdefault(product, symbol)

    def are_equal(self, x: Any, y: Any) -> bool:
        """Whether two numbers are known to be equal."""
        one = self.of(x)
        return one is not None and one == self.of(y)

    def equate(self, x: Any, y: Any) -> None:
        """Note that two numbers are equal, as was asked."""
        one, other = self.of(x), self.of(y)
        if one is None or other is None:
            return
        for symbol, product in sorted([(one, other), (other, one)], key=_age, reverse=True):
            if symbol.number == 1 and len(symbol.names) == 1 and symbol.names[0] not in (
                product.names
            ):  # fmt: skip
                self._equal[symbol.names[0]] = product
                return


def _age(pair: tuple[Product, Product]) -> tuple[int, str]:
    """Return what is greater of a symbol that was made later."""
    name = pair[0].names[0] if pair[0].names else ""
    return len(name), name


def _product(x: Product, y: Product) -> Product:
    return Product(x.number * y.number, tuple(sorted((*x.names, *y.names))))


def _quotient(x: Product, y: Product) -> Product | None:
    """Return the product that times ``y`` is ``x``, if there is one."""
    if y.number <= 0 or x.number % y.number:
        return None
    left = [*x.names]
    for name in y.names:
        if name not in left:
            return None
        left.remove(name)
    return Product(x.number // y.number, tuple(left))


def _is_positive(x: Any) -> bool:
    low = x.low if isinstance(x, Symbol) else x
    return low is not None and low > 0
