"""RocketMQ's names of settings: ours are those in snake case, some with their unit at the end.

Source: Java ``BrokerConfig``, ``MessageStoreConfig``, ``NettyServerConfig``.
"""

from __future__ import annotations

import re

_UNDERSCORE = re.compile(r"_([a-z0-9])")

JAVA_NAMES = {
    "advertised_host": "brokerIP1",
    "channel_expired_timeout_ms": "channelExpiredTimeout",
    "check_crc_on_recover": "checkCRCOnRecover",
    "clean_resource_interval_ms": "cleanResourceInterval",
    "file_reserved_time_hours": "fileReservedTime",
    "flush_consumer_offset_interval_ms": "flushConsumerOffsetInterval",
    "flush_interval_commit_log_ms": "flushIntervalCommitLog",
    "flush_interval_consume_queue_ms": "flushIntervalConsumeQueue",
    "listen_host": "bindAddress",
    "metrics_listen_host": "metricsPromExporterHost",
    "metrics_listen_port": "metricsPromExporterPort",
    "sync_flush_timeout_ms": "syncFlushTimeout",
    "transaction_check_interval_ms": "transactionCheckInterval",
    "transaction_time_out_ms": "transactionTimeOut",
}
"""Our names that do not lead to RocketMQ's by rule."""


def java_name(key: str) -> str:
    """``mapped_file_size_commit_log`` as ``mappedFileSizeCommitLog``."""
    return JAVA_NAMES.get(key) or _UNDERSCORE.sub(lambda found: found[1].upper(), key)
