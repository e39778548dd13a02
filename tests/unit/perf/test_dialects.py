"""What the bench says to its peers, and what it hears: bytes in, values out."""

from __future__ import annotations

import socket
from itertools import islice

import beanstalkd
import pytest
import redis_timer
import resp

from timermq.bench.dialect import Dialect, Workload
from timermq.bench.remoting import Remoting


def workload(dialect: Dialect, *, deliver_ms: int = 0, delay_ms: int = 0) -> Workload:
    """Three messages of 64 bytes to the topic T."""
    return Workload(
        dialect=dialect,
        address=("127.0.0.1", 1),
        topic="T",
        count=3,
        body_size=64,
        deliver_ms=deliver_ms,
        delay_ms=delay_ms,
    )


def answering(data: bytes) -> socket.socket:
    """The near end of a connection on which ``data`` comes, and then the end."""
    near, far = socket.socketpair()
    with far:
        far.sendall(data)
    return near


def test_a_resp_command_is_an_array_of_strings() -> None:
    """Numbers travel as their digits."""
    assert resp.command(b"ZADD", b"k", 12, b"m\r\n") == (
        b"*4\r\n$4\r\nZADD\r\n$1\r\nk\r\n$2\r\n12\r\n$3\r\nm\r\n\r\n"
    )


RESP_VALUES: list[tuple[bytes, resp.Value]] = [
    (b"+OK\r\n", b"OK"),
    (b":-7\r\n", -7),
    (b"$3\r\na\r\n\r\n", b"a\r\n"),
    (b"$0\r\n\r\n", b""),
    (b"$-1\r\n", None),
    (b"*-1\r\n", None),
    (b"*0\r\n", []),
    (b"*2\r\n$1\r\nk\r\n*2\r\n:1\r\n$1\r\nb\r\n", [b"k", [1, b"b"]]),
]


@pytest.mark.parametrize(("data", "value"), RESP_VALUES)
def test_a_resp_value_is_split_off(data: bytes, value: resp.Value) -> None:
    """With what follows left alone, and from any place."""
    assert resp.split_value(b"x" + data + b"+next\r\n", 1) == (value, 1 + len(data))


@pytest.mark.parametrize("data", [data for data, _ in RESP_VALUES])
def test_an_unfinished_resp_value_is_none_yet(data: bytes) -> None:
    """Wherever a value is cut, it is not there yet."""
    assert [None] * len(data) == [resp.split_value(data[:size]) for size in range(len(data))]


def test_resp_errors_are_raised() -> None:
    """The server's in the server's words; what is no value at all as such."""
    with pytest.raises(resp.RespError, match="ERR no such key"):
        resp.split_value(b"-ERR no such key\r\n")
    with pytest.raises(ValueError, match="found b'H'"):
        resp.split_value(b"HTTP/1.1\r\n")


def test_redis_messages_are_distinct_members_with_their_due_time() -> None:
    """A sorted set holds each member once, so two bodies may not be equal."""
    load = workload(redis_timer.SortedSet(), deliver_ms=1_700_000_000_123)
    requests = list(load.dialect.puts(load, body_start=b"due "))
    values = [resp.split_value(request) for request in requests]
    words = [value[0] for value in values if value is not None]
    members = {word[3] for word in words if isinstance(word, list) and isinstance(word[3], bytes)}

    assert len(members) == 3
    assert {64} == {len(member) for member in members}
    assert all(member.startswith(b"due ") for member in members)
    assert all(
        word[:3] == [b"ZADD", b"T:timers", b"1700000000123"]
        for word in words
        if isinstance(word, list)
    )


def test_redis_answers_are_counted() -> None:
    """A member that was there before would be a lost message."""
    dialect = redis_timer.SortedSet()
    with answering(b"1\r\n:1\r\n+") as link:
        assert dialect.read_answers(link, b":", 2) == b"+"
    with answering(b":0\r\n") as link, pytest.raises(RuntimeError, match="expected :1"):
        dialect.read_answers(link, b"", 1)


def test_a_beanstalkd_job_is_put_with_whole_seconds() -> None:
    """The milliseconds of a delay are cut off."""
    load = workload(beanstalkd.Beanstalk(), delay_ms=2_999)

    assert next(load.dialect.puts(load, body_start=b"due ")) == (
        b"put 0 2 3600 64\r\ndue " + b"x" * 60 + b"\r\n"
    )


def test_a_moment_that_has_passed_is_no_delay() -> None:
    """Delays are all that beanstalkd knows."""
    load = workload(beanstalkd.Beanstalk(), deliver_ms=1)

    assert next(load.dialect.puts(load)).startswith(b"put 0 0 3600 64\r\n")


def test_only_the_first_reserve_waits() -> None:
    """The others find a job or not."""
    assert beanstalkd.reserve_requests(3, 60.0) == (
        b"reserve-with-timeout 60\r\nreserve-with-timeout 0\r\nreserve-with-timeout 0\r\n"
    )


@pytest.mark.parametrize(
    ("data", "line", "body"),
    [
        (b"INSERTED 5\r\n", b"INSERTED 5", b""),
        (b"TIMED_OUT\r\n", b"TIMED_OUT", b""),
        (b"RESERVED 5 4\r\n\r\nab\r\n", b"RESERVED 5 4", b"\r\nab"),
    ],
)
def test_a_beanstalkd_answer_is_split_off(data: bytes, line: bytes, body: bytes) -> None:
    """A reserved job comes with its body; before it is whole there is no answer."""
    assert beanstalkd.split_answer(b"x" + data + b"TIMED", 1) == (line, body, 1 + len(data))
    assert [None] * len(data) == [
        beanstalkd.split_answer(data[:size], 0) for size in range(len(data))
    ]


def test_beanstalkd_answers_are_counted() -> None:
    """Out of memory and draining are no answers to go on with; neither is the end."""
    dialect = beanstalkd.Beanstalk()
    with answering(b"ED 1\r\nINSERTED 2\r\nUSING") as link:
        assert dialect.read_answers(link, b"INSERT", 2) == b"USING"
    with answering(b"OUT_OF_MEMORY\r\n") as link, pytest.raises(RuntimeError, match="OUT_OF"):
        dialect.read_answers(link, b"", 1)
    with answering(b"INSERTED") as link, pytest.raises(RuntimeError, match="closed"):
        dialect.read_answers(link, b"", 1)


@pytest.mark.parametrize(
    "dialect", [Remoting(), beanstalkd.Beanstalk(), redis_timer.SortedSet()], ids=repr
)
def test_every_dialect_sends_as_many_as_asked(dialect: Dialect) -> None:
    """The bodies have the same size for all."""
    load = workload(dialect, delay_ms=1_000)

    assert len(list(islice(dialect.puts(load), 9))) == 3
    assert dialect.delay_step_ms in (1, 1_000)
