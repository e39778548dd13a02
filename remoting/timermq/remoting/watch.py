"""WATCH (9003) and UNWATCH (9004): what a watcher asks for, and what it is shown.

The client asks once, with a `WatchView` as the body; it is answered with success, and from then on
the broker sends one-way requests of the same code and opaque, each with a `Snapshot` as its body:
at most one every `interval_ms`, fewer when the client does not take them. A further WATCH of the
same connection changes the view. UNWATCH, or the end of the connection, ends it.

Both bodies are CBOR maps with the names of the fields below; unknown names are passed over.
Counters (`Counters`) run from the start of the broker: rates are the client's business.
"""

from __future__ import annotations

from typing import Any, TypeVar

import attrs
import cbor2
import msgspec

from .cbor import CborError, decode_cbor
from .codes import ResponseCode
from .errors import RemoteProtocolError

WIDTH_MIN_MS = 1_000
WIDTH_MAX_MS = 86_400_000
"""A bucket: from a second to a day."""
BUCKETS_MAX = 512
INTERVAL_MIN_MS = 250
"""Four snapshots a second, however many are asked for."""
INTERVAL_MAX_MS = 60_000
TOPIC_SIZE_MAX = 127
"""Characters of a text that topics are looked for by."""

SLOTS_MAX = 32
"""Slots in a snapshot; a screen shows fewer."""
TOPICS_MAX = 32
"""Topics in a snapshot."""
VIEW_SIZE_MAX = 4096
"""Bytes of a view; its texts have a few hundred."""
SNAPSHOT_SIZE_MAX = 1 << 20
"""Bytes of a snapshot; buckets, slots and topics are some 20 kB."""

_Body = TypeVar("_Body")


@attrs.frozen(kw_only=True)
class WatchView:
    """What a watcher wants to be shown, and how often."""

    width_ms: int = 1_000
    """Of one bucket."""
    count: int = 256
    """Of buckets."""
    topic: str | None = None
    """Only topics whose names contain this text; None: all."""
    interval_ms: int = INTERVAL_MIN_MS

    def encode(self) -> bytes:
        """The body of a WATCH."""
        return cbor2.dumps(attrs.asdict(self))

    @classmethod
    def decode(cls, body: bytes) -> WatchView:
        """Read the body of a WATCH; nothing at all is the default view.

        Raises:
            RemoteProtocolError: Malformed, or a value out of its range.
        """
        view = _decode(body, cls, VIEW_SIZE_MAX) if body else cls()
        for name, value, least, most in (
            ("width_ms", view.width_ms, WIDTH_MIN_MS, WIDTH_MAX_MS),
            ("count", view.count, 1, BUCKETS_MAX),
            ("interval_ms", view.interval_ms, INTERVAL_MIN_MS, INTERVAL_MAX_MS),
            ("topic", len(view.topic or ""), 0, TOPIC_SIZE_MAX),
        ):
            if not least <= value <= most:
                raise _malformed(f"{name}: expected {least} to {most}, found {value}")
        return view


@attrs.frozen(kw_only=True)
class Counters:
    """Running totals since the start of the broker."""

    sent: int = 0
    """Messages that producers brought, delayed or not."""
    timers: int = 0
    """Messages taken in that wait for their moment."""
    enqueued: int = 0
    """Units linked into the wheel, rolls and deletes included."""
    delivered: int = 0
    rolled: int = 0
    cancelled: int = 0
    refused: int = 0
    """Delay requests that a rule refused."""
    repeated: int = 0
    missing: int = 0
    set_aside: int = 0
    retried: int = 0
    early: int = 0
    stored: int = 0
    """Records appended to the commit log."""
    flushes: int = 0
    """Syncs of the commit log."""
    clock_steps_forward: int = 0
    clock_steps_backward: int = 0
    cpu_ms: int = 0
    """Processor time of the broker, user and system."""
    lateness: tuple[int, ...] = ()
    """Deliveries by lateness: one bucket a bound, and one above all bounds."""


@attrs.frozen(kw_only=True)
class Snapshot:
    """A moment's picture of a broker; times in epoch milliseconds, sizes in bytes."""

    version: str
    broker: str
    """Its name."""
    address: str
    now_ms: int
    """By the broker's wall clock."""
    uptime_ms: int
    """By a clock that no step moves: rates are computed from it."""
    clock: str
    """State of the wall clock: SAFE or UNSAFE."""
    precision_ms: int
    """Width of a slot."""
    read_ms: int
    """Slots before it are closed."""
    commit_read_ms: int
    """Slots before it have reached their topics."""
    write_ms: int
    """Slot of the present when something was last enqueued."""
    read_lag_ms: int
    """How long the oldest slot that is not closed is over; 0 when none is."""
    enqueue_lag: int
    """Messages of the timer topic that have no place in the wheel yet."""
    pending: int
    """Units in slots that are not closed; a delete counts as minus one."""
    from_ms: int
    """Beginning of the first bucket: the present one. What is overdue counts in it."""
    width_ms: int
    buckets: tuple[int, ...]
    """Pending by the time of their slot."""
    slots: tuple[tuple[int, int], ...]
    """The next slots: time and number of units."""
    topics: tuple[tuple[str, int], ...]
    """Most pending messages first, of those asked for."""
    topic_count: int
    """Topics with pending messages, of those asked for."""
    counters: Counters
    lateness_bounds_ms: tuple[int, ...]
    """Upper bounds of the lateness buckets."""
    lateness_max_ms: int
    """Since the start."""
    disk_used_ratio: float
    """Used part of the disk, 0 to 1."""
    refusal: str | None
    """Why sends are refused; None when they are taken."""
    held_pulls: int
    memory_size: int
    """Resident memory of the broker, mapped files included."""
    memory_own_size: int
    """Its anonymous part."""
    quarantined: int = 0
    """Messages in quarantine: they could not be delivered."""
    set_aside_reason: str | None = None
    """Of the newest of them; None when there never was one."""
    set_aside_ms: int | None = None
    held_up: int = 0
    """Messages that the store does not take now; they are retried for ever."""
    held_up_since_ms: int | None = None
    held_up_error: str | None = None
    """The store's last refusal; None while it takes everything."""
    failed_logins: int = 0
    """Since the start; 0 without access control."""
    failed_login_ms: int | None = None
    """When the last one was; None when there never was one."""
    missing_rights: int = 0
    """Requests of accounts without a right to what they asked for, since the start."""
    tls_refused: int = 0
    """Connections closed before their first request, since the start."""
    door_problem: str | None = None
    """Why changed rules or certificates are not in force; None while they are."""
    open_doors: tuple[str, ...] = ()
    """Addresses beyond loopback at which no access control asks who comes."""
    scrub_done_ratio: float | None = None
    """Part of the pass over the bytes at rest that is done, 0 to 1; None between two passes."""
    scrub_whole_ms: int = 0
    """When the last whole pass ended; 0 without one."""
    scrub_damaged: int = 0
    """Things that were found damaged, since the start."""
    scrub_mended: int = 0
    """Those of them that were put right."""
    scrub_left: int = 0
    """Things that the last pass, or the one under way, could not put right."""
    followers: int = 0
    """Followers that are linked."""
    followers_in_sync: int = 0
    followers_behind: int = 0
    """Bytes of the log that the follower most behind lacks."""
    followers_silent_ms: int = 0
    """The longest time that a follower has acknowledged nothing new and lacked something."""
    master: str | None = None
    """Address of the master of a follower; empty: it knows none. None of a master."""
    master_behind: int = 0
    """Bytes that the master is known to have more."""
    master_behind_ms: int | None = None
    """Since it had all that the master had told of; None: it never had."""
    master_error: str | None = None
    """Why the master is not followed just now."""
    clock_fault: str | None = None
    """Why the clock is UNSAFE: forward, backward or stopped."""
    clock_off_ms: int = 0
    """How far the wall clock is ahead of what is trusted, or behind (negative)."""
    clock_believed_in_ms: int | None = None
    """How long a clock that is ahead is still held back."""
    clock_drift_ppm: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields as values that JSON and CBOR can hold."""
        # Not all the way down: that would look at each of the buckets.
        fields = attrs.asdict(self, recurse=False)
        return {**fields, "counters": attrs.asdict(self.counters, recurse=False)}

    def encode(self) -> bytes:
        """The body of a push."""
        return cbor2.dumps(self.to_json())

    @classmethod
    def decode(cls, body: bytes) -> Snapshot:
        """Read the body of a push.

        Raises:
            RemoteProtocolError: Malformed.
        """
        return _decode(body, cls, SNAPSHOT_SIZE_MAX)


def _decode(body: bytes, kind: type[_Body], size_max: int) -> _Body:
    try:
        return msgspec.convert(decode_cbor(body, size_max=size_max), kind)
    except (CborError, msgspec.ValidationError) as error:
        raise _malformed(str(error)) from error


def _malformed(reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(ResponseCode.INVALID_PARAMETER, f"WATCH_BODY: {reason}")
