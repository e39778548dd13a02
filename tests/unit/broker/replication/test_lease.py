"""The record of a lease as an engine keeps it."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from timermq.broker.replication.lease import RECORD_SIZE_MAX, LeaseError, LeaseRecord

RECORDS = st.builds(
    LeaseRecord,
    holder=st.text(),
    instance=st.text(),
    epoch=st.integers(0, 2**31 - 1),
    ttl_ms=st.integers(0, 2**31),
    renewals=st.integers(0, 2**63),
    is_given_up=st.booleans(),
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
    "text",
    [
        "[]",
        "{}",
        '{"epoch": true, "holder": "", "inSync": [], "instance": "", "renewals": 0, "ttlMs": 1}',
        '{"epoch": -1, "holder": "", "inSync": [], "instance": "", "renewals": 0, "ttlMs": 1}',
        '{"epoch": 1, "holder": 7, "inSync": [], "instance": "", "renewals": 0, "ttlMs": 1}',
        '{"epoch": 1, "holder": "", "inSync": ["1"], "instance": "", "renewals": 0, "ttlMs": 1}',
        " " * (RECORD_SIZE_MAX + 1),
        "[" * 60_000,
    ],
)
def test_other_json_is_refused(text: str) -> None:
    """Each field has its type and its range."""
    with pytest.raises(LeaseError, match="expected"):
        LeaseRecord.decode(text.encode())
