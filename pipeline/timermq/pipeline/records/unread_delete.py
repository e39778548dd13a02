"""Deletes that cannot be read: which messages they may have cancelled.

A delete waits in the slot of what it cancels, and its unit tells the topic. So when its record
is damaged, it meant a message of that slot and topic that was sent before it: one of them, and
which one is not known. Delivered, a message would arrive that was cancelled or moved; so all of
them are quarantined as in doubt.

It stands among what the slot's deletes name, as a name that no key can be: a key has no zero.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from .undeliverable import Reason, TimerRecordError

_MARK = b"\0unread"


@attrs.frozen
class UnreadDelete:
    """A delete whose record cannot be read."""

    topic_hash: int
    """Of the real topic, as its unit says."""
    offset_py: int
    """Position of its record."""

    def name(self) -> bytes:
        """How it stands among the names of deletes."""
        return b"%b %d %d" % (_MARK, self.topic_hash, self.offset_py)

    def check(self, topic_hash: int, offset_py: int, order_py: int) -> None:
        """Doubt a message of its slot.

        Args:
            topic_hash: Of the topic that the message is for.
            offset_py: Where the message's record stands.
            order_py: Where its first record stands: it may have rolled behind the delete.

        Raises:
            TimerRecordError: It may be the one that was cancelled.
        """
        if (topic_hash, True) == (self.topic_hash, order_py < self.offset_py):
            text = (
                f"timer record at {offset_py}: expected to read what the delete at "
                f"{self.offset_py} cancels of its slot and topic, found it damaged"
            )
            raise TimerRecordError(Reason.IN_DOUBT, text)


def unread_among(names: Iterable[bytes]) -> list[UnreadDelete]:
    """The unread ones among the names of deletes."""
    pieces = [name.split() for name in names if name.startswith(_MARK)]
    return [UnreadDelete(int(piece[1]), int(piece[2])) for piece in pieces]
