"""Reading: what a metric says, and how it is written for people."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

Better = Literal["lower", "higher"]


@dataclass(frozen=True)
class Reading:
    """A metric's value over the steps so far, with its unit.

    ``better`` says in which direction the value improves; None where it has no good end.

    >>> str(Reading("Accuracy", 0.9625, "%", "higher"))
    'Accuracy 96.25 %'
    """

    name: str
    value: float
    unit: str = ""
    better: Better | None = None

    @property
    def text(self) -> str:
        """The value with its unit; a fraction whose unit is % is shown as a percentage."""
        if self.unit == "%":
            return f"{100 * self.value:.2f} %"
        number = format_number(self.value)
        return f"{number} {self.unit}" if self.unit else number

    def improves_on(self, other: float, *, better: Better | None = None) -> bool:
        """Whether the value is better than another one; NaN is better than nothing."""
        if math.isnan(self.value):
            return False
        if math.isnan(other):
            return True
        direction = better or self.better
        return self.value > other if direction == "higher" else self.value < other

    def __str__(self) -> str:
        return f"{self.name} {self.text}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields."""
        return {"name": self.name, "value": self.value, "unit": self.unit, "better": self.better}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Reading:
        """Return the reading that ``to_json`` gave."""
        return cls(fields["name"], float(fields["value"]), fields["unit"], fields["better"])


def format_number(value: float) -> str:
    """Return a number in about six characters, or as many digits as it takes below a milliard.

    >>> [format_number(v) for v in (0.0312345, 12.3456, 48211.7, 1e-4, 5e299, float("nan"))]
    ['0.0312', '12.35', '48,212', '1.00e-04', '5.00e+299', 'nan']
    """
    size = abs(value)
    if not math.isfinite(value):
        return str(value)
    if size >= 1e9 or 0 < size < 1e-3:
        return f"{value:.2e}"
    if size < 10:
        return f"{value:.4f}"
    return f"{value:.2f}" if size < 1000 else f"{value:,.0f}"
