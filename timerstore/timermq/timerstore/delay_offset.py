"""How far the queues of the classic levels are through: ``config/delayOffset.json``.

A queue a level on ``SCHEDULE_TOPIC_XXXX``; the number kept is the queue offset of the next message
of that level. RocketMQ delivers from these queues and writes the file every ten seconds. Here the
messages move to the wheel, and the file follows: whichever broker serves the store next goes on
behind them.

Ours has one field more, which RocketMQ does not read and leaves out when it writes:

    "scanPy"    what was done beyond these offsets stands in the commit log from this position on

Source: Java ``ScheduleMessageService``, ``DelayOffsetSerializeWrapper``.
"""

from __future__ import annotations

from typing import cast

import attrs

from .config_file import DataVersion, fastjson
from .config_seal import UnsealedBitError, load_sealed, save_sealed
from .disk import Disk
from .errors import StoreFormatError

PATH = "config/delayOffset.json"
"""Under the store's root."""

_OFFSET_MAX = 2**63 - 1
_DIGITS_MAX = 10


@attrs.frozen(kw_only=True)
class DelayOffsets:
    """The offsets of the levels in ``config/delayOffset.json``."""

    offsets: dict[int, int]
    """Level, from 1 on, to the queue offset of its next message."""
    scan_py: int | None = None
    """See above; None in a file that RocketMQ wrote."""
    data_version: DataVersion = attrs.Factory(DataVersion)

    @classmethod
    def load(cls, disk: Disk, root: str) -> DelayOffsets | None:
        """Read the file, or its ``.bak``; nothing is written.

        Returns:
            None when there is neither, or what is there says something else, or is not as it was
            saved: what was delivered has to be looked for in the log then.
        """
        try:
            data = load_sealed(disk, f"{root}/{PATH}", read_only=True)
        except (StoreFormatError, UnsealedBitError):
            return None
        fields = _object(data)
        offsets = _offsets(None if fields is None else fields.get("offsetTable"))
        if fields is None or offsets is None:
            return None
        version = _object(fields.get("dataVersion")) or {}
        return cls(
            offsets=offsets,
            scan_py=_position(fields.get("scanPy")),
            data_version=DataVersion(
                counter=_position(version.get("counter")) or 0,
                state_version=_position(version.get("stateVersion")) or 0,
                timestamp=_position(version.get("timestamp")) or 0,
            ),
        )

    async def save(self, disk: Disk, root: str) -> None:
        """Replace the file, keeping the old one as ``.bak``.

        Raises:
            OSError: The disk refused.

        Cancellation: the file is the old or the new one, and whole.
        """
        version = self.data_version
        data: dict[str, object] = {
            "dataVersion": {
                "counter": version.counter,
                "stateVersion": version.state_version,
                "timestamp": version.timestamp,
            },
            "offsetTable": dict(sorted(self.offsets.items())),
        }
        if self.scan_py is not None:
            data["scanPy"] = self.scan_py
        await save_sealed(disk, f"{root}/{PATH}", fastjson(data))


def _object(value: object) -> dict[object, object] | None:
    return cast("dict[object, object]", value) if isinstance(value, dict) else None


def _offsets(value: object) -> dict[int, int] | None:
    """The table; None when it is none, or one entry of it is none."""
    table = _object({} if value is None else value)
    if table is None:
        return None
    found: dict[int, int] = {}
    for key, item in table.items():
        level, offset = str(key), _position(item)
        if not level.isdecimal() or len(level) > _DIGITS_MAX or offset is None:
            return None
        found[int(level)] = offset
    return found


def _position(value: object) -> int | None:
    """A number that can be an offset; None for anything else."""
    is_offset = type(value) is int and 0 <= value <= _OFFSET_MAX
    return cast("int", value) if is_offset else None
