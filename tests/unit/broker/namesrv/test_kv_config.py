"""Tests of texts by namespace and key."""

import pytest

from timermq.broker.namesrv.kv_config import ENTRIES_MAX, TEXT_LENGTH_MAX, KvConfigTable
from timermq.broker.refusal import RefusedError


def test_texts_are_kept_and_forgotten() -> None:
    """A change counts once; the file has RocketMQ's shape."""
    table = KvConfigTable()
    table.put("N", "k", "v")
    table.delete("N", "none")

    assert table.changes == 1
    assert table.to_json() == {"configTable": {"N": {"k": "v"}}}
    other = KvConfigTable()
    other.load({"configTable": {"N": {"k": "v"}}, "more": 1})
    assert other.get("N", "k") == "v"
    assert other.to_json() == {"configTable": {"N": {"k": "v"}}, "more": 1}
    other.delete("N", "k")
    assert other.get("N", "k") is None
    assert other.namespace("N") == {}
    assert other.namespace("none") is None


def test_limits() -> None:
    """Of texts and of their length; one that is there can be replaced."""
    table = KvConfigTable()
    for number in range(ENTRIES_MAX):
        table.put("N", str(number), "v")
    table.put("N", "0", "w")

    with pytest.raises(RefusedError):
        table.put("N", "one more", "v")
    with pytest.raises(RefusedError):
        table.put("N", "0", "v" * TEXT_LENGTH_MAX)
    assert table.get("N", "0") == "w"
