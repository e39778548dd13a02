"""RocketMQ's snapshots of its wheel: ``timerwheel.POSITION`` beside ``timerwheel``.

With ``timerWheelSnapshotFlush`` (RocketMQ 5.4 and later) the whole wheel is written every ten
seconds to a new file, whose name is the position in the timer log up to which it is complete. The
two newest files stay. ``timerwheel`` itself is then as old as the last run without that setting, or
empty. It does not say so, and may fit the timer log by chance. So if there are snapshots, neither
they nor ``timerwheel`` are used: the wheel is made of the timer log, which is complete.

Source: Java ``TimerWheel.backup``, ``getMaxSnapshotFlag``.
"""

from __future__ import annotations

from timermq.timerstore.disk import Disk

WHEEL_NAME = "timerwheel"
"""The wheel's own file."""


def snapshot_names(disk: Disk, root: str) -> list[str]:
    """Names of the snapshots in a store's directory, the oldest first.

    Raises:
        OSError: The directory cannot be read.
    """
    begin = f"{WHEEL_NAME}."
    names = [one for one in disk.list_dir(root) if one.startswith(begin)]
    found = [one for one in names if _is_position(one.removeprefix(begin))]
    return sorted(found, key=lambda one: int(one.removeprefix(begin)))


def _is_position(text: str) -> bool:
    return text.isascii() and text.isdigit()


def remove_snapshots(disk: Disk, root: str, names: list[str]) -> None:
    """Remove snapshots, durably (blocking): RocketMQ would prefer them to a wheel that is newer.

    Raises:
        OSError: The disk failed; some may be left.
    """
    for name in names:
        disk.remove(f"{root}/{name}")
    if names:
        disk.sync_dir_now(root)
