"""The lower part of the screen: next slots and top topics, or the messages of an opened slot."""

from __future__ import annotations

from rich.text import Text

from timermq.remoting import Snapshot

from .. import formatting
from .view import WIDTH, Focus, Opened, PendingRow, View

BAR = "▏▎▍▌▋▊▉█"
BAR_WIDTH = 8
SLOTS_WIDTH = 40
"""Columns of the left list."""
TOPICS_WIDTH_MAX = 100
"""Columns of the right list: a number should not stand too far from its name."""


def lists(view: View, snapshot: Snapshot, height: int) -> list[Text]:
    """Next slots beside top topics: a line of headers and ``height - 1`` rows."""
    found = f" with {formatting.printable(view.topic)!r}" if view.topic else ""
    topics_title = f"topic{found} ({formatting.count(snapshot.topic_count)})"
    right = min(max(view.width, WIDTH) - SLOTS_WIDTH, TOPICS_WIDTH_MAX)
    lines = [
        Text.assemble(
            (f"  {'next slots':<16}{'pending':>11}  in".ljust(SLOTS_WIDTH), "bold"),
            (f"{_cut(topics_title, right - 18)} pending", "bold"),
        )
    ]
    shown = max(height - 1, 1)
    first = max(0, min(view.slot - shown + 1, len(snapshot.slots) - shown))
    for row in range(shown):
        line = _slot_line(view, snapshot, first + row)
        line.pad_right(SLOTS_WIDTH - line.cell_len)
        if row < len(snapshot.topics):
            line.append_text(_topic_line(snapshot, row, right))
        lines.append(line)
    return lines


def _slot_line(view: View, snapshot: Snapshot, index: int) -> Text:
    if index >= len(snapshot.slots):
        return Text("  nothing waits" if not snapshot.slots and not index else "")
    time_ms, number = snapshot.slots[index]
    is_chosen = view.focus is Focus.SLOTS and index == view.slot
    due_in_ms = time_ms + snapshot.precision_ms - snapshot.now_ms
    due = formatting.span(due_in_ms) if due_in_ms >= 0 else f"{formatting.span(-due_in_ms)} late"
    time = formatting.slot_time(time_ms, snapshot.now_ms, view.zone)
    return Text(
        f"{'>' if is_chosen else ' '} {time:<16}{formatting.count(number):>11}  {due}",
        "reverse" if is_chosen else "",
    )


def _topic_line(snapshot: Snapshot, index: int, width: int) -> Text:
    topic, number = snapshot.topics[index]
    name_width = width - 21
    name = _cut(formatting.printable(topic), name_width - 1)
    peak = snapshot.topics[0][1]
    return Text(f"{name} {formatting.count(number):>11} {_bar(number, peak)}")


def _bar(number: int, peak: int) -> str:
    eighths = max(1, number * BAR_WIDTH * 8 // max(peak, 1))
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (BAR[rest - 1] if rest else "")


def messages(view: View, opened: Opened, height: int) -> list[Text]:
    """The messages of an opened slot: title, headers, rows."""
    lines = [Text(_title(view, opened), "bold")]
    if opened.fault is not None:
        return [*lines, Text(f"  cannot be read: {formatting.printable(opened.fault)}")]
    if opened.rows is None:
        return [*lines, Text("  reading…")]
    if not opened.rows:
        return [*lines, Text("  no message is due here; one that rolls on the way is not listed")]
    lines.append(
        Text(_columns(view, "due", "topic", "message id", "keys", "tags", "rolls"), "bold")
    )
    shown = opened.rows[opened.first : opened.first + max(height - 2, 1)]
    return lines + [Text(_row(view, row)) for row in shown]


def _title(view: View, opened: Opened) -> str:
    begin = formatting.moment(opened.from_ms, view.zone, "%Y-%m-%d %H:%M:%S")
    end = formatting.moment(opened.to_ms, view.zone, "%H:%M:%S")
    title = f"slot {begin} to {end}"
    if view.topic:
        title += f", topics with {formatting.printable(view.topic)!r}"
    if opened.rows:
        last = len(opened.rows)
        title += f": {opened.first + 1:,} of {'' if opened.is_whole else 'more than '}{last:,}"
    return f"{title}   (escape: back)"


def _row(view: View, row: PendingRow) -> str:
    return _columns(
        view,
        formatting.clock_time(row.deliver_ms, view.zone),
        formatting.printable(row.topic),
        formatting.printable(row.unique_id),
        formatting.printable(row.keys),
        formatting.printable(row.tags),
        str(row.rolls),
    )


def _columns(view: View, due: str, topic: str, name: str, keys: str, tags: str, rolls: str) -> str:
    """The columns of the list; a wide screen gives its room to topic and keys."""
    room = max(view.width - WIDTH, 0) // 2
    return " ".join(
        (
            f"{due:<12}",
            _cut(topic, 11 + room),
            _cut(name, 32),
            _cut(keys, 11 + room),
            _cut(tags, 4),
            f"{rolls:>5}",
        )
    )


def _cut(text: str, width: int) -> str:
    """A text in its column."""
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"
