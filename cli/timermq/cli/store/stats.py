"""Say how much there is in a store: log, queues, index and timers, one row each."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from timermq.pipeline.offline_store import OfflineStore
from timermq.timerstore.log_reading import LogReading
from timermq.timerstore.log_record import store_ms_of

from ..arguments import OneLineParser, add_json
from ..offline_store import open_offline
from ..output import Row, print_json, print_table
from ..store_flags import add_store_arguments

FIELDS = ("min", "max", "count", "segments", "segment_size", "first_ms", "last_ms")
COLUMNS = ("part", "name", "min", "max", "count", "first_ms", "last_ms")
"""The columns for people; `--json` has everything."""


def prepare_parser(parser: OneLineParser) -> None:
    """The directory and how to print."""
    add_store_arguments(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print one row a part."""
    with open_offline(args, args.directory) as offline:
        rows = part_rows(offline)
        if args.json:
            print_json(rows)
        else:
            print_table(rows, COLUMNS)
    return 0


def part_rows(offline: OfflineStore) -> Iterator[Row]:
    """One row a part of the store, all with the same keys.

    ``min`` and ``max`` are positions in a log and offsets in a queue, the upper one exclusive, and
    of an index file the positions of its first and last message; ``count`` is messages (of an
    index: keys); ``first_ms`` and ``last_ms`` are store times, for the timers the moments that
    messages ask for.
    """
    store = offline.store
    yield _log_row(offline)
    for queue in sorted(store.queues(), key=lambda one: (one.topic, one.queue_id)):
        yield _row(
            "queue",
            f"{queue.topic}/{queue.queue_id}",
            min=queue.min_offset,
            max=queue.max_offset,
            count=queue.max_offset - queue.min_offset,
            first_ms=_known(store.store_ms_at(queue.topic, queue.queue_id, queue.min_offset)),
            last_ms=_known(store.store_ms_at(queue.topic, queue.queue_id, queue.max_offset - 1)),
        )
    for index in offline.index_files():
        yield _row(
            "index",
            index.name,
            min=index.header.begin_phy_offset,
            max=index.header.end_phy_offset,
            count=index.header.index_count - 1,
            first_ms=index.header.begin_timestamp or None,
            last_ms=index.header.end_timestamp or None,
        )
    set_aside = [entry.set_aside_ms for entry, _ in offline.quarantine().entries()]
    yield _row(
        "quarantine",
        "messages",
        count=len(set_aside),
        first_ms=min(set_aside, default=None),
        last_ms=max(set_aside, default=None),
    )
    log = offline.timer_files.timer_log.statistics()
    yield _row(
        "timer log",
        "timerlog",
        min=log.min_pos,
        max=log.max_pos,
        segments=log.segment_count,
        segment_size=log.segment_size,
    )
    yield _timer_row(offline)


def _timer_row(offline: OfflineStore) -> Row:
    """The row of pending messages; one that rolls stands in an earlier slot than it asks for."""
    count, first_ms, last_ms = 0, None, None
    for timer in offline.pending():
        moment = timer.deliver_ms
        first_ms = moment if first_ms is None else min(first_ms, moment)
        last_ms = moment if last_ms is None else max(last_ms, moment)
        count += 1
    return _row("timers", "pending", count=count, first_ms=first_ms, last_ms=last_ms)


def _log_row(offline: OfflineStore) -> Row:
    store = offline.store
    log = store.commit_log
    record = None
    count = 0
    for _, found in LogReading(log, log.min_offset, purpose="the number of records"):
        record = found if record is None else record
        count += 1
    return _row(
        "commit log",
        "commitlog",
        min=log.min_offset,
        max=log.max_offset,
        count=count,
        segments=len(log.segments),
        segment_size=log.segment_size,
        first_ms=None if record is None else store_ms_of(record),
        last_ms=store.last_store_ms or None,
    )


def _row(part: str, name: str, **values: int | None) -> Row:
    return {"part": part, "name": name, **{key: values.get(key) for key in FIELDS}}


def _known(store_ms: int) -> int | None:
    return None if store_ms < 0 else store_ms
