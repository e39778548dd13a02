"""Records drawn by Hypothesis: of all kinds, laid out one behind the other as a log has them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from timermq.pipeline.records.timer_record import TIMER_TOPIC
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.record import encode_record

SLOT_MS = 1_700_000_010_000
STORE_MS = 1_700_000_004_321
V4, V6 = pack_host("127.0.0.1", 10911), pack_host("2001:db8::17", 80)

_NAMES = (
    "REAL_TOPIC",
    "REAL_QID",
    "TIMER_OUT_MS",
    "TIMER_DELIVER_MS",
    "TIMER_ROLL_TIMES",
    "TIMER_ORDER",
    "TIMER_DEL_UNIQKEY",
    "TIMER_DEL_ORDER",
    "TIMER_DELAY_MS",
    "TIMER_DELAY_SEC",
    "UNIQ_KEY",
    "KEYS",
    "TAGS",
    "TIMER_DEQUEUE_MS",
    "TIMER_OUT_M",
    "own",
)
_VALUES = (
    "",
    "0",
    "1",
    "007",
    "5",
    "4096",
    "x",
    "T",
    "Orders",
    "rmq_sys_wheel_timer",
    "no good",
    "1" * 18,
    "1" * 19,
    "-5",
    "+5",
    "٣",
    f"{SLOT_MS}",
    f"{SLOT_MS + 1}",
    f"{SLOT_MS + 500}",
    f"{SLOT_MS + 1000}",
    f"{SLOT_MS + 1001}",
    "9999999999000",
    "a\x01b",
)
_ODD_TEXTS = st.binary(max_size=24)
_PAIRS = st.tuples(st.sampled_from(_NAMES), st.sampled_from(_VALUES)).map(
    lambda pair: f"{pair[0]}\x01{pair[1]}\x02".encode()
)
_MOMENTS = st.sampled_from((SLOT_MS, SLOT_MS + 1, SLOT_MS + 700, SLOT_MS + 1000, SLOT_MS + 1001))


@st.composite
def _tails(draw: st.DrawFn) -> bytes:
    """What our records end with, and sometimes something of it wrong."""
    rolled = draw(st.sampled_from(("", "TIMER_ROLL_TIMES\x012\x02TIMER_ORDER\x01100\x02")))
    text = (
        f"TIMER_DELIVER_MS\x01{draw(_MOMENTS)}\x02REAL_TOPIC\x01{draw(st.sampled_from(_VALUES))}"
        f"\x02REAL_QID\x01{draw(st.sampled_from(_VALUES))}\x02{rolled}TIMER_OUT_MS\x01{SLOT_MS}\x02"
    ).encode()
    return text


def texts() -> st.SearchStrategy[bytes]:
    """Property texts: Java's, ours, and others that may end anywhere."""
    pairs = st.lists(_PAIRS, max_size=8).map(b"".join)
    ours = st.tuples(pairs, _tails()).map(b"".join)
    return st.one_of(pairs, ours, pairs.map(lambda text: text[:-1]), _ODD_TEXTS)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Messages with all that decides how their record is laid out."""
    topic = draw(st.sampled_from((TIMER_TOPIC, TIMER_TOPIC, "T", "x" * 130, "")))
    return Message(
        topic,
        draw(st.integers(0, 3)),
        draw(st.sampled_from((b"", b"hello", b"\xda\xa3\x20\xa7" * 9, b"x" * 200))),
        draw(texts()),
        flag=draw(st.integers(-5, 5)),
        born_ms=draw(st.integers(-(2**63), 2**63 - 1)),
        born_host=draw(st.sampled_from((V4, V6))),
        prepared_offset=draw(st.integers(-9, 9)),
    )


def log_of(
    messages: Sequence[Message], hosts: Sequence[bytes], start: int = 0, store_ms: int = STORE_MS
) -> list[bytes]:
    """Their records, one behind the other.

    Args:
        messages: At least one.
        hosts: The broker's addresses, taken in turn.
        start: Where the first one stands.
        store_ms: Of all.
    """
    found: list[bytes] = []
    for number, message in enumerate(messages):
        found.append(
            encode_record(
                message,
                queue_offset=number,
                phy_offset=start + sum(map(len, found)),
                store_ms=store_ms,
                store_host=hosts[number % len(hosts)],
            )
        )
    return found
