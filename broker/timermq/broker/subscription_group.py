"""The consumer groups: ``config/subscriptionGroup.json``.

A group comes to be when a consumer first asks for it, with RocketMQ's defaults, and stays.

Source: Java ``SubscriptionGroupManager``, ``SubscriptionGroupConfig``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import attrs

from timermq.remoting.codes import ResponseCode

from .config_fields import ConfigFields, ConfigTableError
from .config_table import Entries, VersionedTable, in_order, read_version, version_json
from .consuming.retry_policy import RetryPolicy, read_retry_policy
from .options import BrokerOptions
from .refusal import RefusedError
from .topic_validator import SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS, group_fault

FORBIDDEN_READ = 1 << 2
"""Java ``PermName.INDEX_PERM_READ``, as a bit of the file's numbers."""

RETRY_TIMES_MAX = 16
"""Tries of one message after the first, unless the group says otherwise."""


@attrs.frozen(kw_only=True)
class SubscriptionGroupConfig:
    """One group: the fields that this broker acts on, and the others as the file has them."""

    group_name: str
    consume_enable: bool = True
    consume_broadcast_enable: bool = True
    notify_consumer_ids_changed_enable: bool = True
    retry_queue_nums: int = 1
    """Queues of the retry topic."""
    retry_max_times: int = RETRY_TIMES_MAX
    retry_policy: RetryPolicy | None = None
    """Pauses between tries; None: by delay levels. Read from ``rest``, where it stays."""
    rest: Mapping[str, object] = attrs.Factory(lambda: _DEFAULT_REST)
    """Fields kept as they were."""

    @classmethod
    def from_json(cls, name: str, fields: ConfigFields) -> SubscriptionGroupConfig:
        """Read an entry of the file."""
        policy = read_retry_policy(fields.where, fields.rest.get("groupRetryPolicy"))
        return cls(
            group_name=fields.text("groupName", name),
            consume_enable=fields.boolean("consumeEnable", True),
            consume_broadcast_enable=fields.boolean("consumeBroadcastEnable", True),
            notify_consumer_ids_changed_enable=fields.boolean(
                "notifyConsumerIdsChangedEnable", True
            ),
            retry_queue_nums=fields.integer("retryQueueNums", 1),
            retry_max_times=fields.integer("retryMaxTimes", RETRY_TIMES_MAX),
            retry_policy=policy,
            rest=fields.rest,
        )

    def to_json(self) -> dict[str, object]:
        """The entry of the file."""
        return in_order(
            self.rest,
            consumeBroadcastEnable=self.consume_broadcast_enable,
            consumeEnable=self.consume_enable,
            groupName=self.group_name,
            notifyConsumerIdsChangedEnable=self.notify_consumer_ids_changed_enable,
            retryMaxTimes=self.retry_max_times,
            retryQueueNums=self.retry_queue_nums,
        )


_DEFAULT_REST: Mapping[str, object] = MappingProxyType(
    {
        "attributes": {},
        "brokerId": 0,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "whichBrokerWhenConsumeSlowly": 1,
    }
)
"""Fields that Java writes for a new group beside those above; this broker ignores them."""


class SubscriptionGroupTable(VersionedTable):
    """All consumer groups of the broker.

    Args:
        options: Whether groups come to be by themselves, and how many there may be.
        now_ms: The wall clock, for the data version.
    """

    path = "config/subscriptionGroup.json"
    without_it: str | None = "settings of groups are lost, such as retries and permissions"

    def __init__(self, options: BrokerOptions, *, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self._options = options
        self._forbidden: dict[str, dict[str, int]] = {}
        """Group to topic to what it may not do there, in RocketMQ's bits."""
        self._groups = {name: SubscriptionGroupConfig(group_name=name) for name in SYSTEM_GROUPS}

    def load(self, data: object) -> None:
        """Take a file over; groups that it lacks stay as they are made at start."""
        fields = ConfigFields(self.path, data)
        self.data_version = read_version(fields)
        groups = fields.fields("subscriptionGroupTable").objects()
        self._groups |= {name: SubscriptionGroupConfig.from_json(name, one) for name, one in groups}
        self._forbidden = {
            group: {topic: topics.integer(topic, 0) for topic in list(topics.rest)}
            for group, topics in fields.fields("forbiddenTable").objects()
        }
        self._rest = fields.rest

    def replace(self, data: object) -> None:
        """Take a master's table over: it and nothing else.

        Args:
            data: As a file has it.

        Raises:
            ConfigTableError: It is none; the table is as before.
        """
        before = self._groups, self._forbidden, self.data_version
        self._groups = {name: SubscriptionGroupConfig(group_name=name) for name in SYSTEM_GROUPS}
        try:
            self.load(data)
        except ConfigTableError:
            self._groups, self._forbidden, self.data_version = before
            raise
        if (self._groups, self._forbidden, self.data_version) != before:
            self._tell_change()

    def to_json(self) -> dict[str, object]:
        """The content of the file, for JSON."""
        return in_order(
            self._rest,
            dataVersion=version_json(self.data_version),
            forbiddenTable=self._forbidden,
            subscriptionGroupTable=Entries(self._groups),
        )

    def all(self) -> Iterable[SubscriptionGroupConfig]:
        """Every group, in no particular order."""
        return self._groups.values()

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """The group's configuration; None when there is no such group."""
        return self._groups.get(group)

    def existing(self, group: str) -> SubscriptionGroupConfig:
        """The group's configuration; none is made.

        Raises:
            RefusedError: There is no such group (26).
        """
        config = self._groups.get(group)
        if config is None:
            raise RefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                "GROUP_NOT_EXIST",
                f"subscription group {ascii(group)[:130]} does not exist",
            )
        return config

    def delete(self, group: str) -> bool:
        """Forget a group; False when there is none."""
        if self._groups.pop(group, None) is None:
            return False
        self._forbidden.pop(group, None)
        self._count_change()
        return True

    def find(self, group: str) -> SubscriptionGroupConfig:
        """The group's configuration; a new group is made when the broker allows it.

        Raises:
            RefusedError: The name is illegal (29), the group is unknown and none are made (26), or
                the table is full (1).

        Source: Java ``SubscriptionGroupManager.findSubscriptionGroupConfig``.
        """
        config = self._groups.get(group)
        return self._create(group) if config is None else config

    def put(self, config: SubscriptionGroupConfig) -> None:
        """Make or change a group; the caller has checked the name."""
        self._groups[config.group_name] = config
        self._count_change()

    def forbidden(self) -> Mapping[str, Mapping[str, int]]:
        """Group to topic to what it may not do there, in RocketMQ's bits."""
        return self._forbidden

    def is_readable(self, group: str, topic: str) -> bool:
        """Whether a group may read a topic, as far as this table tells."""
        topics = self._forbidden.get(group)
        return topics is None or not topics.get(topic, 0) & FORBIDDEN_READ

    def set_readable(self, group: str, topic: str, *, readable: bool) -> None:
        """Let a group read a topic, or forbid it.

        Source: Java ``SubscriptionGroupManager.updateForbidden``, which lets the group read all
        other topics as well when it lets it read one.
        """
        if readable is self.is_readable(group, topic):
            return
        topics = self._forbidden.setdefault(group, {})
        topics[topic] = topics.get(topic, 0) ^ FORBIDDEN_READ
        if not topics[topic]:
            del topics[topic]
        if not topics:
            del self._forbidden[group]
        self._count_change()

    def forget_topic(self, topic: str) -> None:
        """A topic is deleted: one that is made again under its name is forbidden to no group."""
        groups = [group for group, topics in self._forbidden.items() if topic in topics]
        for group in groups:
            del self._forbidden[group][topic]
            if not self._forbidden[group]:
                del self._forbidden[group]
        if groups:
            self._count_change()

    def check_room(self, groups: Iterable[str]) -> None:
        """Refuse groups, all of them, when the table has no room for those that are new (1)."""
        new = [group for group in dict.fromkeys(groups) if group not in self._groups]
        if new and len(self._groups) + len(new) > self._options.subscription_groups_max:
            names = new[0] if len(new) == 1 else f"{new[0]} and {len(new) - 1} more"
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "GROUPS_MAX",
                f"no room for {names}: the table holds {len(self._groups)} groups",
            )

    def _create(self, group: str) -> SubscriptionGroupConfig:
        fault = group_fault(group)
        if fault is not None:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, "GROUP_NAME", fault)
        if not (
            self._options.auto_create_subscription_group or group.startswith(SYSTEM_GROUP_PREFIX)
        ):
            raise RefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                "GROUP_NOT_EXIST",
                f"subscription group {group} does not exist",
            )
        self.check_room([group])
        config = SubscriptionGroupConfig(group_name=group)
        self.put(config)
        return config
