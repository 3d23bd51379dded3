"""How many rows each part of the dashboard has, and how many plots, in a window of any size."""

from __future__ import annotations

from dataclasses import dataclass

#: The least size of a plot beside or below others.
PLOT_WIDTH, PLOT_HEIGHT = 64, 12


@dataclass(frozen=True)
class ScreenLayout:
    """Rows of each part; 0 leaves it out.  Plots stand in a grid."""

    bars: int
    plots: int
    table: int
    facts: int
    log: int
    keys: int
    columns: int
    rows: int

    @classmethod
    def of(cls, width: int, height: int, metrics: int, facts: int, wide_log: bool) -> ScreenLayout:
        """Return the layout: what matters most has its rows first, plots what is left."""
        left = height - 1
        keys = _take(left, 1, 2)
        left -= keys
        bars = _take(left, 2, 2)
        left -= bars
        if wide_log:
            return cls(bars, 0, 0, 0, left, keys, 1, 1)
        shown = _take(left, facts, facts + 8) or _take(left, 1, 1)
        left -= shown
        log = _take(left, max(3, left // 5), 12)
        left -= log
        table = min(1 + metrics, left // 3) if left >= 9 else 0
        table = table if table >= 2 else 0
        plots = left - table
        if plots < 5:
            log, plots = log + plots, 0
        columns = max(1, min(metrics, width // PLOT_WIDTH))
        rows = max(1, min(-(-metrics // columns), plots // PLOT_HEIGHT))
        return cls(bars, plots, table, shown, log, keys, columns, rows)


def _take(left: int, wanted: int, least: int) -> int:
    """Return the rows that a part has: as many as it wants where so many are left."""
    return wanted if left >= least else 0
