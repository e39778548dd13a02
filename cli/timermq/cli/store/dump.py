"""Print every record of the commit log, in its order."""

from __future__ import annotations

import argparse
import hashlib
import sys

from timermq.timerstore.body_codec import decompress_body
from timermq.timerstore.log_reading import LogReading
from timermq.timerstore.message import format_host
from timermq.timerstore.record import Record, decode_record
from timermq.timerstore.record_spans import RecordError

from ..arguments import OneLineParser, add_json
from ..offline_store import open_offline
from ..output import Row, print_json, print_table
from ..store_flags import add_store_arguments

COLUMNS = ("phy_offset", "size", "topic", "queue_id", "store_ms", "unique_id", "body_size")
"""The columns for people, as wide as a terminal; `--json` has everything."""


def prepare_parser(parser: OneLineParser) -> None:
    """The directory and how to print."""
    add_store_arguments(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print one row a record, also behind damage; 1 if the log has any."""
    with open_offline(args, args.directory) as offline:
        log = offline.store.commit_log
        reading = LogReading(log, log.min_offset, purpose="a dump")
        rows = (record_row(decode_record(data)) for _, data in reading)
        if args.json:
            print_json(rows)
        else:
            print_table(rows, COLUMNS)
    sys.stdout.flush()
    for hole in reading.holes:
        print(
            f"timermq: commit log: expected records from {hole.position} to {hole.end}, "
            f"found {hole.reason}: what stood there is left out",
            file=sys.stderr,
        )
    return 1 if reading.holes else 0


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
