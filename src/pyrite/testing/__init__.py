"""The tools with which Pyrite tests itself, for those who add an op or a backend."""

from pyrite.testing.differences import central_difference as central_difference
from pyrite.testing.differences import directional_difference as directional_difference
from pyrite.testing.examples import Example as Example
from pyrite.testing.examples import examples as examples
from pyrite.testing.examples import samples_of as samples_of
from pyrite.testing.gradients import check_gradients as check_gradients
from pyrite.testing.records import all_records as all_records

__all__ = [
    "Example",
    "all_records",
    "central_difference",
    "check_gradients",
    "directional_difference",
    "examples",
    "samples_of",
]
