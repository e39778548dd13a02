"""Runs of plain records: what they hold are records, and they end before what is odd."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from small_store import message, open_store, small_options
from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.timerstore.message import Message, SysFlag
from timermq.timerstore.plain_run import COUNT_MIN, PlainRun
from timermq.timerstore.record_check import CheckKind, check_record

OPTIONS = small_options(mapped_file_size_commit_log=1 << 20)


def log_of(messages: list[Message]) -> bytes:
    """The log of a store of these messages."""
    store = open_store(MemoryDisk(), options=OPTIONS)
    for one in messages:
        (result,) = store.put([one])
        assert result.status.is_stored, result.remark
    log = store.commit_log
    return log.segments[0].file.read(0, log.max_offset)


DATA = log_of(
    [
        message("b" * (number % 40), f"T{number % 3}", number % 2, b"K\x01%d\x02" % number)
        for number in range(60)
    ]
)


@settings(max_examples=300, deadline=None)
@given(at=st.integers(0, len(DATA) - 1), byte=st.integers(0, 255), moved=st.sampled_from([0, 512]))
def test_only_records_stand_in_a_run(at: int, byte: int, moved: int) -> None:
    """With any byte changed: what is in the run passes the check of single records."""
    data = DATA[:at] + bytes([byte]) + DATA[at + 1 :]
    run = PlainRun.of(data, 0, moved, len(data))
    assert run is None or not moved
    if run is not None:
        for row, (start, end) in enumerate(zip(run.block.starts, run.block.ends, strict=True)):
            found = check_record(data, int(start), len(data), int(start), check_crc=False)
            assert (found.kind, found.size) == (CheckKind.RECORD, end - start)
            assert run.record(row) == data[start:end]


def test_a_run_ends_before_what_is_odd() -> None:
    """A half message, an address of IPv6, a limit, a count; and too few are no run."""
    plain = [message(f"{number}") for number in range(2 * COUNT_MIN)]
    for odd in (
        message(sys_flag=SysFlag.TRANSACTION_PREPARED),
        message(sys_flag=SysFlag.BORN_HOST_V6, born_host=bytes(20)),
        message(topic="%RETRY%" + "x" * 200),
    ):
        data = log_of([*plain[:COUNT_MIN], odd, *plain])
        run = PlainRun.of(data, 0, 0, len(data))
        assert run is not None
        assert len(run) == COUNT_MIN
        behind = int(run.block.ends[-1])
        assert PlainRun.of(data, behind, behind, len(data)) is None
        assert PlainRun.of(data, 0, 0, run.size - 1) is None
    run = PlainRun.of(DATA, 0, 0, len(DATA), COUNT_MIN + 1)
    assert run is not None
    assert len(run) == COUNT_MIN + 1
    assert run.first(COUNT_MIN - 1) is None
