"""Headers about consumer groups: their configuration, and how far they have come.

Source: Java ``GetConsumeStatsRequestHeader`` and others, named at each class.
"""

from __future__ import annotations

from .request_header import RequestHeader, boolean, integer, request_header, text


@request_header
class GroupHeader(RequestHeader):
    """A group by its name (343, 352).

    Java: ``QueryTopicsByConsumerRequestHeader``, ``GetSubscriptionGroupConfigRequestHeader``.
    """

    group: str = text("group")


@request_header
class DeleteGroupHeader(RequestHeader):
    """A group that is deleted (207). Java: ``DeleteSubscriptionGroupRequestHeader``."""

    group_name: str = text("groupName")
    clean_offset: bool = boolean("cleanOffset", default=False)
    """With what it has committed."""


@request_header
class AllGroupsHeader(RequestHeader):
    """All groups, or a page of them (201).

    Java: ``GetAllSubscriptionGroupRequestHeader``, from 5.4 on.
    """

    group_seq: int | None = integer("groupSeq", default=None)
    """Number of the first group, from 0."""
    max_group_num: int | None = integer("maxGroupNum", default=None)
    """Groups of the page, at most."""
    data_version: str | None = text("dataVersion", default=None)
    """That of the pages before, as JSON."""


@request_header
class GroupTopicHeader(RequestHeader):
    """A group and a topic (303, 345).

    Java: ``QueryConsumeTimeSpanRequestHeader``, ``QuerySubscriptionByConsumerRequestHeader``.
    """

    topic: str = text("topic")
    group: str = text("group")


@request_header
class GroupForbiddenHeader(RequestHeader):
    """Whether a group may read a topic (353). Java: ``UpdateGroupForbiddenRequestHeader``."""

    group: str = text("group")
    topic: str = text("topic")
    readable: bool | None = boolean("readable", default=None)
    """None: it stays as it is."""


@request_header
class ConsumeStatsHeader(RequestHeader):
    """How far a group is (208). Java: ``GetConsumeStatsRequestHeader``."""

    consumer_group: str = text("consumerGroup")
    topic: str = text("topic", default="")
    topic_list: str = text("topicList", default="")
    """More topics, with ``;`` between. Without any topic: all that the group has consumed."""


@request_header
class BrokerConsumeStatsHeader(RequestHeader):
    """How far all groups are (317). Java: ``GetConsumeStatsInBrokerHeader``."""

    is_order: bool = boolean("isOrder", default=False)
    """In topics with an order alone."""
