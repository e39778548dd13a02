"""Pulls of clients that know zlib alone."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import lz4.frame
import pytest
import trio
import zstandard
from trio.testing import MockClock

from broker_rig import RecordingSession, Rig, commands_in, pull_ext, split_records
from timermq.broker.consuming import zlib_bodies
from timermq.broker.consuming.zlib_bodies import UNPACKED_SIZE_MAX
from timermq.broker.speaker import UNLIMITED
from timermq.remoting import Command, LanguageCode
from timermq.remoting.stored_message import decode_messages, unpack_body
from timermq.timerstore.body_codec import PIECE_SIZE, decompress_body
from timermq.timerstore.record import Record, decode_record
from timermq.timerstore.record_check import CheckKind, check_record

BODY = b"hello " * 1000


def send(rig: Rig, body: bytes, sys_flag: int) -> None:
    """A message that its producer has packed."""
    answer = rig.send("T", body, sysFlag=str(sys_flag))
    assert 0 == answer.code, answer.remark


def pull(rig: Rig, language: LanguageCode, offset: int = 0) -> Command:
    """The answer to a pull by a client of some language."""
    ext = pull_ext("T", queueOffset=str(offset))
    return rig.call(11, ext, peer=RecordingSession(language=language))


def records(answer: Command) -> list[Record]:
    """The records of an answer, each as whole as one in the log."""
    pieces = split_records(answer.body)
    for one in pieces:
        at = decode_record(one).phy_offset
        assert CheckKind.RECORD is check_record(one, 0, len(one), at, check_crc=True).kind
    return [decode_record(one) for one in pieces]


@pytest.mark.parametrize("language", [LanguageCode.CPP, LanguageCode.GO])
@pytest.mark.parametrize(
    ("sys_flag", "pack"), [(0x101, lz4.frame.compress), (0x201, zstandard.compress)]
)
async def test_other_algorithms_are_unpacked(
    language: LanguageCode, sys_flag: int, pack: Callable[[bytes], bytes]
) -> None:
    """A C++ consumer would end its process on LZ4; nothing but the body and its flags changes."""
    rig = Rig()
    send(rig, b"before", 0)
    send(rig, pack(BODY), sys_flag)
    send(rig, zlib.compress(BODY), 0x301)
    found = records(pull(rig, language))
    kept = records(pull(rig, LanguageCode.JAVA))

    assert [0, 0, 0x301] == [one.sys_flag for one in found]
    assert [b"before", BODY, BODY] == [decompress_body(one) for one in found]
    assert BODY == found[1].body
    assert [0, sys_flag, 0x301] == [one.sys_flag for one in kept]
    assert [(one.phy_offset, one.queue_offset, one.properties) for one in kept] == [
        (one.phy_offset, one.queue_offset, one.properties) for one in found
    ]


@pytest.mark.parametrize("sys_flag", [0x101, 0x201, 0x401])
async def test_a_body_that_does_not_unpack_is_handed_out_as_it_is(sys_flag: int) -> None:
    """Without its flag, so that no client tries to unpack it."""
    rig = Rig()
    send(rig, b"nonsense", sys_flag)
    (found,) = records(pull(rig, LanguageCode.CPP))

    assert (0, b"nonsense") == (found.sys_flag, found.body)


async def test_an_answer_that_has_cost_enough_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client goes on with the next message; none is left out."""
    monkeypatch.setattr(zlib_bodies, "ANSWER_SIZE_MAX", len(BODY) + 1)
    rig = Rig()
    for _ in range(3):
        send(rig, lz4.frame.compress(BODY), 0x101)
    first = pull(rig, LanguageCode.CPP)
    last = pull(rig, LanguageCode.CPP, int(first.ext["nextBeginOffset"]))

    assert ("2", "3") == (first.ext["nextBeginOffset"], last.ext["nextBeginOffset"])
    assert [[0, 1], [2]] == [[one.queue_offset for one in records(one)] for one in (first, last)]


async def test_our_consumer_gets_what_was_sent() -> None:
    """It knows all algorithms, so nothing is unpacked for it."""
    rig = Rig()
    send(rig, zstandard.compress(BODY), 0x201)
    (message,) = decode_messages(pull(rig, LanguageCode.OTHER).body)

    assert BODY == unpack_body(message.body, message.sys_flag)


@pytest.mark.parametrize("sys_flag", [0x001, 0x301])
@pytest.mark.parametrize("body", [b"nonsense", zlib.compress(BODY)[:-4], zlib.compress(BODY)[2:]])
async def test_a_damaged_zlib_body_ends_no_cpp_consumer(sys_flag: int, body: bytes) -> None:
    """It loses its flag; the messages around it are what they were, those behind it come next."""
    rig = Rig()
    send(rig, zlib.compress(BODY), sys_flag)
    send(rig, body, sys_flag)
    send(rig, b"behind", 0)
    first = pull(rig, LanguageCode.CPP)
    last = pull(rig, LanguageCode.CPP, int(first.ext["nextBeginOffset"]))
    found = records(first) + records(last)
    kept = records(pull(rig, LanguageCode.GO))

    assert [sys_flag, sys_flag & ~0x301, 0] == [one.sys_flag for one in found]
    assert [zlib.compress(BODY), body, b"behind"] == [one.body for one in found]
    assert [sys_flag, sys_flag, 0] == [one.sys_flag for one in kept]
    assert [one.body for one in found] == [one.body for one in kept]


async def test_others_go_on_while_a_large_body_is_unpacked() -> None:
    """Eight megabytes take sixteen steps; the last one has the answer."""
    rig = Rig()
    send(rig, zlib.compress(bytes(UNPACKED_SIZE_MAX)), 0x301)
    peer = RecordingSession(language=LanguageCode.CPP)
    command = rig.command(11, pull_ext("T"))
    steps = rig.broker.dispatcher.steps(peer.session, UNLIMITED, command)
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer = end.value
            break
        count += 1

    assert count == UNPACKED_SIZE_MAX // PIECE_SIZE - 1
    assert [0x301] == [one.sys_flag for one in records(answer)]


async def test_pieces_without_content_end_a_step_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Zstandard frame of empty blocks unpacks to nothing, block by block."""
    empty_block, last_block = b"\0\0\0", b"\1\0\0"
    frame = zstandard.compress(b"")[:6] + empty_block * 20_000 + last_block
    monkeypatch.setattr(zlib_bodies, "STEP_COUNT", 100)
    rig = Rig()
    send(rig, frame, 0x201)
    peer = RecordingSession(language=LanguageCode.CPP)
    steps = rig.broker.dispatcher.steps(peer.session, UNLIMITED, rig.command(11, pull_ext("T")))

    assert next(steps) is None
    assert next(steps) is None


async def test_a_held_pull_is_asked_again_for_what_takes_steps(autojump_clock: MockClock) -> None:
    """Held pulls are answered many at a time; the next request has its own turn."""
    rig = Rig()
    send(rig, b"first", 0)
    peer = RecordingSession(language=LanguageCode.CPP)
    ext = pull_ext("T", sysFlag="6", queueOffset="1")
    held = rig.command(11, ext, language=LanguageCode.CPP)
    assert rig.handle(held, peer=peer) == []
    send(rig, zlib.compress(bytes(UNPACKED_SIZE_MAX)), 0x301)
    with trio.move_on_after(1):
        await rig.broker.tables.long_polling.run(rig.broker.processors.pull.run_again)
    (again,) = commands_in(peer.sent)
    found = pull(rig, LanguageCode.CPP, int(again.ext["nextBeginOffset"]))

    assert (20, "1") == (again.code, again.ext["nextBeginOffset"])
    assert (0, [1]) == (found.code, [one.queue_offset for one in records(found)])
