"""What a value is, as a key: for all that is made once for a value and found again by it.

`content_of` gives a key of a value, `Functions` one of functions and all that they read, and
`pyrite.content.digest` what such a key is in every process: who needs that imports it.
"""

from pyrite.content.functions import Functions as Functions
from pyrite.content.names import is_of_library as is_of_library
from pyrite.content.reader import ContentKey as ContentKey
from pyrite.content.reader import NoContentError as NoContentError
from pyrite.content.reader import Reader as Reader
from pyrite.content.reader import content_of as content_of

__all__ = [
    "ContentKey",
    "Functions",
    "NoContentError",
    "Reader",
    "content_of",
    "is_of_library",
]
