"""The whole screen as text: a view in, as many lines as the terminal has out.

::

     0  header: address, uptime, clock, pending                              live
     1  what is wrong, if something is
     2  the wheel: zoom, reach, peak
        bars; 3 rows, more on a high screen
        ruler with cursor, times, what the cursor stands on
        pointers, rates, lateness, disk and process, totals
        next slots and top topics, or the messages of an opened slot
    -1  keys, or the filter as it is typed
"""

from __future__ import annotations

from rich.text import Text

from timermq.remoting import Counters, Snapshot

from .. import formatting
from .history import Figures
from .slot_list import lists, messages
from .view import HEIGHT, MARGIN, WIDTHS_MS, Focus, View
from .wheel_strip import bars, labels, ruler, sparkline

BAR_ROWS, BAR_ROWS_MAX = 3, 8
LABEL_STEP = 13
"""Cells between two times."""
SPARK_SECONDS = 30
FAILED_LOGIN_SHOWN_MS = 300_000
"""How long a failed login is shown: one that somebody mistyped is no trouble for ever."""
CLOCK_SAFE = "SAFE"

KEYS_LINE = "? help  q quit  p pause  + - zoom  arrows move  enter open  / topic  escape back"
HELP = (
    "The wheel shows what waits, a bar a cell, from now on. Heights are logarithms:",
    "one message is the lowest bar, the fullest cell the highest. A delete counts as",
    "minus one. What is too far ahead stands where it is enqueued again (rolls).",
    "",
    "+  -            finer, coarser cells: 1 s, 10 s, 1 min, 10 min, 1 h, 6 h, 1 day",
    "left  right     move the cursor over the cells (home, end)",
    "up  down        choose one of the next slots",
    "enter           list the messages of the cell or slot; arrows scroll them",
    "/               show topics, and open slots, by a part of the topic's name",
    "escape          back; then: no filter, cursor to the present",
    "p               pause: the picture stands still, and the broker makes none",
    "q               quit",
    "",
    "read lag        how long the oldest slot that is not delivered is over",
    "enqueue lag     messages stored that have no place in the wheel yet",
    "p50 p99 max     lateness of deliveries in the last seconds: upper bounds",
    "QUARANTINE      timermq quarantine list says why; early must be 0",
)


def screen(view: View) -> Text:
    """The screen: ``view.height`` lines of at most ``view.width`` columns."""
    lines = screen_lines(view)
    for line in lines:
        line.truncate(view.width)
    text = Text("\n").join(lines)
    text.no_wrap, text.overflow = True, "crop"
    return text


def screen_lines(view: View) -> list[Text]:
    """The lines, not yet cut to the width."""
    if view.snapshot is None:
        body = [Text(f"no picture yet of {view.address}")]
    elif view.has_help:
        body = [Text(""), *(Text(f" {line}") for line in HELP)]
    else:
        body = _body(view, view.snapshot)
    body = body[: view.height - 3]
    body += [Text("")] * (view.height - 3 - len(body))
    return [_header(view), _alert(view), *body, _footer(view)]


def _header(view: View) -> Text:
    snapshot = view.snapshot
    if view.trouble is not None:
        state = "reconnecting…"
    elif view.is_paused:
        state = "PAUSED"
    elif view.is_silent:
        state = _no_answer(view)
    else:
        state = "live" if snapshot is not None else "connecting…"
    line = _named(view, "  ")
    if line.cell_len + 1 + len(state) > view.width:
        line = _named(view, " ")
    line.pad_right(max(1, view.width - line.cell_len - len(state)))
    line.append(state, "bold red" if view.is_silent else "bold")
    return line


def _no_answer(view: View) -> str:
    """How long the picture has been old, by the broker's clock that is in it."""
    if view.snapshot is None:
        return "no answer"
    return f"no answer since {formatting.moment(view.snapshot.now_ms, view.zone, '%H:%M:%S')}"


def _named(view: View, gap: str) -> Text:
    """Who is looked at, and how it does in a word each."""
    snapshot = view.snapshot
    line = Text("timermq top ", "bold")
    line.append(f" {snapshot.address if snapshot else view.address}")
    if snapshot is not None:
        if not view.is_silent:  # it leaves room for what is wrong, and is old
            line.append(f"  up {formatting.span(snapshot.uptime_ms)}")
        line.append(f"{gap}clock {formatting.printable(snapshot.clock)}", _alarm(snapshot.clock))
        line.append(f"{gap}pending {formatting.count(snapshot.pending)}", "bold")
    return line


def _alarm(clock: str) -> str:
    return "" if clock == CLOCK_SAFE else "bold red"


def _alert(view: View) -> Text:
    """The troubles, the worst first."""
    found: list[str] = []
    snapshot = view.snapshot
    if view.trouble is not None:
        found.append(view.trouble)
    if view.is_silent and not view.is_paused:
        found.append(f"{_no_answer(view)}: these numbers are old")
    if snapshot is not None:
        if snapshot.clock != CLOCK_SAFE:
            found.append(_clock_words(snapshot))
        if snapshot.counters.early:
            found.append(f"{formatting.count(snapshot.counters.early)} delivered EARLY")
        if snapshot.refusal is not None:
            found.append(f"sends are refused: {snapshot.refusal}")
        if snapshot.open_doors:
            addresses = ", ".join(snapshot.open_doors)
            found.append(f"OPEN TO ALL at {addresses}: no access control (acl_enable)")
        if snapshot.door_problem is not None:
            found.append(f"the change is not in force: {snapshot.door_problem}")
        if (
            snapshot.failed_login_ms is not None
            and snapshot.now_ms - snapshot.failed_login_ms < FAILED_LOGIN_SHOWN_MS
        ):
            found.append(
                f"{formatting.count(snapshot.failed_logins)} FAILED LOGINS since the start"
            )
        if snapshot.quarantined:
            last = f", last {snapshot.set_aside_reason}" if snapshot.set_aside_reason else ""
            found.append(f"{formatting.count(snapshot.quarantined)} in QUARANTINE{last}")
        if snapshot.scrub_left:
            found.append(
                f"{formatting.count(snapshot.scrub_left)} DAMAGED at rest (timermq store check)"
            )
        if snapshot.held_up_since_ms is not None:
            since = formatting.clock_time(snapshot.held_up_since_ms, view.zone)
            found.append(
                f"{formatting.count(snapshot.held_up)} held up since {since}:"
                f" {snapshot.held_up_error}"
            )
    return Text(formatting.printable("! " + "; ".join(found)) if found else "", "bold red")


def _clock_words(snapshot: Snapshot) -> str:
    """The trouble with the clock, and its effect."""
    off = formatting.span(abs(snapshot.clock_off_ms))
    match snapshot.clock_fault:
        case "forward":
            left = formatting.span(snapshot.clock_believed_in_ms or 0)
            return f"the clock is UNSAFE: {off} ahead, held back for {left} (timermq clock accept)"
        case "backward":
            return f"the clock is UNSAFE: {off} behind, messages wait (timermq clock accept)"
        case "stopped":
            return "the clock is UNSAFE: it stands still, messages wait"
        case _:
            return f"the clock is {snapshot.clock}"


def _body(view: View, snapshot: Snapshot) -> list[Text]:
    upper = [*_wheel(view, snapshot), *_figures(view, snapshot), Text("")]
    room = view.height - 3 - len(upper)
    if view.opened is not None:
        return [*upper, *messages(view, view.opened, room)]
    return [*upper, *lists(view, snapshot, room)]


def _wheel(view: View, snapshot: Snapshot) -> list[Text]:
    shown = snapshot.buckets[: view.cells]
    width_ms, margin = snapshot.width_ms, " " * MARGIN
    end_ms = snapshot.from_ms + len(shown) * width_ms
    beyond = snapshot.pending - sum(shown)
    zoom = "" if width_ms == WIDTHS_MS[view.zoom] else "  (zooming…)"
    lines = [
        Text(
            f"wheel  {formatting.span(width_ms)} a cell  to {_until(end_ms, view)}  "
            f"peak {formatting.count(max(shown, default=0))}"
            f"  beyond {formatting.count(beyond)}{zoom}",
            "bold",
        )
    ]
    rows = max(BAR_ROWS, min(BAR_ROWS_MAX, BAR_ROWS + (view.height - HEIGHT) // 4))
    lines += [Text(margin).append_text(row) for row in bars(shown, rows)]
    times = [
        formatting.cell_time(snapshot.from_ms + at * width_ms, width_ms, view.zone)
        for at in range(0, len(shown), LABEL_STEP)
    ]
    cursor = view.cursor
    cursor_ms = snapshot.from_ms + cursor * width_ms
    ahead_ms = max(0, cursor_ms - snapshot.now_ms)
    lines += [
        Text(margin + ruler(len(shown), cursor, LABEL_STEP)),
        Text(margin + labels(times, len(shown), LABEL_STEP)),
        Text(
            f"{'>' if view.focus is Focus.CELLS else ' '}"
            f"^ {formatting.slot_time(cursor_ms, snapshot.now_ms, view.zone)}"
            f"  {f'in {formatting.span(ahead_ms)}' if ahead_ms else 'now'}"
            f"  {formatting.count(shown[cursor] if cursor < len(shown) else 0)} pending"
        ),
    ]
    return lines


def _until(end_ms: int, view: View) -> str:
    return formatting.moment(end_ms, view.zone, "%m-%d %H:%M:%S")


def _figures(view: View, snapshot: Snapshot) -> list[Text]:
    """Pointers, rates, lateness, resources, totals."""
    figures = view.history.figures()
    zone, counters = view.zone, snapshot.counters
    lines = [
        f"read   {formatting.clock_time(snapshot.read_ms, zone)}"
        f"  lag {formatting.span(snapshot.read_lag_ms)}"
        f"   write {formatting.clock_time(snapshot.write_ms, zone)}"
        f"  enqueue lag {formatting.count(snapshot.enqueue_lag)}",
    ]
    if figures is not None:
        lines += [
            _rates(figures),
            _lateness(view, snapshot, figures),
            _resources(snapshot, figures),
        ]
    lines += [_totals(counters), _scrub(snapshot)]
    if snapshot.followers:
        lines.append(_followers(snapshot))
    if snapshot.master is not None:
        lines.append(_following(snapshot))
    return [Text(line) for line in lines]


def _rates(figures: Figures) -> str:
    named = (("in", "sent"), ("out", "delivered"), ("rolls", "rolled"), ("cancelled", "cancelled"))
    texts = [f"{name} {formatting.rate(figures.rate(counter))}" for name, counter in named]
    return f"rates  {'   '.join(texts)}   ({_window(figures)})"


def _lateness(view: View, snapshot: Snapshot, figures: Figures) -> str:
    late = figures.lateness
    spark = sparkline(
        view.history.p99_by_sample(SPARK_SECONDS), len(snapshot.lateness_bounds_ms)
    ).strip()
    if late is None:
        text = f"p50 {formatting.NOTHING}  p99 {formatting.NOTHING}  max {formatting.NOTHING}"
    else:
        text = (
            f"p50 {formatting.lateness(late.p50_ms)}  p99 {formatting.lateness(late.p99_ms)}"
            f"  max {formatting.lateness(late.max_ms)}"
        )
    return f"late   {text}   p99 by second {spark}"


def _resources(snapshot: Snapshot, figures: Figures) -> str:
    memory = f"{formatting.size(snapshot.memory_own_size)} own"
    return (
        f"broker cpu {figures.cpu_percent:.0f}%  memory {memory}, "
        f"{formatting.size(snapshot.memory_size)} resident  disk {snapshot.disk_used_ratio:.0%}"
        f"  flushes {formatting.rate(figures.rate('flushes'))}"
    )


def _totals(counters: Counters) -> str:
    named = ("delivered", "rolled", "cancelled", "refused", "retried", "early")
    return "total  " + "  ".join(
        f"{name} {formatting.count(getattr(counters, name))}" for name in named
    )


def _scrub(snapshot: Snapshot) -> str:
    """How far the bytes at rest are compared."""
    done = snapshot.scrub_done_ratio
    whole_ms = max(0, snapshot.now_ms - snapshot.scrub_whole_ms)
    return (
        f"scrub  {'rests' if done is None else f'{done:.0%} done'}  last whole "
        f"{f'{formatting.span(whole_ms)} ago' if snapshot.scrub_whole_ms else formatting.NOTHING}"
        f"  damaged {formatting.count(snapshot.scrub_damaged)}"
        f"  repaired {formatting.count(snapshot.scrub_mended)}"
    )


def _followers(snapshot: Snapshot) -> str:
    """How far the followers are, by the one that is most behind."""
    silent_ms = snapshot.followers_silent_ms
    return (
        f"followers {snapshot.followers}  in sync {snapshot.followers_in_sync}"
        f"  behind {formatting.size(snapshot.followers_behind)}"
        f"  acknowledged {f'{formatting.span(silent_ms)} ago' if silent_ms else 'now'}"
    )


def _following(snapshot: Snapshot) -> str:
    """How far it is behind its master, or why it does not follow."""
    behind_ms = snapshot.master_behind_ms
    text = f"follows {snapshot.master or formatting.NOTHING}"
    text += f"  behind {formatting.size(snapshot.master_behind)}"
    text += f", {formatting.NOTHING if behind_ms is None else formatting.span(behind_ms)}"
    return text if snapshot.master_error is None else f"{text}  {snapshot.master_error}"


def _window(figures: Figures) -> str:
    if figures.is_since_start:
        return "since the start"
    return f"last {max(1, round(figures.span_ms / 1000))} s"


def _footer(view: View) -> Text:
    if view.typing is not None:
        return Text(
            f"topics with: {formatting.printable(view.typing)}_   (enter: show, escape: leave)"
        )
    line = KEYS_LINE
    if view.topic and view.width >= len(line) + 12:
        line += f"  filter {formatting.printable(view.topic)!r}"
    return Text(line, "dim")
