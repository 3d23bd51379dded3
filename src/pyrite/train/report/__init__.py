"""Reports: what recorded runs say, one or several, in a table or on a page."""

from pyrite.train.report.run import RecordedRun as RecordedRun
from pyrite.train.report.run import find_runs as find_runs
from pyrite.train.report.run import read_run as read_run

__all__ = ["RecordedRun", "find_runs", "read_run"]
