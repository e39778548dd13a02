"""The content of the screen, and the effect of a key: plain values, no terminal.

``View`` is the whole state. ``pressed``, ``with_snapshot`` and their like give the next one; who
runs the screen compares the two and acts: another view to ask the broker for, a slot to open, the
end.
"""

from __future__ import annotations

import enum
from datetime import tzinfo

import attrs

from timermq.remoting import Snapshot, WatchView
from timermq.remoting.watch import TOPIC_SIZE_MAX

from . import keys
from .history import History

WIDTHS_MS = (1_000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000)
"""Of a cell, from the finest zoom to the coarsest."""
CELLS_MAX = 256
"""Cells that the broker is asked for: as many as a wide terminal has columns."""
WIDTH, HEIGHT = 80, 24
"""The smallest screen that shows everything."""
MARGIN = 1
"""Columns left free at either side of the wheel."""


class Focus(enum.Enum):
    """The place of the cursor; ``enter`` opens the chosen cell or slot there."""

    CELLS = "cells"
    SLOTS = "slots"


@attrs.frozen(kw_only=True)
class PendingRow:
    """A message of the opened slot that waits, as it is listed."""

    deliver_ms: int
    topic: str
    unique_id: str
    keys: str
    tags: str
    rolls: int


@attrs.frozen(kw_only=True)
class Opened:
    """A slot, or a span of slots, whose messages are shown."""

    from_ms: int
    to_ms: int
    """Slot times; the messages are due after the first and up to the second."""
    rows: tuple[PendingRow, ...] | None = None
    """None: they are being read."""
    is_whole: bool = True
    """All of them; else the first ones."""
    fault: str | None = None
    """Why they cannot be read."""
    first: int = 0
    """The row at the top of the list."""


@attrs.frozen(kw_only=True)
class View:
    """All that the screen shows, and what its keys have chosen."""

    address: str
    zone: tzinfo | None = None
    """None: the machine's."""
    width: int = WIDTH
    height: int = HEIGHT
    snapshot: Snapshot | None = None
    history: History = attrs.field(factory=History)
    trouble: str | None = None
    """Why nothing comes; None while snapshots do."""
    is_silent: bool = False
    """The connection stands and nothing comes over it: the picture is old."""
    zoom: int = 0
    focus: Focus = Focus.CELLS
    cursor_ms: int | None = None
    """Beginning of the chosen cell; None: the first."""
    slot_ms: int | None = None
    """Time of the chosen slot of the list; None: the first."""
    topic: str = ""
    """Only topics whose names contain this text."""
    typing: str | None = None
    """The text of the filter as far as it is typed; None: it is not."""
    opened: Opened | None = None
    is_paused: bool = False
    has_help: bool = False
    is_done: bool = False

    def wanted(self) -> WatchView | None:
        """The request for the broker; None: none."""
        if self.is_paused:
            return None
        return WatchView(width_ms=WIDTHS_MS[self.zoom], count=CELLS_MAX, topic=self.topic or None)

    @property
    def cells(self) -> int:
        """Cells of the wheel that there is room for."""
        count = len(self.snapshot.buckets) if self.snapshot else CELLS_MAX
        return max(1, min(self.width - 2 * MARGIN, count))

    @property
    def cursor(self) -> int:
        """The chosen cell. Cells move as time passes; the choice stays with its time."""
        if self.snapshot is None or self.cursor_ms is None:
            return 0
        index = (self.cursor_ms - self.snapshot.from_ms) // self.snapshot.width_ms
        return max(0, min(index, self.cells - 1))

    @property
    def slot(self) -> int:
        """The chosen slot of the list; one that is over makes place for the next."""
        slots = self.snapshot.slots if self.snapshot else ()
        if self.slot_ms is None:
            return 0
        before = [time_ms for time_ms, _ in slots if time_ms < self.slot_ms]
        return max(0, min(len(before), len(slots) - 1))

    def with_snapshot(self, snapshot: Snapshot) -> View:
        """The newest picture; one that comes after a pause began is passed over."""
        if self.is_paused and self.snapshot is not None:
            return self
        return attrs.evolve(
            self,
            snapshot=snapshot,
            history=self.history.with_snapshot(snapshot),
            trouble=None,
            is_silent=False,
        )

    def with_trouble(self, trouble: str) -> View:
        """Nothing comes any more; what was seen last stays."""
        return attrs.evolve(self, trouble=trouble, is_silent=False)

    def with_silence(self) -> View:
        """No snapshot has come for a while; what was seen last stays."""
        return attrs.evolve(self, is_silent=True)

    def with_size(self, width: int, height: int) -> View:
        """Another size of the terminal."""
        return attrs.evolve(self, width=width, height=height)

    def with_messages(self, asked: Opened, read: Opened) -> View:
        """The messages of a slot, if it still is the one that is open."""
        return attrs.evolve(self, opened=read) if self.opened is asked else self

    def pressed(self, key: str) -> View:
        """The view after a key; a key without a meaning changes nothing."""
        if self.typing is not None:
            return self._typed(self.typing, key)
        if self.has_help:
            is_done = key == "q"
            return attrs.evolve(self, has_help=False, is_done=is_done)
        match key:
            case "q":
                return attrs.evolve(self, is_done=True)
            case "?":
                return attrs.evolve(self, has_help=True)
            case "p" | " ":
                return attrs.evolve(self, is_paused=not self.is_paused)
            case "/":
                return attrs.evolve(self, typing=self.topic)
            case "+" | "=":
                return self._zoomed(-1)
            case "-" | "_":
                return self._zoomed(1)
            case _:
                pass
        return self._moved(key) if self.opened is None else self._scrolled(self.opened, key)

    def _typed(self, typing: str, key: str) -> View:
        match key:
            case keys.ENTER:
                return self._filtered(typing)
            case keys.ESCAPE:
                return attrs.evolve(self, typing=None)
            case keys.BACKSPACE:
                return attrs.evolve(self, typing=typing[:-1])
            case _ if len(key) == 1:
                return attrs.evolve(self, typing=(typing + key)[:TOPIC_SIZE_MAX])
            case _:
                return self

    def _filtered(self, topic: str) -> View:
        """Another filter; a list that is open is read again."""
        opened = self.opened
        if opened is not None:
            opened = Opened(from_ms=opened.from_ms, to_ms=opened.to_ms)
        return attrs.evolve(self, topic=topic, typing=None, opened=opened)

    def _zoomed(self, steps: int) -> View:
        return attrs.evolve(self, zoom=max(0, min(self.zoom + steps, len(WIDTHS_MS) - 1)))

    def _moved(self, key: str) -> View:
        match key:
            case keys.LEFT:
                return self._at_cell(self.cursor - 1)
            case keys.RIGHT:
                return self._at_cell(self.cursor + 1)
            case keys.HOME:
                return self._at_cell(0)
            case keys.END:
                return self._at_cell(self.cells - 1)
            case keys.UP:
                return self._at_slot(self.slot - 1)
            case keys.DOWN:
                return self._at_slot(self.slot + 1 if self.focus is Focus.SLOTS else self.slot)
            case keys.ENTER:
                return self._opening()
            case keys.ESCAPE:
                return attrs.evolve(self, topic="", cursor_ms=None, slot_ms=None, focus=Focus.CELLS)
            case _:
                return self

    def _at_cell(self, index: int) -> View:
        if self.snapshot is None:
            return self
        index = max(0, min(index, self.cells - 1))
        cursor_ms = self.snapshot.from_ms + index * self.snapshot.width_ms
        return attrs.evolve(self, focus=Focus.CELLS, cursor_ms=cursor_ms if index else None)

    def _at_slot(self, index: int) -> View:
        slots = self.snapshot.slots if self.snapshot else ()
        if not slots:
            return self
        time_ms, _ = slots[max(0, min(index, len(slots) - 1))]
        return attrs.evolve(self, focus=Focus.SLOTS, slot_ms=time_ms)

    def _opening(self) -> View:
        snapshot = self.snapshot
        if snapshot is None:
            return self
        if self.focus is Focus.SLOTS and snapshot.slots:
            from_ms = snapshot.slots[self.slot][0]
            to_ms = from_ms + snapshot.precision_ms
        else:
            from_ms = snapshot.from_ms + self.cursor * snapshot.width_ms
            to_ms = from_ms + snapshot.width_ms
            if not self.cursor and snapshot.slots:
                from_ms = min(from_ms, snapshot.slots[0][0])  # what is overdue too
        return attrs.evolve(self, opened=Opened(from_ms=from_ms, to_ms=to_ms))

    def _scrolled(self, opened: Opened, key: str) -> View:
        if key in (keys.ESCAPE, keys.LEFT, keys.BACKSPACE):
            return attrs.evolve(self, opened=None)
        page = max(1, self.height - HEIGHT + 10)
        steps = {
            keys.UP: -1,
            keys.DOWN: 1,
            keys.PAGE_UP: -page,
            keys.PAGE_DOWN: page,
            keys.HOME: -len(opened.rows or ()),
            keys.END: len(opened.rows or ()),
        }.get(key, 0)
        first = max(0, min(opened.first + steps, len(opened.rows or ()) - 1))
        return attrs.evolve(self, opened=attrs.evolve(opened, first=first))
