"""The properties that the broker adds to every message that comes in.

A unique key if the producer gave none, and the region, trace switch and cluster as Java adds them:
``CLUSTER`` is what a reply is routed by. Properties stay bytes all the way: no dictionary is made.

Source: Java ``SendMessageProcessor.sendMessage``, ``AbstractSendMessageProcessor.buildMsgContext``.
"""

from __future__ import annotations

from timermq.pipeline.records.timer_properties import LEFT_NAMES, REQUEST_NAMES, ROLL_LABEL_NAME
from timermq.timerstore.message_id import UniqueIdGenerator
from timermq.timerstore.properties import UNIQ_KEY_NAME, find, remove

from ..options import BrokerOptions

_POP_CK = b"POP_CK"
"""Receipt of a pop consumer; Java drops it from what producers send."""


class MessageStamp:
    """Adds the broker's own properties.

    Args:
        options: Region, trace switch and cluster.
        unique_ids: Makes the keys of messages that have none.
        leave_timer_properties: Delivered messages keep timer properties of the broker. So these
            are removed from messages that are sent, which may be forwarded ones; otherwise
            admission refuses them.
    """

    def __init__(
        self,
        options: BrokerOptions,
        unique_ids: UniqueIdGenerator,
        *,
        leave_timer_properties: bool = False,
    ) -> None:
        self._unique_ids = unique_ids
        trace_on = str(options.trace_on).lower()
        values = {
            b"MSG_REGION": options.region_id.encode(),
            b"TRACE_ON": trace_on.encode(),
            b"CLUSTER": options.broker_cluster_name.encode(),
        }
        # The label is on messages that RocketMQ's RocksDB timers have delivered.
        left = (*LEFT_NAMES, ROLL_LABEL_NAME) if leave_timer_properties else ()
        self.keys = (*values, _POP_CK, *left)
        """Names that a message brings in vain: they are removed."""
        self.own = b"".join(b"%b\x01%b\x02" % pair for pair in values.items())
        """The properties for every message."""

    def stamp(self, properties: bytes) -> tuple[bytes, str]:
        """The properties to store, and the message's unique key.

        Properties that are not well-formed stay so: admission refuses them.
        """
        for key in self.keys:
            if key in properties:
                properties = remove(properties, key)
        if properties and not properties.endswith(b"\x02"):
            properties += b"\x02"
        if UNIQ_KEY_NAME in properties:
            unique_key = find(properties, UNIQ_KEY_NAME)
            if unique_key is not None:
                return properties + self.own, unique_key.decode("utf-8", "replace")
            properties = remove(properties, UNIQ_KEY_NAME)
        made = self._unique_ids.next()
        return b"%b%b\x01%b\x02%b" % (properties, UNIQ_KEY_NAME, made.encode(), self.own), made


def delay_request(properties: bytes) -> bytes:
    """The properties among these that ask for a later moment, as text; empty for none."""
    found = ((key, find(properties, key)) for key in REQUEST_NAMES)
    return b"".join(b"%b\x01%b\x02" % (key, value) for key, value in found if value is not None)
