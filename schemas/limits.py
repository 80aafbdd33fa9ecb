"""Bounds of what a record may say, so that no figure leaves 64 bits and no name outgrows a message.

Far above anything real: Kubernetes names have at most 253 characters, and 2^53 us is the year 2255. A record outside
is refused as it is decoded (tests/unit/schemas/test_limits.py).
"""

from typing import Annotated

import msgspec

MAX_TEXT = 512
MAX_NUMBER = 1 << 53
MAX_UNITS = 1_000_000
"""GPUs or slots; times a window of a minute and a thousand resources it stays far below 2^63."""

Name = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
Number = Annotated[int, msgspec.Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Units = Annotated[int, msgspec.Meta(ge=0, le=MAX_UNITS)]
