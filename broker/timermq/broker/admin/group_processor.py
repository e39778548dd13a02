"""Consumer groups as an operator makes, looks at and deletes them.

Source: Java ``AdminBrokerProcessor``, ``SubscriptionGroupManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs
import structlog
import trio

from timermq.remoting.admin_body import decode_config, decode_configs, decode_names
from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.group_header import (
    AllGroupsHeader,
    DeleteGroupHeader,
    GroupForbiddenHeader,
    GroupHeader,
)
from timermq.remoting.queue_json import encode_json

from ..config_fields import ConfigFields, ConfigTableError
from ..config_table import version_json
from ..consumer_offset import ConsumerOffsetTable
from ..deferred_answers import answer_later
from ..dispatcher import Handler
from ..durations import Durations
from ..refusal import RefusedError
from ..session import Session
from ..subscription_group import SubscriptionGroupConfig, SubscriptionGroupTable
from ..topic_config import TopicConfig, TopicConfigTable
from ..topic_validator import group_fault, is_system_group, retry_topic
from .broker_stats import BrokerStats
from .offset_reset import OffsetResets
from .table_page import TablePage
from .topic_processor import Saved

log = structlog.get_logger("timermq.broker.admin.group_processor")


@attrs.frozen(eq=False, kw_only=True)
class GroupProcessor:
    """Makes, shows and deletes consumer groups for operators."""

    groups: SubscriptionGroupTable
    topics: TopicConfigTable
    offsets: ConsumerOffsetTable
    resets: OffsetResets
    stats: BrokerStats
    made: Durations[None]
    saved: Saved

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.update,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self.update_list,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.DELETE_SUBSCRIPTION_GROUP_LIST: self.delete_list,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.get,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.get_all,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self.forbid,
        }

    def update(self, session: Session, command: Command) -> None:
        """Make a group or change it (200)."""
        self._put_later(session, command, [_config(decode_config(command.body))])

    def update_list(self, session: Session, command: Command) -> None:
        """Make or change several groups: all of them, or none when one is refused (225)."""
        configs = decode_configs(command.body, "groupConfigList")
        self._put_later(session, command, [_config(one) for one in configs])

    def delete(self, session: Session, command: Command) -> None:
        """Delete a group, with what it committed if that is asked for (207).

        Its retry topic and dead letters stay: they hold messages, and are deleted as topics.
        """
        header = DeleteGroupHeader.of(command)
        self._delete_later(session, command, [header.group_name], header.clean_offset)

    def delete_list(self, session: Session, command: Command) -> None:
        """Delete several groups: all of them, or none when one is refused (5003)."""
        groups = decode_names(command.body, "groupNameList")
        clean_offset = decode_config(command.body).get("cleanOffset") is True
        self._delete_later(session, command, groups, clean_offset)

    def get(self, _session: Session, command: Command) -> Command:
        """The configuration of one group, as JSON (352)."""
        config = self.groups.existing(GroupHeader.of(command).group)
        return command.answer(ResponseCode.SUCCESS, body=encode_json(config.to_json()))

    def get_all(self, _session: Session, command: Command) -> Command:
        """The whole table with its version, or a page of it (201)."""
        header = AllGroupsHeader.of(command)
        configs = {config.group_name: config for config in self.groups.all()}
        page = TablePage.asked(header.group_seq, header.max_group_num, header.data_version)
        names = configs if page is None else page.names(configs, self.groups.data_version)
        return command.answer(
            ResponseCode.SUCCESS,
            ext={"totalGroupNum": str(len(configs))},
            body=encode_json(
                {
                    "dataVersion": version_json(self.groups.data_version),
                    "forbiddenTable": self.groups.forbidden(),
                    "subscriptionGroupTable": {name: configs[name].to_json() for name in names},
                }
            ),
        )

    def forbid(self, session: Session, command: Command) -> None:
        """Forbid a group to read a topic, or let it again, and say what holds now (353)."""
        header = GroupForbiddenHeader.of(command)
        group, topic, readable = header.group, header.topic, header.readable
        self.groups.existing(group)
        self.topics.existing(topic)

        async def forbid() -> Command:
            # Either may have been deleted since.
            self.groups.existing(group)
            self.topics.existing(topic)
            if readable is not None:
                self.groups.set_readable(group, topic, readable=readable)
                log.warning(
                    "right of a group changed",
                    group=group,
                    topic=topic,
                    readable=readable,
                    remote=session.remote_address,
                )
                await self.saved()
            holds = self.groups.is_readable(group, topic)
            return command.answer(
                ResponseCode.SUCCESS,
                remark="",
                body=encode_json({"group": group, "readable": holds, "topic": topic}),
            )

        answer_later(session, command, forbid)

    def _delete_later(
        self, session: Session, command: Command, groups: Sequence[str], clean_offset: bool
    ) -> None:
        for group in groups:
            if is_system_group(group):
                raise RefusedError(
                    ResponseCode.INVALID_PARAMETER,
                    "GROUP_SYSTEM",
                    f"{group} is a group of the broker itself and stays",
                )

        async def delete() -> Command:
            for group in groups:
                self.groups.delete(group)
                self.stats.forget_group(group)
                if clean_offset:
                    self.offsets.delete_group(group)
                    self.resets.forget_group(group)
                log.info("group deleted", group=group, remote=session.remote_address)
                await trio.lowlevel.checkpoint()
            await self.saved()
            return command.answer(ResponseCode.SUCCESS)

        answer_later(session, command, delete)

    def _put_later(
        self, session: Session, command: Command, configs: list[SubscriptionGroupConfig]
    ) -> None:
        async def put() -> Command:
            # In the step in which they are put.
            self.groups.check_room(config.group_name for config in configs)
            retry_topics = list(self._grown_retry_topics(configs))
            self.topics.check_room(retry_topics)
            with self.made.making(None for _ in configs):
                for config in configs:
                    self.groups.put(config)
                    name = config.group_name
                    log.info("group updated", group=name, remote=session.remote_address)
                for topic in retry_topics:
                    self.topics.put(topic)
                await self.saved()
            return command.answer(ResponseCode.SUCCESS)

        answer_later(session, command, put)

    def _grown_retry_topics(
        self, configs: Iterable[SubscriptionGroupConfig]
    ) -> Iterator[TopicConfig]:
        """The retry topics that need more queues for these groups, with as many as they need."""
        for config in configs:
            topic = self.topics.get(retry_topic(config.group_name))
            nums = max(config.retry_queue_nums, 1)
            if topic is not None and topic.queue_nums < nums:
                yield attrs.evolve(topic, read_queue_nums=nums, write_queue_nums=nums)


def _config(value: object) -> SubscriptionGroupConfig:
    """A group's configuration as a request has it.

    Raises:
        RefusedError: A field is not what it should be (29).
    """
    try:
        config = SubscriptionGroupConfig.from_json("", ConfigFields("group", value))
    except ConfigTableError as error:
        raise RefusedError(ResponseCode.INVALID_PARAMETER, "GROUP_CONFIG", str(error)) from error
    fault = group_fault(config.group_name)
    if fault is not None:
        raise RefusedError(ResponseCode.INVALID_PARAMETER, "GROUP_NAME", fault)
    if not (0 <= config.retry_queue_nums <= RETRY_QUEUE_NUMS_MAX and config.retry_max_times >= -1):
        raise RefusedError(
            ResponseCode.INVALID_PARAMETER,
            "GROUP_CONFIG",
            f"{config.group_name}: expected 0 to {RETRY_QUEUE_NUMS_MAX} retry queues and -1 tries "
            f"or more, found {config.retry_queue_nums} and {config.retry_max_times}",
        )
    return config


RETRY_QUEUE_NUMS_MAX = 1_024
