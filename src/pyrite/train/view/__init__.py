"""Views of a run.  The one that needs a terminal library is imported by name: `.progress`."""

from pyrite.train.view.dashboard import Dashboard as Dashboard
from pyrite.train.view.plain import PlainView as PlainView
from pyrite.train.view.view import CommandingView as CommandingView
from pyrite.train.view.view import View as View

__all__ = ["CommandingView", "Dashboard", "PlainView", "View"]
