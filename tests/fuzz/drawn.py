"""Inputs that Hypothesis draws: good ones with a few bytes changed, and bytes of any kind."""

from __future__ import annotations

import time

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.targets import Target, kept

EXAMPLES = 2_000
"""Of one round of ``draw_for``."""

_MARKS = (
    *(b"\x01", b"\x02", b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"9" * 20, b"-1"),
    *(b"null", b"true", b"1e400", b'"', b"{", b"[", b"]", b"}", b",", b":", b"\\ud800", b"\n"),
    *(b"\x80", b"\xa0", b"\xc2\x41\x01", b"\x9f", b"\xbf", b"\xf7", b"\xfb", b"=", b"%RETRY%"),
)
SCRAPS = st.sampled_from(_MARKS) | st.binary(max_size=6)
"""What often stands where a reader does not expect it."""


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    """Inputs for a target: its seeds with up to three changes, or up to 64 bytes of any kind."""
    good = st.sampled_from(target.seeds())
    changes = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 8), SCRAPS), max_size=3)
    return st.builds(_changed, good, changes) | st.binary(max_size=64)


def _changed(data: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    """``data`` where some pieces give way to scraps."""
    for at, size, scrap in changes:
        at %= len(data) + 1
        data = data[:at] + scrap + data[at + size :]
    return data


def check_kept(name: str, target: Target) -> int:
    """Run the target's seeds and the files of its corpus; how many there are."""
    found = [*target.seeds(), *(file.read_bytes() for file in kept(name))]
    for data in found:
        target.fuzz_one(data)
    return len(found)


def draw_for(target: Target, seconds: float) -> int:
    """Draw inputs for some time; how many. What a target raises comes out, the input in a note."""
    count = 0

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(inputs(target))
    def draw(data: bytes) -> None:
        nonlocal count
        count += 1
        target.fuzz_one(data)

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        draw()
    return count
