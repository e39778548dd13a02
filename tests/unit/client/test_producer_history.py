"""What a producer writes into its history, also when things go wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import trio
import trio.testing

from scripted_server import BROKER, Handler, Network, always, name_server, route, silent
from timermq.client import (
    BrokerRefusedError,
    CancelReceipt,
    HistoryWriter,
    NoAnswerError,
    OutgoingMessage,
    Producer,
    RequestTimeoutError,
    Verdict,
)
from timermq.client.history import (
    Ack,
    Cancel,
    End,
    Event,
    Refused,
    Reschedule,
    Send,
    Start,
    Unknown,
    read_history,
)
from timermq.client.history import Verdict as Answered
from timermq.pipeline.admission.recall_handle import encode_handle
from timermq.remoting import Command
from timermq.remoting.send_batch import SendItemResult, decode_items, encode_results

HANDLE = encode_handle("T", "broker-a", 6_000, "0123456789ABCDEF0123456789ABCDEF")


async def take(command: Command) -> Command:
    """Stores each message, but not those that are bad."""
    await trio.lowlevel.checkpoint()
    codes = {b"bad": 13, b"late": 12, b"alone": 11}
    results = [
        SendItemResult(
            code=codes.get(item.body, 0),
            remark="BODY_SIZE: too large" if item.body == b"bad" else None,
            msg_id="",
            queue_id=item.queue_id,
            queue_offset=7,
            deliver_ms=90,
            recall_handle=None,
        )
        for item in decode_items(command.body)
    ]
    return command.answer(0, body=encode_results(results))


def verdict(name: str, **more: str) -> Handler:
    """A broker that gives this verdict to a cancel or a move."""

    async def answer(command: Command) -> Command:
        await trio.lowlevel.checkpoint()
        return command.answer(0, ext={"verdict": name, "uniqueKey": "M", **more})

    return answer


class Recorded:
    """A producer against one scripted broker, and what it wrote."""

    def __init__(self, nursery: trio.Nursery, path: Path, handlers: dict[int, Handler]) -> None:
        self._path = path
        self.network = Network(nursery)
        name_server(self.network, {"T": route()})
        self.network.server(BROKER, handlers)
        self.history = HistoryWriter(path, who="p", clock_ms=lambda: 1)
        self.producer = Producer(
            "ns:9876",
            open_stream=self.network.open_stream,
            clock_ms=lambda: 1,
            request_timeout=5,
            history=self.history,
        )

    @property
    def events(self) -> list[Event]:
        """What was written between start and end."""
        self.history.close()
        start, *events, end = (event for _, event in read_history(self._path))

        assert (Start, End) == (type(start), type(end))
        return events


RecordedBy = Callable[[dict[int, Handler]], Recorded]


@pytest.fixture
def recorded(nursery: trio.Nursery, tmp_path: Path) -> RecordedBy:
    """Makes a producer with a history, against these handlers."""
    return lambda handlers: Recorded(nursery, tmp_path / "h", handlers)


async def test_a_batch(recorded: RecordedBy) -> None:
    """Messages of one frame have one number; each has its own outcome."""
    one = recorded({9001: take})
    async with one.producer as producer:
        with pytest.raises(BrokerRefusedError):
            await producer.send_batch(
                [
                    OutgoingMessage(topic="T", body=b"good", at=90, keys=("k",)),
                    OutgoingMessage(topic="T", body=b"bad", delay=timedelta(seconds=1)),
                ]
            )
    first, second, ack, refused = one.events
    assert isinstance(first, Send)
    assert isinstance(second, Send)

    assert ("T", 0, 90, None, ("k",)) == (
        first.topic,
        first.queue,
        first.deliver_ms,
        first.delay_ms,
        first.keys,
    )
    assert (None, 1000, first.op) == (second.deliver_ms, second.delay_ms, second.op)
    name = first.message_id
    assert Ack(at_ms=1, who="p", message_id=name, queue=0, offset=7, deliver_ms=90) == ack
    name = second.message_id
    assert Refused(at_ms=1, who="p", message_id=name, code=13, rule="BODY_SIZE") == refused


async def test_what_is_stored_and_not_yet_durable(recorded: RecordedBy) -> None:
    """It is lost with the machine of the master: no acknowledgement."""
    one = recorded({9001: take})
    sent = [OutgoingMessage(topic="T", body=body) for body in (b"late", b"alone", b"good")]
    async with one.producer as producer:
        receipts = await producer.send_batch(sent)
    *_, late, alone, good = one.events

    assert [False, False, True] == [receipt.is_durable for receipt in receipts]
    assert [Unknown, Unknown, Ack] == [type(event) for event in (late, alone, good)]


async def test_no_answer(autojump_clock: trio.testing.MockClock, recorded: RecordedBy) -> None:
    """Without an answer the outcome is open."""
    one = recorded({9001: silent})
    async with one.producer as producer:
        with pytest.raises(RequestTimeoutError):
            await producer.send("T", b"x")
    send, outcome = one.events

    assert isinstance(send, Send)
    assert isinstance(outcome, Unknown)
    assert (send.message_id, True) == (outcome.message_id, "no answer" in outcome.reason)


async def test_a_cancelled_send(
    autojump_clock: trio.testing.MockClock, recorded: RecordedBy
) -> None:
    """A send that its caller gave up is open as well."""
    one = recorded({9001: silent})
    async with one.producer as producer:
        with trio.move_on_after(1):
            await producer.send("T", b"x")

    assert [Send, Unknown] == [type(event) for event in one.events]


async def test_what_never_left(
    autojump_clock: trio.testing.MockClock, recorded: RecordedBy
) -> None:
    """A message that could not leave is not stored, for certain."""
    one = recorded({9001: take})
    one.network.servers[BROKER].refuses = True
    async with one.producer as producer:
        with pytest.raises(NoAnswerError):
            await producer.send("T", b"x")
    send, refused = one.events

    assert isinstance(send, Send)
    assert Refused(at_ms=1, who="p", message_id=send.message_id, rule="NOT_SENT") == refused


async def test_a_cancel_by_handle(recorded: RecordedBy) -> None:
    """The handle says which message is meant."""
    one = recorded({370: always(17, remark="RECALL_TOO_LATE: gone")})
    async with one.producer as producer:
        assert Verdict.TOO_LATE is await producer.cancel("T", HANDLE)

    assert [
        Cancel(at_ms=1, who="p", op=1, topic="T", message_id="0123456789ABCDEF0123456789ABCDEF"),
        Answered(at_ms=1, who="p", op=1, verdict="too_late"),
    ] == one.events


async def test_a_cancel_by_key(recorded: RecordedBy) -> None:
    """The answer names the message."""
    one = recorded({9005: verdict("cancelled")})
    async with one.producer as producer:
        await producer.cancel("T", key="k")

    assert [
        Cancel(at_ms=1, who="p", op=1, topic="T", key="k"),
        Answered(at_ms=1, who="p", op=1, verdict="cancelled", message_id="M"),
    ] == one.events


async def test_a_move(recorded: RecordedBy) -> None:
    """The new moment is that of the answer."""
    one = recorded({9005: verdict("moved", deliverMs="95")})
    async with one.producer as producer:
        receipt = await producer.reschedule("T", message_id="M", at=94)

    assert CancelReceipt(verdict=Verdict.MOVED, message_id="M", deliver_ms=95) == receipt
    assert [
        Reschedule(at_ms=1, who="p", op=1, topic="T", message_id="M", deliver_ms=94),
        Answered(at_ms=1, who="p", op=1, verdict="moved", message_id="M", deliver_ms=95),
    ] == one.events


@pytest.mark.parametrize(
    ("handler", "found"),
    [
        (always(17, remark="CANCEL_KEY_NOT_UNIQUE: two"), "refused"),
        (always(12, remark="FLUSH_SLAVE_TIMEOUT: stored"), "unknown"),
        (silent, "unknown"),
    ],
)
async def test_a_cancel_without_a_verdict(
    autojump_clock: trio.testing.MockClock, recorded: RecordedBy, handler: Handler, found: str
) -> None:
    """Refused: nothing was done; no answer, or none of a follower: perhaps."""
    one = recorded({9005: handler})
    async with one.producer as producer:
        with pytest.raises((BrokerRefusedError, RequestTimeoutError)):
            await producer.cancel("T", key="k")
    _, answered = one.events

    assert isinstance(answered, Answered)
    assert found == answered.verdict
