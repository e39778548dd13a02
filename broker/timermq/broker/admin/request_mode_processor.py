"""How a group gets the messages of a topic: by pulls.

RocketMQ can hand out messages instead (POP). Here groups always pull: PULL changes nothing, and POP
is refused.

Source: Java ``QueryAssignmentProcessor.setMessageRequestMode``,
``AdminBrokerProcessor.getAllMessageRequestMode``.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from timermq.remoting.admin_body import decode_config
from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.queue_json import encode_json

from ..dispatcher import Handler
from ..refusal import RefusedError
from ..session import Session
from ..subscription_group import SubscriptionGroupTable
from ..topic_config import TopicConfigTable
from ..topic_validator import is_retry_topic

PULL = "PULL"


@attrs.frozen(eq=False, kw_only=True)
class RequestModeProcessor:
    """Lets groups pull, and nothing else."""

    topics: TopicConfigTable
    groups: SubscriptionGroupTable

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.all_modes,
        }

    def all_modes(self, _session: Session, command: Command) -> Command:
        """No modes beside the default, as slaves ask for them (402)."""
        return command.answer(ResponseCode.SUCCESS, body=encode_json({"messageRequestModeMap": {}}))

    def set_mode(self, _session: Session, command: Command) -> Command:
        """Have a group pull a topic, as it does; the checks are in Java's order (401)."""
        fields = decode_config(command.body)
        topic, group = _text(fields, "topic"), _text(fields, "consumerGroup")
        if is_retry_topic(topic):
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                "REQUEST_MODE",
                f"{ascii(topic)[:260]} is a retry topic, of which no mode is set",
            )
        self.topics.existing(topic)
        self.groups.find(group)
        mode = fields.get("mode", PULL)
        if mode != PULL:
            raise RefusedError(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                "REQUEST_MODE",
                f"expected {PULL}, found {ascii(mode)[:130]}: no POP",
            )
        return command.answer(ResponseCode.SUCCESS)


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
