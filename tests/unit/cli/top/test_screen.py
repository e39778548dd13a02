"""The screen, line by line, from frozen snapshots."""

from __future__ import annotations

from io import StringIO

import attrs
import pytest
from rich.cells import cell_len
from rich.console import Console

from timermq.cli.top.screen import HELP, KEYS_LINE, screen
from timermq.cli.top.view import Opened, PendingRow, View
from top_samples import (
    IDLE,
    SAMPLES,
    burst_arriving,
    clock_unsafe,
    idle,
    reconnecting,
    slot_opened,
    three_days_ahead,
)

SIZES = [(80, 24), (100, 30), (200, 60), (400, 100)]


def drawn(view: View) -> list[str]:
    """What a terminal without colours gets."""
    console = Console(
        width=view.width, height=view.height, color_system=None, file=StringIO(), record=True
    )
    console.print(screen(view))
    return [line.rstrip() for line in console.export_text().split("\n")[:-1]]


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_every_sample_fits(name: str, width: int, height: int) -> None:
    """As many lines as there are, none wider than the terminal, keys at the bottom."""
    lines = drawn(SAMPLES[name](width, height))

    assert height == len(lines)
    assert [] == [line for line in lines if cell_len(line) > width]
    assert KEYS_LINE == lines[-1][: len(KEYS_LINE)]
    assert lines[0].startswith("timermq top  127.0.0.1:10911  up 5m")


@pytest.mark.parametrize(("width", "height"), [(40, 10), (20, 5), (10, 3)])
@pytest.mark.parametrize("name", SAMPLES)
def test_a_small_terminal(name: str, width: int, height: int) -> None:
    """Less is shown, and nothing falls over."""
    assert height == len(drawn(SAMPLES[name](width, height)))


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60)])
@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_is_cut_at_eighty_columns(name: str, width: int, height: int) -> None:
    """How the broker does is said in full on the smallest screen; only lists and alerts are cut."""
    view = SAMPLES[name](width, height)
    wider = [line.rstrip() for line in screen(view.with_size(500, height)).plain.split("\n")]
    figures = [
        line
        for line in drawn(view)
        if line.startswith(("read", "rates", "broker", "total", "scrub"))
    ]

    assert 5 == len(figures)
    assert [] == [line for line in figures if line not in wider]


def test_idle() -> None:
    """Nothing waits: the wheel is blank, and every figure says so."""
    assert [
        "timermq top  127.0.0.1:10911  up 5m10s  clock SAFE  pending 0               live",
        "",
        "wheel  1s a cell  to 11-21 10:04:25  peak 0  beyond 0",
        "",
        "",
        "",
        " ^------------|------------|------------|------------|------------|------------",
        " 10:03:07     10:03:20     10:03:33     10:03:46     10:03:59     10:04:12",
        ">^ 10:03:07  now  0 pending",
        "read   10:03:07.000  lag 0ms   write 10:02:47.000  enqueue lag 0",
        "rates  in 0.4/s   out 0.4/s   rolls 0/s   cancelled 0/s   (since the start)",
        "late   p50 –  p99 –  max –   p99 by second",
        "broker cpu 1%  memory 61.0 MB own, 92.3 MB resident  disk 12%  flushes 0.1/s",
        "total  delivered 112  rolled 0  cancelled 0  refused 0  retried 0  early 0",
        "scrub  rests  last whole 2d3h ago  damaged 0  repaired 0",
        "",
        "  next slots          pending  in       topic (0)              pending",
        "  nothing waits",
        *[""] * 5,
        KEYS_LINE,
    ] == drawn(idle())


def test_burst_arriving() -> None:
    """One cell stands out, and so do the rates and what is not enqueued yet."""
    assert [
        "timermq top  127.0.0.1:10911  up 5m22s  clock SAFE  pending 253,079         live",
        "",
        "wheel  1s a cell  to 11-21 10:04:25  peak 252,013  beyond 752",
        "                                         █",
        "                                         █",
        " ▆▃▄▂▄▁▄ ▃▄▆▄▁▄ ▃▄▂▄▁▆ ▃▄▂▄▁▄ ▃▆▂▄▁▄ ▃▄▂▄█▄ ▃▄▂▄▁▄ ▆▄▂▄▁▄ ▃▄▂▆▁▄ ▃▄▂▄▁▄▆▃▄▂▄▁▄",
        " ^------------|------------|------------|------------|------------|------------",
        " 10:03:07     10:03:20     10:03:33     10:03:46     10:03:59     10:04:12",
        ">^ 10:03:07  now  12 pending",
        "read   10:03:07.000  lag 0ms   write 10:03:07.000  enqueue lag 1,536",
        "rates  in 21,006/s   out 85/s   rolls 0/s   cancelled 0/s   (last 5 s)",
        "late   p50 ≤ 1 ms  p99 ≤ 2 ms  max ≤ 5 ms   p99 by second ▁▁▂▁▁▂▂▁▂▁▁▂",
        "broker cpu 81%  memory 61.0 MB own, 92.3 MB resident  disk 12%  flushes 2.0/s",
        "total  delivered 1,137  rolled 0  cancelled 0  refused 0  retried 0  early 0",
        "scrub  rests  last whole 2d3h ago  damaged 0  repaired 0",
        "",
        "  next slots          pending  in       topic (4)              pending",
        "  10:03:07                 12  750ms    Campaign.push          252,000 ████████",
        "  10:03:08                  3  1s       Orders                     801 ▏",
        "  10:03:09                  6  2s       Reminders                  612 ▏",
        "  10:03:10                  2  3s       A-topic-with-a-na…          40 ▏",
        "  10:03:11                  5  4s",
        "  10:03:12                  1  5s",
        KEYS_LINE,
    ] == drawn(burst_arriving())


def test_slot_opened() -> None:
    """The messages take the place of the lists; the wheel stays."""
    lines = drawn(slot_opened())

    assert drawn(burst_arriving())[3:6] == lines[3:6]
    assert ">^ 10:03:47  in 39s  252,013 pending" == lines[8]
    assert [
        "slot 2026-11-21 10:03:47 to 10:03:48: 1 of 16   (escape: back)",
        "due          topic       message id                       keys        tags rolls",
        "10:03:47.037 Reminders   7F0000010B2C18B4AAC2000000002328 order-7700           0",
        "10:03:47.098 Orders      7F0000010B2C18B4AAC2000000002329 order-7701  pay      0",
    ] == lines[16:20]


def test_three_days_ahead() -> None:
    """An hour a cell: three evenings, and the day in every label."""
    lines = drawn(three_days_ahead())

    assert [
        "wheel  1h a cell  to 11-24 16:00:00  peak 53,240  beyond 0",
        " ▁       ▁▃▄▅▆▇█████▇▆▅▄▃▁       ▁▃▄▅▆▇█████▇▆▅▄▃▁       ▁▃▄▅▆▇█████▇▆▅▄▃▁",
        " █▇▄▂▁▂▄▇█████████████████▇▄▂▁▂▄▇█████████████████▇▄▂▁▂▄▇█████████████████",
        " █████████████████████████████████████████████████████████████████████████",
        " |------------|------------|-------^----|------------|------------|------------",
        " 11-21 10:00  11-21 23:00  11-22 12:00  11-23 01:00  11-23 14:00  11-24 03:00",
        ">^ 11-22 20:00:00  in 1d9h  8,640 pending",
    ] == lines[2:9]
    assert "rates  in 12/s   out 3.4/s   rolls 48/s   cancelled 0/s   (last 5 s)" == lines[10]


def test_clock_unsafe() -> None:
    """What is wrong is said in words, in the second line."""
    lines = drawn(clock_unsafe(100, 24))

    assert "clock UNSAFE" in lines[0]
    assert (
        "! the clock is UNSAFE: 365d ahead, held back for 9m31s (timermq clock accept); "
        "sends are refused: di"
    ) == lines[1]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("backward", "! the clock is UNSAFE: 2m5s behind, messages wait (timermq clock accept)"),
        ("stopped", "! the clock is UNSAFE: it stands still, messages wait"),
        ("melted", "! the clock is UNSAFE"),
    ],
)
def test_why_the_clock_is_unsafe(fault: str, said: str) -> None:
    """Each fault has its words, with what comes of it."""
    snapshot = attrs.evolve(IDLE, clock="UNSAFE", clock_fault=fault, clock_off_ms=-125_000)

    assert said == drawn(idle().with_snapshot(snapshot))[1][: len(said)]


def test_a_door_without_a_guard() -> None:
    """It is said where anybody may come in."""
    lines = drawn(idle().with_snapshot(attrs.evolve(IDLE, open_doors=("0.0.0.0:10911",))))

    assert "! OPEN TO ALL at 0.0.0.0:10911: no access control (acl_enable)" == lines[1].rstrip()


def test_followers_have_a_line() -> None:
    """Where there are any: the one most behind, and since when nothing new was acknowledged."""
    behind = attrs.evolve(IDLE, followers=2, followers_in_sync=1, followers_behind=2_500)
    lines = drawn(idle().with_snapshot(attrs.evolve(behind, followers_silent_ms=61_000)))

    assert "followers 2  in sync 1  behind 2.5 kB  acknowledged 1m1s ago" in map(str.rstrip, lines)
    assert any("acknowledged now" in line for line in drawn(idle().with_snapshot(behind)))
    assert not any("followers" in line for line in drawn(idle()))


def test_reconnecting() -> None:
    """The last picture stays, and the screen says that it is old."""
    lines = drawn(reconnecting())

    assert lines[0].endswith("reconnecting…")
    assert "! 127.0.0.1:10911: closed by the server" == lines[1]
    assert drawn(burst_arriving())[2:] == lines[2:]


def test_before_the_first_picture() -> None:
    """The screen says whom it waits for."""
    lines = drawn(View(address="far:10911"))

    assert lines[0].endswith("connecting…")
    assert "no picture yet of far:10911" == lines[2]


def test_help() -> None:
    """It has every line of the help, and the header still."""
    lines = drawn(idle().pressed("?"))

    assert [f" {line}".rstrip() for line in HELP] == lines[3 : 3 + len(HELP)]
    assert [] == [line for line in HELP if len(line) > 79]


def test_pause() -> None:
    """The header says that the screen is paused."""
    assert drawn(idle().pressed("p"))[0].endswith("PAUSED")


def test_filter() -> None:
    """It is shown as it is typed, and in the headers afterwards."""
    view = burst_arriving().pressed("/").pressed("O").pressed("r")
    assert "topics with: Or_   (enter: show, escape: leave)" == drawn(view)[-1]

    shown = drawn(view.pressed("enter"))
    assert "topic with 'Or' (4)" in shown[16]


@pytest.mark.parametrize(
    ("opened", "text"),
    [
        (Opened(from_ms=0, to_ms=1), "  reading…"),
        (Opened(from_ms=0, to_ms=1, rows=(), fault="gone"), "  cannot be read: gone"),
        (
            Opened(from_ms=0, to_ms=1, rows=()),
            "  no message is due here; one that rolls on the way is not listed",
        ),
    ],
)
def test_slots_without_messages(opened: Opened, text: str) -> None:
    """The screen says why it shows no messages of the slot."""
    assert text == drawn(attrs.evolve(idle(), opened=opened))[17]


def test_the_chosen_slot_is_in_sight() -> None:
    """However far down the list it is; a mark and not only a colour shows it."""
    view = burst_arriving()
    for _ in range(20):
        view = view.pressed("down")
    lines = drawn(view)

    (chosen,) = (line for line in lines if line.startswith("> "))
    assert chosen.split()[1] == "10:03:29"


def test_hostile_texts() -> None:
    """Topic and keys from outside do not reach the terminal as commands."""
    row = PendingRow(
        deliver_ms=IDLE.now_ms, topic="\x1b[2J", unique_id="\r\n", keys="\x07", tags="\x9b", rolls=0
    )
    snapshot = attrs.evolve(IDLE, topics=(("\x1b]0;x", 1),), refusal="\x1b[31m", clock="\x1b")
    view = idle().with_snapshot(snapshot)
    opened = attrs.evolve(view, opened=Opened(from_ms=0, to_ms=1, rows=(row,)))

    for one in (view, opened):
        assert all(line.isprintable() for line in screen(one).plain.split("\n"))


def test_wide_characters_are_cut_by_their_width() -> None:
    """A line of Chinese keys is no wider than the screen."""
    row = PendingRow(deliver_ms=0, topic="T", unique_id="U", keys="订单" * 30, tags="", rolls=0)
    view = attrs.evolve(idle(), opened=Opened(from_ms=0, to_ms=1, rows=(row,)))

    assert max(map(cell_len, drawn(view))) <= 80
