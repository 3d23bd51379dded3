"""The cache that forgets: what is asked for stays, and there is a bound."""

from __future__ import annotations

from pyrite.recent import Recent


def test_what_is_asked_for_stays_and_the_rest_goes() -> None:
    cache: Recent[int, str] = Recent(10)
    for n in range(1000):
        cache.put(n, str(n))
        assert cache.get(0) == "0"
        assert len(cache) <= 20

    assert cache.get(500) is None
    assert all(cache.get(n) == str(n) for n in range(992, 1000))


def test_an_item_put_again_is_replaced() -> None:
    cache: Recent[str, int] = Recent(1)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.put("a", 3)

    assert cache.get("a") == 3
