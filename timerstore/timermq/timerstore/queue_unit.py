"""The unit of a consume queue, twenty bytes, and what one says of a record of the log."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .layout import Layout

UNIT = Layout(
    "consume queue unit",
    ">",
    (
        ("phy_offset", "q", "position of the record in the commit log"),
        ("size", "i", "size of the record in bytes"),
        ("tags_code", "q", "hash of the tags; the deliver time on SCHEDULE_TOPIC_XXXX"),
    ),
)
assert UNIT.size == 20

FILLER_SIZE = 0x7FFFFFFF
"""Size in the units that fill a first segment up to the first message."""

FILLER = UNIT.pack(0, FILLER_SIZE, 0)

LOST_SIZE = 1
"""Size in units that keep the places of lost records (``lost_places``); no record is that small."""

NATIVE_UNIT: np.dtype[np.void] = np.dtype(
    [("phy_offset", "i8"), ("size", "i8"), ("tags_code", "i8")]
)

Units: TypeAlias = NDArray[np.void]
"""Units with native fields ``phy_offset``, ``size``, ``tags_code``."""
