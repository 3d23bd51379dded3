"""What runs on a device and why: `explain`, and what tells it."""

from pyrite.backend.explanation.launched import Launched as Launched
from pyrite.backend.explanation.launched import listeners as listeners
from pyrite.backend.explanation.launched import told as told

__all__ = ["Launched", "listeners", "told"]
