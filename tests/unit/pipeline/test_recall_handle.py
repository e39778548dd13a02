"""Recall handles, to the byte."""

from __future__ import annotations

import base64

import pytest

from timermq.pipeline.recall_handle import HandleError, decode_handle, encode_handle

GOLDEN = "djEgVCBicm9rZXItYSAxNzAwMDAwMDAyMDAxIDdGMDAwMDAxMDAwMDJBOUYwMDAwMDAwMDAwMDAwMDY0"


def test_golden() -> None:
    """The handle of RocketMQ's own example, in both directions."""
    handle = decode_handle(GOLDEN)

    assert (
        encode_handle(handle.topic, handle.broker_name, handle.timestamp_ms, handle.unique_key)
        == GOLDEN
    )
    assert (
        handle.topic,
        handle.broker_name,
        handle.timestamp_ms,
    ) == ("T", "broker-a", 1_700_000_002_001)


def test_unparsable_time() -> None:
    """A timestamp that is not a number reads as -1, which every check refuses."""
    text = base64.urlsafe_b64encode(b"v1 T broker-a soon U").decode()

    assert decode_handle(text).timestamp_ms == -1


@pytest.mark.parametrize("text", ["", "%%%", "djIgVCBiIDEgVQ==", "djEgVCBi", "x" * 2000, "gICA"])
def test_refused(text: str) -> None:
    """Empty, not Base64, another version, too few items, too long, not UTF-8."""
    with pytest.raises(HandleError):
        decode_handle(text)
