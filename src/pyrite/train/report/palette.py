"""The colours and dashes of curves, in drawings and in legends alike."""

from __future__ import annotations

#: Colours of runs, or of splits where there is one run: told apart by people who see few colours
#: (Okabe & Ito 2008), and legible on white.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7a5195", "#777777")
#: The same on a dark page.
DARK = ("#4da3e0", "#ff8f4d", "#35c99b", "#e6a3c8", "#e6b422", "#8cd0f5", "#b48ad6", "#aaaaaa")
#: Colours of texts and of axes on white.
INK, LINES = "#202124", "#dadce0"

#: For matplotlib, and as a legend writes them.
_DASHES = (("-", ""), ("-.", " –·–"), (":", " ····"))


def colour(run: int, split: str, runs: int) -> int:
    """Return the number of a colour: of the run, or where there is one of the split."""
    if runs > 1:
        return run % len(PALETTE)
    return {"train": 0, "valid": 1, "test": 2}.get(split, 3)


def dash(run: int) -> tuple[str, str]:
    """Return how a run is drawn, and how a legend says so: its colour may be that of another."""
    return _DASHES[min(run // len(PALETTE), len(_DASHES) - 1)]
