"""Records as columns are the records; what is none ends them, and says where and why."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from small_store import HOST, message, small_options
from timermq.pipeline.spark import record_chunks
from timermq.pipeline.spark.errors import SparkJobError
from timermq.pipeline.spark.file_part import FilePart
from timermq.pipeline.spark.record_chunks import Damage, RecordChunk, chunks
from timermq.pipeline.spark.tables.commit_log_table import CommitLogReader
from timermq.timerstore.message import Message, format_host
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.record import BLANK_SIZE, blank_record, decode_record
from timermq.timerstore.record_check import CheckKind, check_record
from timermq.timerstore.record_layout import FIXED_SIZE_V1
from unit.pipeline.spark.drawn_records import V4, V6, log_of, messages
from unit.pipeline.spark.store_directories import rows_of

START = 8192


class _Bytes(FilePart):
    """A part of a file that is in memory."""

    data: bytes

    def __init__(self, data: bytes, high: int) -> None:
        super().__init__("memory", START, START, high)
        object.__setattr__(self, "data", data)

    def read(self, low: int, high: int) -> bytes:
        return self.data[low - START : high - START]


def read(data: bytes, end: int | None = None) -> tuple[list[bytes], list[Damage]]:
    """The records of a segment, and the damage at its end."""
    part = _Bytes(data, START + len(data) if end is None else end)
    records, damage = list[bytes](), list[Damage]()
    for found in chunks(part, START + len(data)):
        if isinstance(found, RecordChunk):
            records += [found.record(row) for row in range(len(found))]
        else:
            damage.append(found)
    return records, damage


def by_walking(data: bytes) -> tuple[list[bytes], int | None]:
    """What recovery makes of a segment: records, and where it stops at something bad."""
    at, records = 0, list[bytes]()
    while at < len(data):
        found = check_record(data, at, len(data), START + at, check_crc=False)
        if found.kind is CheckKind.BLANK:
            return records, None
        if found.kind is CheckKind.BAD:
            return records, START + at
        records.append(data[at : at + found.size])
        at += found.size
    return records, None


@given(
    drawn=st.lists(messages(), min_size=1, max_size=6),
    hosts=st.sampled_from(((V4,), (V6,), (V4, V6))),
    blank_size=st.sampled_from((0, BLANK_SIZE, 50, FIXED_SIZE_V1, 300)),
)
def test_fields(drawn: list[Message], hosts: tuple[bytes, ...], blank_size: int) -> None:
    """Every field of every kind of record, whatever closes the segment."""
    records = log_of(drawn, hosts, START)
    data = b"".join(records)
    if blank_size:
        data += blank_record(blank_size) + bytes(blank_size - BLANK_SIZE)
    assert (records, []) == read(data)

    (chunk,) = chunks(_Bytes(data, START + len(data)), START + len(data))
    assert isinstance(chunk, RecordChunk)
    expected = list(map(decode_record, records))
    assert [one.body for one in expected] == chunk.bodies.to_pylist()
    assert [one.topic.encode() for one in expected] == chunk.topics.to_pylist()
    assert [one.properties for one in expected] == chunk.properties.to_pylist()
    for host in ("born_host", "store_host"):
        assert [format_host(getattr(one, host)) for one in expected] == chunk.hosts(
            host
        ).to_pylist()
    for number in ("magic", "queue_id", "flag", "born_ms", "store_ms", "sys_flag", "body_crc"):
        assert [getattr(one, number) for one in expected] == chunk.heads[number].tolist()
    assert [one.topic == "T" for one in expected] == chunk.have_topic(b"T").tolist()


@given(
    drawn=st.lists(messages(), min_size=1, max_size=4),
    hosts=st.sampled_from(((V4,), (V6,))),
    at=st.floats(0, 1),
    octets=st.binary(min_size=1, max_size=9),
)
def test_damage(drawn: list[Message], hosts: tuple[bytes, ...], at: float, octets: bytes) -> None:
    """Where recovery would stop, the records end, with what it says."""
    data = bytearray(b"".join(log_of(drawn, hosts, START)))
    place = int(at * (len(data) - 1))
    data[place : place + len(octets)] = octets[: len(data) - place]
    records, stop = by_walking(bytes(data))
    found, damage = read(bytes(data))

    assert records == found
    assert ([] if stop is None else [stop]) == [one.phy_offset for one in damage]
    assert all(one.reason for one in damage)


@given(drawn=st.lists(messages(), min_size=2, max_size=6), size=st.integers(100, 400))
def test_small_chunks(drawn: list[Message], size: int) -> None:
    """Records that a chunk ends in are read with the next one, large ones whole."""
    records = log_of(drawn, (V4,), START)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_chunks, "CHUNK_BYTES", size)

        assert (records, []) == read(b"".join(records))


def store_with_a_hole(root: Path) -> list[str]:
    """A store of one segment whose third record has lost its head; the bodies."""
    bodies = [f"m{number}" for number in range(8)]
    store = MessageStore.open(
        OsDisk(),
        str(root),
        small_options(mapped_file_size_commit_log=4096),
        now_ms=lambda: 1_700_000_000_000,
        store_host=HOST,
    )
    places = [store.put([message(body)])[0].phy_offset for body in bodies]
    trio.run(store.aclose)
    with (root / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(places[2])
        file.write(bytes(40))
    return bodies


def test_a_damaged_log_is_refused(tmp_path: Path) -> None:
    """The error names file, position, what was expected and found, and who can help."""
    store_with_a_hole(tmp_path)

    with pytest.raises(SparkJobError, match=r"commitlog/0+: position \d+: magic: .*store repair"):
        rows_of(CommitLogReader, str(tmp_path), partitions=1)


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_damaged_log_is_told(tmp_path: Path, partitions: int) -> None:
    """Asked to report, the table has a row for the hole and all that is whole."""
    bodies = store_with_a_hole(tmp_path)
    rows = rows_of(CommitLogReader, str(tmp_path), damage="report", partitions=partitions)
    holes = [row for row in rows if row["damage"] is not None]

    assert bodies[:2] + bodies[3:] == [row["body"].decode() for row in rows if row["body"]]
    (hole,) = holes
    assert "magic: expected" in hole["damage"]
    assert rows[rows.index(hole) + 1]["phy_offset"] == hole["phy_offset"] + hole["total_size"]
