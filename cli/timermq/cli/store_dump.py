"""Print every record of the commit log, in its order."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator

from timermq.timerstore.body_codec import decompress_body
from timermq.timerstore.message import format_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.record import Record, decode_record
from timermq.timerstore.record_spans import RecordError

from .arguments import OneLineParser, add_json
from .offline_store import add_store_arguments, open_offline
from .output import Row, print_json, print_table

COLUMNS = ("phy_offset", "size", "topic", "queue_id", "store_ms", "unique_id", "body_size")
"""What people see, as wide as a terminal; `--json` has everything."""


def prepare_parser(parser: OneLineParser) -> None:
    """The directory and how to print."""
    add_store_arguments(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print one row a record; 1 if the log does not end where its last record ends."""
    with open_offline(args, args.directory) as offline:
        log = offline.store.commit_log
        dump = LogDump(offline.store)
        if args.json:
            print_json(dump)
        else:
            print_table(dump, COLUMNS)
        if dump.end == log.max_offset:
            return 0
        sys.stdout.flush()
        print(
            f"timermq: commit log: expected records up to {log.max_offset}, "
            f"found at {dump.end}: {dump.reason}",
            file=sys.stderr,
        )
        return 1


class LogDump:
    """The rows of a store's log; afterwards `end` and `reason` say where they stopped and why."""

    def __init__(self, store: MessageStore) -> None:
        self._log = store.commit_log
        self._scan = self._log.scan(self._log.min_offset, check_crc=False)

    @property
    def end(self) -> int:
        """End of the last record."""
        return self._scan.end

    @property
    def reason(self) -> str:
        """What stands there instead of a record."""
        return self._scan.reason

    def __iter__(self) -> Iterator[Row]:
        for phy_offset, size in self._scan:
            yield record_row(decode_record(self._log.read(phy_offset, size)))


def record_row(record: Record) -> Row:
    """One record by the names of its fields; a body that does not unpack has no digest."""
    try:
        body: bytes | None = decompress_body(record)
    except RecordError:
        body = None
    return {
        "phy_offset": record.phy_offset,
        "size": record.size,
        "magic": record.magic,
        "body_crc": record.body_crc,
        "topic": record.topic,
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "born_ms": record.born_ms,
        "born_host": format_host(record.born_host),
        "store_ms": record.store_ms,
        "store_host": format_host(record.store_host),
        "reconsume_times": record.reconsume_times,
        "prepared_transaction_offset": record.prepared_transaction_offset,
        "unique_id": record.unique_id,
        "keys": record.keys,
        "tags": record.tags,
        "properties": record.properties_dict(),
        "body_size": len(record.body if body is None else body),
        "body_sha256": None if body is None else hashlib.sha256(body).hexdigest(),
    }
