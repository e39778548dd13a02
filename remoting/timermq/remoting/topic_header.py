"""Headers about topics, of a broker and of a name server.

Source: Java ``CreateTopicRequestHeader`` and others, named at each class.
"""

from __future__ import annotations

from .request_header import RequestHeader, boolean, integer, request_header, text


@request_header
class TopicHeader(RequestHeader):
    """A topic by its name (105, 202, 215, 217, 300, 351).

    Java: ``GetRouteInfoRequestHeader``, ``GetTopicStatsInfoRequestHeader``,
    ``DeleteTopicRequestHeader``, ``RegisterTopicRequestHeader``,
    ``QueryTopicConsumeByWhoRequestHeader``, ``GetTopicConfigRequestHeader``.
    """

    topic: str = text("topic")


@request_header
class CreateTopicHeader(RequestHeader):
    """A topic that is made or changed (17). Java: ``CreateTopicRequestHeader``."""

    topic: str = text("topic")
    read_queue_nums: int = integer("readQueueNums")
    write_queue_nums: int = integer("writeQueueNums")
    perm: int = integer("perm", default=6)
    """4: to read, 2: to write."""
    topic_filter_type: str = text("topicFilterType", default="SINGLE_TAG")
    topic_sys_flag: int = integer("topicSysFlag", default=0)
    order: bool = boolean("order", default=False)
    attributes: str = text("attributes", default="")
    """Changes: ``+name=value`` and ``-name``, with commas between."""


@request_header
class AllTopicsHeader(RequestHeader):
    """All topics, or a page of them (21). Java: ``GetAllTopicConfigRequestHeader``, from 5.4 on."""

    topic_seq: int | None = integer("topicSeq", default=None)
    """Number of the first topic, from 0."""
    max_topic_num: int | None = integer("maxTopicNum", default=None)
    """Topics of the page, at most."""
    data_version: str | None = text("dataVersion", default=None)
    """That of the pages before, as JSON."""


@request_header
class ForgetTopicHeader(RequestHeader):
    """A topic that a name server forgets (216). Java: ``DeleteTopicFromNamesrvRequestHeader``."""

    topic: str = text("topic")
    cluster_name: str = text("clusterName", default="")
    """Empty: on the brokers of all clusters."""


@request_header
class ClusterTopicsHeader(RequestHeader):
    """A cluster whose topics are listed (224). Java: ``GetTopicsByClusterRequestHeader``."""

    cluster: str = text("cluster")
