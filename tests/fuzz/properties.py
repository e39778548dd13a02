"""Property texts: every reader says the same of one text."""

from __future__ import annotations

from timermq.pipeline.admission.admission import TimerAdmission
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.remoting.stored_message import parse_properties, property_text
from timermq.timerstore.index_keys import keys_in
from timermq.timerstore.message import Message
from timermq.timerstore.properties import encode, find, join_run, parse, remove, validate

NOW_MS = 1_700_000_000_000


def seeds() -> list[bytes]:
    """Usual texts, and separators where none belong."""
    return [
        b"KEYS\x01a b\x02TAGS\x01t\x02UNIQ_KEY\x01AB12\x02WAIT\x01true\x02",
        b"TIMER_DELAY_MS\x011000\x02DELAY\x013\x02TIMER_DELIVER_MS\x011700000005000",
        b"TIMER_DELAY_SEC\x01-5\x02TIMER_OUT_MS\x011\x02REAL_TOPIC\x01T\x02",
        b"\x01\x02\x02\x01a\x01b\x01c\x02a\x01\x02",
        b"TIMER_DELIVER_MS\x01" + b"9" * 30 + b"\x02\xff\x01\xed\xa0\x80\x02",
    ]


def fuzz_one(data: bytes) -> None:
    """Any bytes: two readers agree, a well formed text is coded back, admission has an answer."""
    pairs = parse(data)
    assert parse_properties(data.decode("utf-8", "replace")) == pairs
    for name in [*list(pairs)[:8], "KEYS", "TAGS", ""]:
        found = find(data, name.encode()) if name else None
        if "\ufffd" not in name and name:
            assert pairs.get(name) == (None if found is None else found.decode("utf-8", "replace"))
            assert name not in parse(remove(data, name.encode()))
    assert all(keys_in(data))
    if validate(data) is None and pairs:
        assert parse(encode(pairs)) == pairs
        assert property_text(pairs) == encode(pairs)
    assert join_run([data]) is None or validate(data) is None
    _check_admission(data)


def _check_admission(data: bytes) -> None:
    """One by one and together the same is decided, and nothing but a decision comes out."""
    message = Message("T", 0, b"x", data)
    one, many = (TimerAdmission(TimerOptions(), lambda _: False) for _ in range(2))
    alone, (together,) = one.admit(message, NOW_MS), many.admit_all([message], NOW_MS)
    assert type(alone) is type(together)
    assert one.counts == many.counts
