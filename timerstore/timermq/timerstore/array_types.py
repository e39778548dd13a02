"""Types of the arrays in which many records are handled at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
"""Numbers of any meaning."""
Places = NDArray[np.int64]
"""Positions in some bytes, or lengths."""
Flags = NDArray[np.bool_]
Rows = NDArray[np.uint8]
"""A text of bytes a row, all of one size."""
