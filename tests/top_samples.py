"""Frozen moments of a broker: what the tests of the screen and the pictures in docs/ show."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC

import attrs

from timermq.cli.top.history import History
from timermq.cli.top.view import HEIGHT, WIDTH, PendingRow, View
from timermq.remoting import Counters, Snapshot

NOW_MS = 1_795_255_387_250
"""2026-11-21 10:03:07.250 UTC."""
ADDRESS = "127.0.0.1:10911"
LATENESS_BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 250, 500, 1_000, 5_000, 60_000)
CELLS = 256
IDLE = Snapshot(
    version="0.1.0",
    broker="broker-a",
    address=ADDRESS,
    now_ms=NOW_MS,
    uptime_ms=310_000,
    clock="SAFE",
    precision_ms=1_000,
    read_ms=NOW_MS // 1000 * 1000,
    commit_read_ms=NOW_MS // 1000 * 1000,
    write_ms=NOW_MS // 1000 * 1000 - 20_000,
    read_lag_ms=0,
    enqueue_lag=0,
    pending=0,
    from_ms=NOW_MS // 1000 * 1000,
    width_ms=1_000,
    buckets=(0,) * CELLS,
    slots=(),
    topics=(),
    topic_count=0,
    counters=Counters(
        sent=112, timers=112, enqueued=112, delivered=112, stored=224, flushes=31, cpu_ms=4_000
    ),
    lateness_bounds_ms=LATENESS_BOUNDS_MS,
    lateness_max_ms=4,
    disk_used_ratio=0.12,
    refusal=None,
    held_pulls=1,
    memory_size=92_300_000,
    memory_own_size=61_000_000,
    scrub_whole_ms=NOW_MS - 183_600_000,
)


def idle(width: int = WIDTH, height: int = HEIGHT) -> View:
    """Nothing waits and nothing comes."""
    return _view(IDLE, width, height)


def burst_arriving(width: int = WIDTH, height: int = HEIGHT) -> View:
    """A quarter of a million messages for one second, still being enqueued."""
    view = _view(_burst(0), width, height)
    for second in range(1, 13):
        view = view.with_snapshot(_burst(second))
    return view


def slot_opened(width: int = WIDTH, height: int = HEIGHT) -> View:
    """The messages of one second."""
    rows = tuple(
        PendingRow(
            deliver_ms=NOW_MS // 1000 * 1000 + 40_037 + 61 * at,
            topic="Orders" if at % 3 else "Reminders",
            unique_id=f"7F0000010B2C18B4AAC2{9_000 + at:012X}",
            keys=f"order-{7_700 + at}",
            tags="pay" if at % 2 else "",
            rolls=at // 9,
        )
        for at in range(16)
    )
    view = burst_arriving(width, height).pressed("end")
    for _ in range(view.cells - 41):
        view = view.pressed("left")
    view = view.pressed("enter")
    assert view.opened is not None
    return attrs.evolve(view, opened=attrs.evolve(view.opened, rows=rows))


def three_days_ahead(width: int = WIDTH, height: int = HEIGHT) -> View:
    """An hour a cell: every day has its evening peak."""
    width_ms = 3_600_000
    from_ms = NOW_MS // width_ms * width_ms
    buckets = tuple(
        round(5_000 * (1.2 + math.sin((hour - 10) / 24 * 2 * math.pi)) ** 3) if hour <= 72 else 0
        for hour in range(CELLS)
    )
    snapshot = attrs.evolve(
        IDLE,
        pending=sum(buckets),
        from_ms=from_ms,
        width_ms=width_ms,
        buckets=buckets,
        slots=tuple((IDLE.read_ms + 1000 * (2 + 3 * at), 7 + at % 4) for at in range(32)),
        topics=(("Reminders", 2_004_118), ("Orders", 480_121), ("Billing.dunning", 1_204)),
        topic_count=3,
    )
    view = attrs.evolve(_view(snapshot, width, height), zoom=4)
    later = attrs.evolve(
        snapshot,
        uptime_ms=snapshot.uptime_ms + 5_000,
        counters=_counted(snapshot.counters, sent=60, delivered=17, rolled=240, flushes=5),
    )
    view = view.with_snapshot(later)
    for _ in range(34):
        view = view.pressed("right")
    return view


def clock_unsafe(width: int = WIDTH, height: int = HEIGHT) -> View:
    """The wall clock cannot be trusted, and the disk is nearly full."""
    snapshot = attrs.evolve(
        _burst(12),
        clock="UNSAFE",
        clock_fault="forward",
        clock_off_ms=31_536_000_000,
        clock_believed_in_ms=571_000,
        disk_used_ratio=0.91,
        refusal="disk 91 % full, sends are taken below 90 %",
    )
    return _view(snapshot, width, height)


def reconnecting(width: int = WIDTH, height: int = HEIGHT) -> View:
    """The broker is gone; what was seen last stays."""
    return attrs.evolve(burst_arriving(width, height), trouble=f"{ADDRESS}: closed by the server")


SAMPLES: Mapping[str, Callable[[int, int], View]] = {
    "idle": idle,
    "burst-arriving": burst_arriving,
    "slot-opened": slot_opened,
    "three-days-ahead": three_days_ahead,
    "clock-unsafe": clock_unsafe,
    "reconnecting": reconnecting,
}


def _view(snapshot: Snapshot, width: int, height: int) -> View:
    view = View(address=ADDRESS, zone=UTC, width=width, height=height, history=History())
    return view.with_snapshot(snapshot)


def _burst(second: int) -> Snapshot:
    """A second of the burst: everything is for 40 s after `NOW_MS`, beside a little of the rest."""
    arrived = 21_000 * second
    now_ms = NOW_MS - 12_000 + 1_000 * second
    from_ms = now_ms // 1000 * 1000
    burst_at = 40 + 12 - second
    buckets = [(3 * at) % 7 + (at % 10 == 0) * 12 for at in range(CELLS)]
    buckets[burst_at] += arrived
    slots = tuple((from_ms + 1000 * at, number) for at, number in enumerate(buckets[:33]) if number)
    late = [0] * (len(LATENESS_BOUNDS_MS) + 1)
    late[0], late[1], late[2], late[3] = 80 * second, 5 * second, second // 3, second // 7
    return attrs.evolve(
        IDLE,
        now_ms=now_ms,
        uptime_ms=IDLE.uptime_ms + 1_000 * second,
        read_ms=from_ms,
        commit_read_ms=from_ms,
        write_ms=from_ms,
        enqueue_lag=1_536 if second else 0,
        pending=sum(buckets),
        from_ms=from_ms,
        buckets=tuple(buckets),
        slots=slots,
        topics=(
            ("Campaign.push", arrived),
            ("Orders", 801),
            ("Reminders", 612),
            ("A-topic-with-a-name-that-is-longer-than-its-column", 40),
        ),
        topic_count=4,
        counters=_counted(
            IDLE.counters,
            sent=21_006 * second,
            delivered=sum(late),
            flushes=2 * second,
            stored=21_010 * second,
            cpu_ms=810 * second,
            lateness=tuple(late),
        ),
        lateness_max_ms=7,
    )


def _counted(counters: Counters, *, lateness: tuple[int, ...] = (), **more: int) -> Counters:
    added = {name: getattr(counters, name) + number for name, number in more.items()}
    return attrs.evolve(counters, lateness=lateness, **added)
