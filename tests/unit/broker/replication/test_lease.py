"""The record of a lease as an engine keeps it."""

from __future__ import annotations

import json

import hypothesis.strategies as st
import pytest
from hypothesis import given

from timermq.broker.replication.lease import RECORD_SIZE_MAX, LeaseError, LeaseRecord

RECORD = LeaseRecord(holder="a:1", instance="a/1", epoch=1, ttl_ms=10_000)
RECORDS = st.builds(
    LeaseRecord,
    holder=st.text(),
    instance=st.text(),
    epoch=st.integers(0, 2**31 - 1),
    ttl_ms=st.integers(0, 2**31),
    renewals=st.integers(0, 2**63),
    is_given_up=st.booleans(),
    position=st.integers(0, 2**63),
    in_sync=st.frozensets(st.integers()),
)


@given(record=RECORDS)
def test_a_record_is_read_as_written(record: LeaseRecord) -> None:
    """No text of an address and no number changes on the way."""
    assert LeaseRecord.decode(record.encode()) == record


@given(data=st.binary())
def test_any_bytes_are_a_record_or_refused(data: bytes) -> None:
    """What another program wrote there is no mistake of ours."""
    with pytest.raises(LeaseError, match="expected"):
        LeaseRecord.decode(data)


@pytest.mark.parametrize(
    "changed",
    [
        {"epoch": True},
        {"epoch": -1},
        {"epoch": 2**31},
        {"ttlMs": "1"},
        {"position": None},
        {"holder": 7},
        {"inSync": ["1"]},
        {"inSync": 1},
    ],
)
def test_a_field_of_another_type_or_range_is_refused(changed: dict[str, object]) -> None:
    """The error names the field."""
    fields = json.loads(RECORD.encode()) | changed
    with pytest.raises(LeaseError, match=f"expected .* in {next(iter(changed))}"):
        LeaseRecord.decode(json.dumps(fields).encode())


@pytest.mark.parametrize("text", ["[]", "{}", " " * (RECORD_SIZE_MAX + 1), "[" * 60_000])
def test_other_json_is_refused(text: str) -> None:
    """It is not taken for a lease that no broker holds."""
    with pytest.raises(LeaseError, match="expected"):
        LeaseRecord.decode(text.encode())
