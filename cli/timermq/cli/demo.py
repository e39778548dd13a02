"""Try it all in 15 seconds: a broker on a throw-away store, real sockets, and a check.

On a terminal the broker is shown afterwards, as `top` does, until `q`.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from statistics import median

import attrs
import trio

from timermq.broker.broker import Broker
from timermq.broker.endpoint import Endpoint
from timermq.broker.options import BrokerOptions
from timermq.client import (
    ClientError,
    Consumer,
    OutgoingMessage,
    Producer,
    ReceivedMessage,
    Verdict,
)
from timermq.pipeline.clock.clock import SystemClock, boot_time_ms
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions

from .arguments import OneLineParser, add_json
from .client_access import ClientAccess
from .log_output import LogFormat, configure_logs
from .output import Row, print_json, print_table
from .top.live import run_live
from .top.terminal import is_terminal

TOPIC = "Demo"
ROLL_WINDOW_SLOTS = 4
"""Seconds: so small that a message a few seconds ahead must roll."""
START_TIMEOUT = 15.0
"""Seconds until the first message, which makes the topic, has arrived."""
GRACE = 1.5
"""Seconds after the last moment in which something may still arrive: late, or a second time."""

SHOWN_DELAY_MS = 3_600
SHOWN_COUNT = 8
SHOWN_INTERVAL = 0.5
"""The load while the screen shows the broker: 8 messages each half second."""

BROKER = BrokerOptions(listen_port=0, namesrv_listen_port=0, default_topic_queue_nums=4)
STORE = StoreOptions(
    mapped_file_size_commit_log=16 << 20, max_hash_slot_num=1_000, max_index_num=4_000
)
TIMER = TimerOptions(timer_roll_window_slot=ROLL_WINDOW_SLOTS, mapped_file_size_timer_log=1 << 20)

COLUMNS = (
    "kind",
    "sent",
    "arrived",
    "lost",
    "early",
    "twice",
    "late_ms_min",
    "late_ms_median",
    "late_ms_max",
)


@attrs.frozen(kw_only=True)
class Sent:
    """One message that the broker has taken."""

    kind: str
    message_id: str
    deliver_ms: int | None
    """None: at once."""
    is_cancelled: bool = False


@attrs.frozen(kw_only=True)
class Outcome:
    """The counts of the messages of one kind."""

    kind: str
    sent: int
    arrived: int
    lost: int
    """Neither arrived nor cancelled."""
    early: int
    """Stored on their topic, or received, before their moment."""
    twice: int
    """Arrived more than once, or although cancelled."""
    lateness_ms: tuple[int, ...]
    """Of each arrival, by this machine's clock, ascending."""

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.early or self.twice)

    def row(self) -> Row:
        """The outcome as a line; lateness is in milliseconds."""
        late = self.lateness_ms
        return {
            **{name: getattr(self, name) for name in COLUMNS[:6]},
            "late_ms_min": late[0] if late else None,
            "late_ms_median": round(median(late)) if late else None,
            "late_ms_max": late[-1] if late else None,
        }


def prepare_parser(parser: OneLineParser) -> None:
    """How the result is printed; nothing else can be chosen."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what arrived and how late; 1 if anything was lost, early or twice."""
    is_shown = is_terminal() and not args.json
    with tempfile.TemporaryDirectory(prefix="timermq-demo-") as directory:
        result = trio.run(_demo, f"{directory}/store", args.json, is_shown)
    fault = broken_promise(result.outcomes, result.rolled)
    if fault is None:
        return 0
    sys.stdout.flush()
    print(f"timermq: demo: {fault}", file=sys.stderr)
    return 1


@attrs.frozen(kw_only=True)
class Result:
    """What became of the messages of the demo, kind by kind."""

    outcomes: tuple[Outcome, ...]
    rolled: int

    def print(self, *, as_json: bool) -> None:
        """Print one row for each kind of message, as a table or JSON."""
        rows = [outcome.row() for outcome in self.outcomes]
        if as_json:
            print_json(rows)
        else:
            count = sum(outcome.sent for outcome in self.outcomes)
            print_table(rows, COLUMNS, title=f"{count} messages, {self.rolled} rolls")


def plan(now_ms: int) -> list[tuple[str, OutgoingMessage]]:
    """The messages, each with its kind: all due within twelve seconds of ``now_ms``."""

    def message(text: str) -> OutgoingMessage:
        return OutgoingMessage(topic=TOPIC, body=text.encode(), keys=(text.replace(" ", "-"),))

    evolve = attrs.evolve
    return [
        *(("by time", evolve(message(f"time {n}"), at=now_ms + 2000 + 379 * n)) for n in range(10)),
        *(("one instant", evolve(message(f"same {n}"), at=now_ms + 6500)) for n in range(100)),
        *(
            ("by delay", evolve(message(f"delay {ms}"), delay=timedelta(milliseconds=ms)))
            for ms in (250, 1500, 3000, 5250)
        ),
        *(("by level", evolve(message(f"level {level}"), level=level)) for level in (1, 2)),
        ("far, rolled", evolve(message("far"), at=now_ms + 11_500)),
        ("cancelled", evolve(message("cancelled"), at=now_ms + 8000)),
    ]


def judge(sent: list[Sent], received: list[ReceivedMessage]) -> list[Outcome]:
    """Compare what was sent with what arrived, kind by kind."""
    arrivals: dict[str, list[ReceivedMessage]] = {}
    for message in received:
        arrivals.setdefault(message.message_id, []).append(message)
    outcomes: list[Outcome] = []
    for kind in dict.fromkeys(one.kind for one in sent):
        mine = [one for one in sent if one.kind == kind]
        came = [(one, arrival) for one in mine for arrival in arrivals.get(one.message_id, [])]
        late = [
            arrival.received_ms - one.deliver_ms
            for one, arrival in came
            if one.deliver_ms is not None
        ]
        stored = [
            arrival.stored_ms - one.deliver_ms
            for one, arrival in came
            if one.deliver_ms is not None
        ]
        wanted = {one.message_id: 0 if one.is_cancelled else 1 for one in mine}
        counts = {name: len(arrivals.get(name, [])) for name in wanted}
        outcomes.append(
            Outcome(
                kind=kind,
                sent=len(mine),
                arrived=sum(counts.values()),
                lost=sum(counts[name] < wanted[name] for name in wanted),
                early=sum(min(pair) < 0 for pair in zip(late, stored, strict=True)),
                twice=sum(max(0, counts[name] - wanted[name]) for name in wanted),
                lateness_ms=tuple(sorted(late)),
            )
        )
    return outcomes


def broken_promise(outcomes: Sequence[Outcome], rolled: int) -> str | None:
    """The broken promises, in one line; None when all were kept."""
    bad = [one for one in outcomes if not one.is_good]
    if bad:
        found = "; ".join(
            f"{one.kind}: {one.lost} lost, {one.early} early, {one.twice} twice" for one in bad
        )
        return f"expected every message once and not early, found {found}"
    return None if rolled else "expected a message that rolls, found none"


async def _demo(root: str, as_json: bool, is_shown: bool) -> Result:
    """Run broker, producer and consumer; print the result, and show the broker if it is wanted."""
    broker = await Broker.open(
        disk=OsDisk(),
        root=root,
        options=BROKER,
        store_options=STORE,
        timer_options=TIMER,
        clock=SystemClock(),
        steady_ms=boot_time_ms,
    )
    async with trio.open_nursery() as nursery:
        endpoint = await nursery.start(broker.run)
        assert endpoint.namesrv_listen is not None
        try:
            sent, received = await _send_and_receive(endpoint.namesrv_listen)
            result = Result(
                outcomes=tuple(judge(sent, received)),
                rolled=broker.timer_store.statistics().rolled,
            )
            result.print(as_json=as_json)
            if is_shown:
                await _show(endpoint)
        finally:
            broker.request_stop()
    return result


async def _show(endpoint: Endpoint) -> None:
    """Show the broker, with a few messages under way, until somebody has seen enough."""
    assert endpoint.namesrv_listen is not None
    configure_logs(LogFormat.CONSOLE, logging.CRITICAL)  # a line would tear the screen
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_send_on, endpoint.namesrv_listen)
        await run_live([endpoint.listen], ClientAccess(namesrv=endpoint.listen))
        nursery.cancel_scope.cancel()


async def _send_on(namesrv: str) -> None:
    """Send some messages again and again, each due within the next few seconds."""
    async with Producer(namesrv) as producer:
        for number in itertools.count():
            await producer.send_batch(
                [
                    OutgoingMessage(
                        topic=TOPIC,
                        body=b"on",
                        delay=timedelta(milliseconds=(number * 379 + part * 731) % SHOWN_DELAY_MS),
                    )
                    for part in range(SHOWN_COUNT)
                ]
            )
            await trio.sleep(SHOWN_INTERVAL)


async def _send_and_receive(namesrv: str) -> tuple[list[Sent], list[ReceivedMessage]]:
    received: list[ReceivedMessage] = []
    arrived = trio.Event()

    async def receive(consumer: Consumer) -> None:
        async for message in consumer:
            received.append(message)
            await consumer.commit(message)
            arrived.set()

    async with (
        Producer(namesrv) as producer,
        Consumer(namesrv, group="demo", topics={TOPIC: "*"}, start_from="first") as consumer,
        trio.open_nursery() as nursery,
    ):
        # The first message makes the topic. Once it has arrived the consumer is in its place, and
        # what is measured from here on is the broker.
        receipt = await producer.send(TOPIC, b"now")
        sent = [Sent(kind="at once", message_id=receipt.message_id, deliver_ms=None)]
        nursery.start_soon(receive, consumer)
        with trio.move_on_after(START_TIMEOUT):
            await arrived.wait()
        if not arrived.is_set():
            raise ClientError(f"demo: expected a message within {START_TIMEOUT:g} s, found none")
        sent += await _send_planned(producer)
        now_ms = SystemClock().now_ms()
        await trio.sleep((max(one.deliver_ms or 0 for one in sent) - now_ms) / 1000 + GRACE)
        nursery.cancel_scope.cancel()
    return sent, received


async def _send_planned(producer: Producer) -> list[Sent]:
    kinds, messages = zip(*plan(SystemClock().now_ms()), strict=True)
    sent: list[Sent] = []
    for kind, message, receipt in zip(
        kinds, messages, await producer.send_batch(messages), strict=True
    ):
        verdict = None
        if kind == "cancelled":
            verdict = await producer.cancel(message.topic, receipt.recall_handle or "")
        sent.append(
            Sent(
                kind=kind,
                message_id=receipt.message_id,
                deliver_ms=receipt.deliver_ms,
                is_cancelled=verdict is Verdict.CANCELLED,
            )
        )
    return sent
