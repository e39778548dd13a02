"""Giving a message back that could not be handled: it comes again later, or becomes a dead letter.

The broker puts it on the group's retry topic, which every consumer of the group that takes retries
reads beside its own topics.

Source: Java ``DefaultMQPushConsumerImpl.sendMessageBack``.
"""

from __future__ import annotations

from timermq.remoting import Command, RequestCode
from timermq.remoting.send_back_header import SendBackHeader

from .message import ReceivedMessage

RETRY_PREFIX = "%RETRY%"
GIVE_UP_LEVEL = -1
"""The delay level that asks for no further try."""
_POSITION_DIGITS = 16
"""Of an offset message id, the last."""


def retry_topic(group: str) -> str:
    """Where a group finds the messages that it has sent back."""
    return RETRY_PREFIX + group


def send_back_request(group: str, message: ReceivedMessage, level: int) -> Command:
    """The request that gives a message back.

    Args:
        group: The consumer's.
        message: As it was received.
        level: Delay level; 0: the broker counts the tries. ``GIVE_UP_LEVEL``: no further one.
    """
    header = SendBackHeader(
        group=group,
        offset=int(message.offset_message_id[-_POSITION_DIGITS:], 16),
        delay_level=level,
        origin_message_id=message.message_id,
        origin_topic=message.original_topic,
    )
    return Command(RequestCode.CONSUMER_SEND_MSG_BACK, ext=header.to_ext())
