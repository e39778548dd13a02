"""The targets of a topic's rows: the checks of a send, for all of them at once."""

from __future__ import annotations

import attrs

from timermq.remoting.codes import ResponseCode

from ..options import BrokerOptions
from ..refusal import RefusedError
from ..sending.send_checks import SendChecks, SendTarget
from ..topic_validator import AUTO_CREATE_TOPIC_KEY_TOPIC

_FOR_A_WHILE = frozenset({"NOT_ACCEPTING_YET", "BROKER_NOT_WRITEABLE"})


@attrs.frozen
class TopicQueues:
    """Numbers of queues of a topic."""

    count: int
    """Queues that a row may name."""
    turns: int
    """Queues used round robin when a row names none."""


@attrs.frozen(eq=False)
class BulkTopics:
    """Checks the topics of bulk jobs.

    Args:
        checks: Those of every send.
        options: For topics that are made on the way.
    """

    checks: SendChecks
    options: BrokerOptions

    def queues(self, topic: str) -> TopicQueues:
        """The queues of a topic, which is made if a send would make it.

        Raises:
            RefusedError: A send would be refused too, or its rule looks at single messages.
        """
        self.checks.check_accepting()
        config = self.checks.topic(
            SendTarget(
                topic=topic,
                queue_id=-1,
                properties=b"",
                default_topic=AUTO_CREATE_TOPIC_KEY_TOPIC,
                default_topic_queue_nums=self.options.default_topic_queue_nums,
            )
        )
        if not self.checks.takes_all(topic, 0):
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                "BULK_TOPIC",
                f"{topic}: topics of retries and compacted ones take no bulk messages",
            )
        return TopicQueues(config.queue_nums, max(config.write_queue_nums, 1))

    @staticmethod
    def is_for_a_while(error: RefusedError) -> bool:
        """Whether the refusal ends by itself, or by the operator."""
        return error.rule in _FOR_A_WHILE
