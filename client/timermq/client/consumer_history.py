"""The lines of a consumer in a history: each message that it gave out, and how much it saw."""

from __future__ import annotations

import attrs

from .history import Deliver, End, HistoryWriter, Start
from .message import ReceivedMessage

LATE_MS_MAX = 5_000
"""A message due that long before a consumer ended counts as lost if it has not come."""


@attrs.frozen(eq=False)
class ConsumerHistory:
    """The writing side of one consumer."""

    _writer: HistoryWriter
    _group: str

    def start(self) -> None:
        """Write down that the consumer begins, and its group."""
        self._writer.write(
            Start(
                at_ms=self._writer.clock_ms(),
                who=self._writer.who,
                settings={"consumer_group": self._group},
            )
        )

    def deliver(self, message: ReceivedMessage) -> None:
        """The program gets a message."""
        self._writer.write(
            Deliver(
                at_ms=self._writer.clock_ms(),
                who=self._writer.who,
                message_id=message.message_id,
                topic=message.topic,
                queue=message.queue_id,
                offset=message.queue_offset,
                stored_ms=message.stored_ms,
                deliver_ms=message.deliver_ms,
                broker=message.broker_name,
                keys=message.keys,
                received_ms=message.received_ms,
                group=self._group,
            )
        )

    def end(self, asked_ms: int, drained: tuple[str, ...]) -> None:
        """The consumer ends.

        Args:
            asked_ms: When it asked the brokers how far their queues go.
            drained: Topics of which it had given out everything by then.
        """
        self._writer.write(
            End(
                at_ms=self._writer.clock_ms(),
                who=self._writer.who,
                waited_until_ms=max(asked_ms - LATE_MS_MAX, 0),
                drained=bool(drained),
                topics=drained,
                group=self._group,
            )
        )
