"""Pulls (11, 361): messages of one queue from an offset on, now or when some arrive.

=======================================  ====  =================
situation                                code  nextBeginOffset
=======================================  ====  =================
at least one message                        0  last examined + 1
messages exist, none matches               20  last examined + 1
nothing stored yet, offset 0               19  0
nothing stored yet, offset above 0         21  0
offset is the next one to be stored        19  unchanged
offset is beyond that                      21  the next one
offset is before the oldest message        21  the oldest
an operator has reset the group            21  where to
=======================================  ====  =================

A pull with 19 is held if the client allows it. A pull whose subscription no heartbeat has told yet
is held until its client has been asked for it (``subscription_questions``). Errors for C++
consumers are held back for a moment, because these pull again without a pause, thousands of times a
second.

Source: Java ``PullMessageProcessor``, ``DefaultPullMessageResultHandler``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import attrs
import trio

from timermq.remoting.codes import ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.pull_header import PullFlag, PullHeader
from timermq.timerstore.get_result import GetResult, GetStatus
from timermq.timerstore.message_store import MessageStore

from ..admin.broker_rates import BrokerRates
from ..admin.offset_reset import OffsetResets
from ..client_registry import ClientRegistry, Subscription
from ..consumer_offset import ConsumerOffsetTable
from ..options import BrokerOptions
from ..refusal import RefusedError, refusal_answer
from ..replication.followers import Followers
from ..session import Session
from ..steps import Steps, at_once
from ..subscription_group import SubscriptionGroupConfig, SubscriptionGroupTable
from ..topic_config import TopicConfigTable
from .filter import ALL, SQL_TYPE, MessageFilter, parse_filter
from .long_polling import HeldPull, LongPolling
from .sql_filter import prepare_filter
from .subscription_questions import HOLD_SECONDS, SubscriptionQuestions
from .zlib_bodies import zlib_bodies_steps

FILTER_SECONDS = 0.001
"""How long one pull tries a filter on messages, and one more: with the longest filter and many
properties that takes some milliseconds."""

_STATUS_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}
_EMPTY = frozenset({GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE})


class _NotToldError(RefusedError):
    """A refusal: no client of the group has told a subscription as new as the pull's."""


@attrs.frozen(eq=False, kw_only=True)
class PullProcessor:
    """The processor; both entrances are plain code."""

    options: BrokerOptions
    store: MessageStore
    topics: TopicConfigTable
    groups: SubscriptionGroupTable
    offsets: ConsumerOffsetTable
    clients: ClientRegistry
    long_polling: LongPolling
    questions: SubscriptionQuestions
    resets: OffsetResets
    followers: Followers
    rates: BrokerRates
    """Count what pulls give."""

    def handle(self, session: Session, command: Command) -> Command | None:
        """The answer, or None when the pull is held."""
        return at_once(self.steps(session, command))

    def steps(self, session: Session, command: Command) -> Steps[Command | None]:
        """The same, with steps for a filter that is long and for bodies that are to be unpacked."""
        is_sql = command.ext.get("expressionType") == SQL_TYPE
        if is_sql and self.options.enable_property_filter:
            yield from prepare_filter(command.ext.get("subscription", ""))
        try:
            return (yield from self._pull(session, command))
        except (RefusedError, RemoteProtocolError) as error:
            return self._refuse(session, command, error)

    def run_again(self, pull: HeldPull) -> Command:
        """Run a held pull from its offset, which moves past messages that did not match.

        A client whose message takes several steps to unpack is told to ask again: held pulls are
        answered many at a time, and its next request has its own turn.
        """
        try:
            self._check_group(pull.group)
            self._check_topic(pull.topic, pull.queue_id)
            self._check_forbidden(pull.group, pull.topic)
            self._follow_subscription(pull)
        except RefusedError as error:
            return refusal_answer(pull.command, error)
        result = self._read(pull)
        code = _code(result, pull.offset)
        if code is ResponseCode.PULL_RETRY_IMMEDIATELY:
            pull.offset = result.next_offset
            pull.has_more = result.next_offset < result.max_offset
        elif code is ResponseCode.PULL_NOT_FOUND and pull.offset > pull.first_offset:
            # Nothing more, but the client is to go on behind what did not match.
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
        steps = _answer(pull.session, pull.command, code, result)
        try:
            next(steps)
        except StopIteration as end:
            self._count(pull, result)
            return cast("Command", end.value)
        steps.close()
        pull.has_more = True
        return _again(pull.command, result, pull.offset)

    def _follow_subscription(self, pull: HeldPull) -> None:
        """Begin a held pull again if its group's subscription has changed since it came."""
        before, info = pull.subscription, self.clients.consumer_group(pull.group)
        if before is None or info is None:
            return
        now = info.subscriptions.get(pull.topic, before)
        if now is before:
            return
        pull.subscription = now
        wanted = (now.sub_string, now.expression_type)
        if wanted != (before.sub_string, before.expression_type):
            pull.message_filter = self._parse_filter(*wanted)
            pull.offset = pull.first_offset

    def _pull(self, session: Session, command: Command) -> Steps[Command | None]:
        header = PullHeader.of(command)
        pull = self._check(session, command, header)
        try:
            self._set_filter(pull, header)
        except _NotToldError as error:
            pull.answer = refusal_answer(command, error)
            if self._hold_and_ask(pull, header.sub_version):
                return None
            raise
        self._commit(pull, header)
        result = self._read(pull)
        self._count(pull, result)
        code = _code(result, pull.offset)
        if code is not ResponseCode.PULL_NOT_FOUND or not header.sys_flag & PullFlag.SUSPEND:
            return (yield from _answer(session, command, code, result))
        if not self.long_polling.hold(pull, self._suspend_seconds(header)):
            raise RefusedError(
                ResponseCode.SYSTEM_BUSY,
                "HELD_PULLS_MAX",
                f"[OVERLOAD] {self.long_polling.held} pulls are held, no room for another",
            )
        return None

    def _hold_and_ask(self, pull: HeldPull, sub_version: int) -> bool:
        """Hold a pull and ask its client; False if it cannot be held, or the client not asked."""
        if not self.long_polling.hold(pull, HOLD_SECONDS):
            return False
        if self.questions.ask(pull, sub_version, self._resume):
            return True
        self.long_polling.release(pull)
        return False

    def _resume(self, pull: HeldPull) -> None:
        """Go on with a pull that has waited for its subscription, or refuse it if none has come."""
        if not self.long_polling.holds(pull):
            return
        header = PullHeader.of(pull.command)
        try:
            self._set_filter(pull, header)
        except RefusedError as error:
            pull.answer = refusal_answer(pull.command, error)
        else:
            pull.answer = None
            pull.is_put_off = not header.sys_flag & PullFlag.SUSPEND
            self._commit(pull, header)
        later = self._suspend_seconds(header) - HOLD_SECONDS
        self.long_polling.resume(pull, later=later)

    def _suspend_seconds(self, header: PullHeader) -> float:
        """How long a pull may be held while there is nothing to give."""
        suspend_ms, asked_ms = self.options.pull_suspend_ms_max, header.suspend_timeout_ms
        if asked_ms is not None:
            suspend_ms = min(asked_ms, suspend_ms)
        return max(suspend_ms, 0) / 1000

    def _commit(self, pull: HeldPull, header: PullHeader) -> None:
        if header.sys_flag & PullFlag.COMMIT_OFFSET and not self._is_reset(pull):
            self.offsets.commit(
                group=pull.group,
                topic=pull.topic,
                queue_id=pull.queue_id,
                offset=header.commit_offset,
            )

    def _check(self, session: Session, command: Command, header: PullHeader) -> HeldPull:
        """The checks in Java's order, but for the filter, and the pull that passed them."""
        group = self._check_group(header.consumer_group)
        topic, queue_id = header.topic, header.queue_id
        self._check_topic(topic, queue_id)
        self._check_forbidden(group.group_name, topic)
        offset = header.queue_offset
        return HeldPull(
            session=session,
            command=command,
            group=group.group_name,
            topic=topic,
            queue_id=queue_id,
            first_offset=offset,
            offset=offset,
            count_max=max(header.max_msg_nums, 1),
            message_filter=ALL,
        )

    def _check_group(self, name: str) -> SubscriptionGroupConfig:
        if not self.options.is_readable:
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                "BROKER_NOT_READABLE",
                f"broker {self.options.broker_name} lets no messages out",
            )
        group = self.groups.find(name)
        if not group.consume_enable:
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                "GROUP_NOT_ENABLED",
                f"group {group.group_name} is not allowed to consume",
            )
        return group

    def _check_topic(self, topic: str, queue_id: int) -> None:
        config = self.topics.existing(topic)
        if not config.is_readable:
            raise RefusedError(
                ResponseCode.NO_PERMISSION, "TOPIC_NOT_READABLE", f"topic {topic} is not readable"
            )
        if not 0 <= queue_id < config.read_queue_nums:
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER,
                "QUEUE_ID",
                f"topic {topic} has {config.read_queue_nums} queues to read, "
                f"found queue {queue_id}",
            )

    def _check_forbidden(self, group: str, topic: str) -> None:
        # RocketMQ lets the group read by pulls that bring their filter.
        if not self.groups.is_readable(group, topic):
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                "GROUP_FORBIDDEN",
                f"group {group} is forbidden to read topic {topic}",
            )

    def _set_filter(self, pull: HeldPull, header: PullHeader) -> None:
        """Give a pull its filter: from the request, else from its group's heartbeats."""
        if header.sys_flag & PullFlag.SUBSCRIPTION:
            pull.message_filter = self._parse_filter(header.subscription, header.expression_type)
            return
        pull.subscription = one = self._subscription(header)
        pull.message_filter = self._parse_filter(one.sub_string, one.expression_type)

    def _subscription(self, header: PullHeader) -> Subscription:
        """The subscription that a pull names."""
        topic, group = header.topic, self.groups.find(header.consumer_group)
        info = self.clients.consumer_group(group.group_name)
        if info is None:
            raise RefusedError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                "GROUP_NOT_ONLINE",
                f"no consumer of group {group.group_name} is registered",
            )
        if info.message_model == "BROADCASTING" and not group.consume_broadcast_enable:
            raise RefusedError(
                ResponseCode.NO_PERMISSION,
                "BROADCAST_NOT_ENABLED",
                f"group {group.group_name} is not allowed to consume by broadcast",
            )
        subscription = info.subscriptions.get(topic)
        if subscription is None:
            raise _NotToldError(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                "SUBSCRIPTION_NOT_EXIST",
                f"group {group.group_name} has no subscription of {topic}",
            )
        if subscription.sub_version < header.sub_version:
            raise _NotToldError(
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
                "SUBSCRIPTION_NOT_LATEST",
                f"the subscription of {topic} is of version {subscription.sub_version}, "
                f"the pull of {header.sub_version}",
            )
        return subscription

    def _parse_filter(self, sub_string: str, expression_type: str) -> MessageFilter:
        return parse_filter(
            sub_string,
            expression_type,
            property_filter_enable=self.options.enable_property_filter,
        )

    def _is_reset(self, pull: HeldPull) -> bool:
        return self.resets.is_pending(group=pull.group, topic=pull.topic, queue_id=pull.queue_id)

    def _count(self, pull: HeldPull, result: GetResult) -> None:
        """Count messages that the group is given, and note their end."""
        self.rates.pulled(
            (pull.topic, pull.group),
            pull.queue_id,
            count=result.count,
            size=result.size,
            next_offset=result.next_offset,
        )

    def _read(self, pull: HeldPull) -> GetResult:
        """The messages for the group, or the offset at which it is to go on."""
        reset_to = self.resets.take(group=pull.group, topic=pull.topic, queue_id=pull.queue_id)
        if reset_to is not None:
            queue = self.store.queue(pull.topic, pull.queue_id)
            return GetResult(
                status=GetStatus.OFFSET_RESET,
                next_offset=reset_to,
                min_offset=0 if queue is None else queue.min_offset,
                max_offset=0 if queue is None else queue.max_offset,
            )
        if not self.followers.is_settled:
            return GetResult(
                status=GetStatus.OFFSET_FOUND_NULL,
                next_offset=pull.offset,
                min_offset=0,
                max_offset=0,
            )
        store_options = self.store.options
        began = trio.current_time()
        until = began + FILTER_SECONDS
        result = self.store.get(
            pull.topic,
            pull.queue_id,
            pull.offset,
            count_max=min(pull.count_max, store_options.max_transfer_count_on_message_in_memory),
            bytes_max=store_options.max_transfer_bytes_on_message_in_memory,
            matches=pull.message_filter.matches_tags,
            matches_record=pull.message_filter.matches_record,
            is_enough=lambda: trio.current_time() >= until,
        )
        self.rates.pull_seconds_max = max(self.rates.pull_seconds_max, trio.current_time() - began)
        return result

    def _refuse(
        self, session: Session, command: Command, error: RefusedError | RemoteProtocolError
    ) -> Command | None:
        answer = refusal_answer(command, error)
        if not session.is_cpp:
            return answer
        held = HeldPull(
            session=session,
            command=command,
            group="",
            topic="",
            queue_id=-1,
            first_offset=0,
            offset=0,
            count_max=0,
            message_filter=ALL,
            answer=answer,
        )
        if self.long_polling.hold(held, self.options.pull_error_delay_ms / 1000):
            return None
        return answer


def _code(result: GetResult, offset: int) -> ResponseCode:
    if result.status in _EMPTY and offset == 0:
        return ResponseCode.PULL_NOT_FOUND
    return _STATUS_CODES[result.status]


def _answer(
    session: Session, command: Command, code: ResponseCode, result: GetResult
) -> Steps[Command]:
    """The answer with the fields that clients need for 0, 19, 20 and 21."""
    records: Sequence[bytes] = result.records
    next_offset = result.next_offset
    if records and session.knows_zlib_alone:
        readable = yield from zlib_bodies_steps(records, checks_zlib=session.is_cpp)
        records = readable.records
        next_offset = next_offset if readable.next_offset is None else readable.next_offset
    return command.answer(
        code,
        remark=None if code is ResponseCode.SUCCESS else result.status.name,
        ext=_answer_ext(result, next_offset),
        body=b"".join(records),
    )


def _again(command: Command, result: GetResult, offset: int) -> Command:
    """The answer that has a client pull from the same place once more."""
    return command.answer(
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        remark="UNPACKING_TAKES_LONG",
        ext=_answer_ext(result, offset),
    )


def _answer_ext(result: GetResult, next_offset: int) -> dict[str, str]:
    return {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(next_offset),
        "minOffset": str(result.min_offset),
        "maxOffset": str(result.max_offset),
    }
