"""Recall handles, to the byte."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from timermq.pipeline.admission.recall_handle import (
    HandleError,
    decode_handle,
    encode_handle,
    encode_handles,
)
from timermq.timerstore.byte_columns import digits_of

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


@pytest.mark.parametrize("topic", ["T", "TT", "TTT", "é"])
def test_handles_of_many_are_those_of_each(topic: str) -> None:
    """Whatever is left over of three bytes."""
    keys, times = [b"AB12", b"cd34"], [1_700_000_002_001, 1_700_000_003_001]
    handles = encode_handles(
        topic,
        "broker-a",
        digits_of(np.array(times), 13),
        np.frombuffer(b"".join(keys), np.uint8).reshape(2, 4),
    )

    assert [
        encode_handle(topic, "broker-a", time_ms, key.decode())
        for time_ms, key in zip(times, keys, strict=True)
    ] == [handle.tobytes().decode() for handle in handles]


def test_unparsable_time() -> None:
    """A timestamp that is not a number reads as -1, which every check refuses."""
    text = base64.urlsafe_b64encode(b"v1 T broker-a soon U").decode()

    assert decode_handle(text).timestamp_ms == -1


@pytest.mark.parametrize("text", ["", "%%%", "djIgVCBiIDEgVQ==", "djEgVCBi", "x" * 2000, "gICA"])
def test_refused(text: str) -> None:
    """Empty, not Base64, another version, too few items, too long, not UTF-8."""
    with pytest.raises(HandleError):
        decode_handle(text)
