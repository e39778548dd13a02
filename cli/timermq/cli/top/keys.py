"""The keys that the bytes of a terminal stand for.

A key is its own character, or one of the names below. Terminals send arrows as an escape sequence
(``ESC [ A``, or ``ESC O A`` in application mode), and the escape key as the first byte of one: only
what follows, or that nothing does, tells them apart. So a sequence that is not complete is handed
back, to be retried with what comes next.
"""

from __future__ import annotations

ESCAPE = "escape"
ENTER = "enter"
BACKSPACE = "backspace"
UP, DOWN, LEFT, RIGHT = "up", "down", "left", "right"
PAGE_UP, PAGE_DOWN, HOME, END = "page up", "page down", "home", "end"

SEQUENCE_SIZE_MAX = 16
"""Bytes of an escape sequence; a longer one is none."""

_CONTROLS = {0x08: BACKSPACE, 0x0A: ENTER, 0x0D: ENTER, 0x7F: BACKSPACE}
_FINALS = {"A": UP, "B": DOWN, "C": RIGHT, "D": LEFT, "H": HOME, "F": END}
_NUMBERS = {"1": HOME, "4": END, "5": PAGE_UP, "6": PAGE_DOWN, "7": HOME, "8": END}


def decode_keys(data: bytes, *, is_last: bool = False) -> tuple[list[str], bytes]:
    """The keys that were typed, and the beginning of one that is not complete.

    Args:
        data: What the terminal has sent, after what was handed back the last time.
        is_last: Nothing has followed for a while: an escape alone is the key.
    """
    keys: list[str] = []
    at = 0
    while at < len(data):
        size, key = _sequence(data[at:]) if data[at] == 0x1B else _character(data[at:])
        if not size and not is_last:
            break
        if not size:
            size, key = 1, ESCAPE if data[at] == 0x1B else None
        if key is not None:
            keys.append(key)
        at += size
    return keys, data[at:]


def _character(data: bytes) -> tuple[int, str | None]:
    """Size and key of a character; size 0: not complete, no key: nothing that is typed here."""
    first = data[0]
    if first in _CONTROLS:
        return 1, _CONTROLS[first]
    if first < 0x20:
        return 1, None
    if 0x80 <= first < 0xC2 or first > 0xF4:
        return 1, None  # no character begins with it
    size = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if len(data) < size:
        return 0, None
    try:
        text = data[:size].decode()
    except UnicodeDecodeError:
        return 1, None
    return size, text if text.isprintable() else None


def _sequence(data: bytes) -> tuple[int, str | None]:
    """Size and key of an escape sequence; size 0: not complete."""
    if len(data) == 1:
        return 0, None
    if data[1:2] not in (b"[", b"O"):
        return 1, ESCAPE  # the escape key, and then something else
    for size, byte in enumerate(data[2:SEQUENCE_SIZE_MAX], start=3):
        if 0x40 <= byte <= 0x7E:
            parameters, final = data[2 : size - 1].decode("ascii", "replace"), chr(byte)
            if final == "~":
                return size, _NUMBERS.get(parameters.partition(";")[0])
            return size, _FINALS.get(final)
    return (0, None) if len(data) < SEQUENCE_SIZE_MAX else (SEQUENCE_SIZE_MAX, None)
