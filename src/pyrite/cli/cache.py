"""``pyrite cache``: the compiled code that is kept on disk for the next process."""

from __future__ import annotations

from typing import Annotated

import typer

from pyrite.errors import DeviceError
from pyrite.runtime.cache import Contents, default_cache


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove what is there.")] = False,
) -> None:
    """Show where compiled kernels are kept, and how much there is."""
    kept = default_cache()
    try:
        found = kept.contents()
        removed = kept.clear() if clear else None
    except OSError as error:
        raise DeviceError(
            f"cache requires a folder that this user alone can change, got {kept.folder}: {error}; "
            "take it over (chown, chmod 700), or name another in PYRITE_CACHE"
        ) from None
    if found is None:
        print("off: nothing is kept (PYRITE_CACHE, or a user without a home)")
    elif removed is None:
        print(described(found))
    else:
        print(f"removed {removed} files, {megabytes(found.nbytes)}, from {found.folder}")


def described(found: Contents) -> str:
    """Return one line about a cache."""
    return (
        f"{found.folder}: {found.files} files, {megabytes(found.nbytes)} of at most "
        f"{megabytes(found.limit)} (PYRITE_CACHE_MEGABYTES)"
    )


def megabytes(nbytes: int) -> str:
    """Return a size as text.

    >>> megabytes(3 << 19)
    '1.5 MB'
    """
    return f"{nbytes / (1 << 20):.1f} MB"
