"""What runs on a device and why: `explain`, and what tells it."""

from pyrite.backend.explanation.launched import Launched as Launched
from pyrite.backend.explanation.launched import listeners as listeners
from pyrite.backend.explanation.launched import told as told
from pyrite.backend.explanation.trace import chrome_event as chrome_event

__all__ = ["Launched", "chrome_event", "listeners", "told"]
