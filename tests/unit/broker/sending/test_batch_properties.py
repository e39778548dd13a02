"""The properties of a batch as a whole, and those of its parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_rig import STORE, Rig, send_ext
from timermq.broker.sending.batch_properties import BatchProperties
from timermq.remoting import Command
from timermq.timerstore.batch import BatchPart, join_batch
from timermq.timerstore.properties import PROPERTIES_SIZE_MAX, encode, parse

TRACE = "traceparent\x0100-4bf92f35-00f067aa-01\x02"
JAVA = "UNIQ_KEY\x01BATCH\x02WAIT\x01true\x02"
"""The properties that Java's client gives to a batch."""

names = st.sampled_from(
    ["UNIQ_KEY", "WAIT", "TAGS", "KEYS", "traceparent", "a", "xa", "é", "DELAY", "TIMER_DELAY_MS"]
)
tables = st.dictionaries(names, st.sampled_from(["1", "x y", "é", "a"]), max_size=6)
DELAYS = {"DELAY", "TIMER_DELAY_MS"}


def send(rig: Rig, properties: str, *parts: bytes, body: bytes = b"x") -> Command:
    """The answer to a batch of parts with these properties."""
    batch = join_batch(BatchPart(0, body, part) for part in parts)
    return rig.call(10, {**send_ext("T", properties), "batch": "1"}, batch)


@given(tables, tables, st.booleans())
def test_a_part_s_own_properties_count(
    batch: dict[str, str], part: dict[str, str], ends: bool
) -> None:
    """It gets what it has not, but nothing of the batch's own sending, and one moment."""
    text = encode(part) if ends else encode(part).removesuffix(b"\x02")
    given_to_it = {
        name: value
        for name, value in batch.items()
        if name not in {"UNIQ_KEY", "WAIT"} and (name not in DELAYS or not DELAYS & part.keys())
    }
    shared = BatchProperties.of(encode(batch))
    found = shared.added_to(text)

    assert parse(found) == {**given_to_it, **part}
    assert found.startswith(text)
    assert len(found) <= len(text) + 1 + shared.size


def test_what_java_s_client_says_is_no_property_of_a_part() -> None:
    """Then the text of a part stays the very same; so it does without any."""
    part = b"TAGS\x01t"

    assert BatchProperties.of(JAVA.encode()).added_to(part) is part
    assert BatchProperties.of(b"").added_to(part) is part


async def test_trace_context_reaches_each_message() -> None:
    """The unique keys stay those of the parts, and so does a context of their own."""
    rig = Rig()
    parts = (b"UNIQ_KEY\x01K1\x02", b"UNIQ_KEY\x01K2\x02traceparent\x01own\x02", b"TAGS\x01t")
    answer = send(rig, JAVA + TRACE, *parts)
    found = [record.properties_dict() for record in rig.records("T")]

    assert answer.code == 0
    context = "00-4bf92f35-00f067aa-01"
    assert [one["traceparent"] for one in found] == [context, "own", context]
    assert [one["UNIQ_KEY"] for one in found[:2]] == ["K1", "K2"]
    assert found[2]["UNIQ_KEY"] != "BATCH"
    assert found[2]["TAGS"] == "t"


@pytest.mark.parametrize("size", [4_000, PROPERTIES_SIZE_MAX - 200])
async def test_a_batch_does_not_grow_beyond_its_limit(size: int) -> None:
    """A few bytes a part are not to become tens of kilobytes each."""
    rig = Rig()
    most = STORE.max_message_size
    count = most // (size + 100)
    properties = f"a\x01{'x' * size}\x02"
    fits = send(rig, properties, *[b""] * count)
    refused = send(rig, properties, *[b""] * (count + 20))

    assert fits.code == 0
    assert (refused.code, (refused.remark or "").split(":")[0]) == (13, "BODY_SIZE")
    assert len(rig.records("T")) == min(count, 32)


async def test_properties_that_are_too_long_together() -> None:
    """The store takes 32,767 bytes for a message; the batch is refused as a whole."""
    rig = Rig()
    answer = send(rig, f"a\x01{'x' * 20_000}\x02", b"", f"b\x01{'x' * 20_000}\x02".encode())

    assert answer.code == 13
    assert rig.records("T") == []
