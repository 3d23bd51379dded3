"""What a function that was rewritten calls: control flow that records, where it is of values.

`pyrite.extension.rewriting` writes the calls; `flow` has them all, `branch` and `loop` those of
statements, and `state` says what becomes of a name that is set in one.
"""

from pyrite.extension.flow.flow import Flow as Flow

__all__ = ["Flow"]
