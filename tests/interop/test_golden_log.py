"""The commit log of RocketMQ's own stores: records and blanks are as the manifests say."""

from __future__ import annotations

import hashlib

import pytest

from golden_stores import LogRecord
from interop.golden_opened import Opened
from timermq.timerstore.body_codec import decompress_body
from timermq.timerstore.message import Message, SysFlag, format_host
from timermq.timerstore.record import blank_record, decode_record, encode_record

pytestmark = pytest.mark.slow


def log_records(opened: Opened) -> list[tuple[int, bytes]]:
    """Position and bytes of every record."""
    log = opened.store.commit_log
    return [
        (phy_offset, log.read(phy_offset, size))
        for phy_offset, size in log.scan(log.min_offset, check_crc=True)
    ]


def test_log_ends_where_java_says(opened: Opened) -> None:
    """Positions of the log, and whether the broker was stopped or killed."""
    state = opened.golden.manifest.state
    log = opened.store.commit_log

    assert (state.min_phy_offset, state.max_phy_offset) == (log.min_offset, log.max_offset)
    assert opened.golden.manifest.clean_shutdown == opened.store.recovery.last_exit_ok
    assert opened.store.recovery.notes == ()


def test_records(opened: Opened) -> None:
    """Every record has the bytes and decodes to the fields that Java read."""
    expected = [one for one in opened.golden.manifest.state.records if not one.blank]

    assert expected == [java_record(data) for _, data in log_records(opened)]


def java_record(data: bytes) -> LogRecord:
    """A record in the manifest's words."""
    record = decode_record(data)
    body = decompress_body(record)
    return LogRecord(
        phy_offset=record.phy_offset,
        size=record.size,
        sha256=hashlib.sha256(data).hexdigest(),
        magic=record.magic,
        body_crc=record.body_crc,
        topic=record.topic,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        flag=record.flag,
        # Java takes the flag away when it decompresses.
        sys_flag=record.sys_flag & ~SysFlag.COMPRESSED,
        born_ms=record.born_ms,
        born_host=format_host(record.born_host),
        store_ms=record.store_ms,
        store_host=format_host(record.store_host),
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
        stored_body_size=len(record.body),
        body_size=len(body),
        body_sha256=hashlib.sha256(body).hexdigest(),
        uniq_key=record.unique_id,
        offset_msg_id=record.offset_message_id,
        properties_text=record.properties.decode(),
        properties=record.properties_dict(),
    )


def test_records_are_written_alike(opened: Opened) -> None:
    """A record encoded from its decoded fields is the record."""
    for phy_offset, data in log_records(opened):
        record = decode_record(data)
        again = encode_record(
            Message(
                topic=record.topic,
                queue_id=record.queue_id,
                body=record.body,
                properties=record.properties,
                flag=record.flag,
                sys_flag=record.sys_flag,
                born_ms=record.born_ms,
                born_host=record.born_host,
                reconsume_times=record.reconsume_times,
                prepared_offset=record.prepared_transaction_offset,
            ),
            queue_offset=record.queue_offset,
            phy_offset=phy_offset,
            store_ms=record.store_ms,
            store_host=record.store_host,
        )

        assert data == again


def test_blanks(opened: Opened) -> None:
    """The tail of a full segment holds a blank that says how long it is."""
    log = opened.store.commit_log
    for blank in opened.golden.manifest.state.records:
        if blank.blank:
            found = log.read(blank.phy_offset, 8)

            assert blank_record(blank.size) == found
            assert log.segment_size == blank.phy_offset % log.segment_size + blank.size
