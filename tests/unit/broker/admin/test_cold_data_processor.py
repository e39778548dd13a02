"""Tests of thresholds of cold reads, which are kept and shown."""

from __future__ import annotations

import json

import attrs
import pytest

from broker_rig import BROKER, Rig


def thresholds(rig: Rig) -> dict[str, int]:
    """Those that the broker shows; it counts no cold bytes."""
    info = json.loads(rig.call(2003).body)
    assert (info["runtimeTable"], info["globalAcc"]) == ({}, 0)
    found: dict[str, int] = info["configTable"]
    return found


async def test_thresholds_are_kept() -> None:
    """They are shown until they are removed; one of a group that has none is removed, too."""
    rig = Rig()
    assert thresholds(rig) == {}
    assert rig.call(2001, body=b"G=1024\nH=2048\n").code == 0
    assert rig.call(2001, body=b"G=4096").code == 0
    assert thresholds(rig) == {"G": 4096, "H": 2048}
    for group in (b"G", b"none"):
        assert rig.call(2002, body=group).code == 0
    assert thresholds(rig) == {"H": 2048}


@pytest.mark.parametrize(
    ("body", "code", "rule"),
    [
        (b"G=1\nH=fast", 29, "COLD_DATA"),
        (b"G=1\nH=-1", 29, "COLD_DATA"),
        (b"G=1\na/b=1", 29, "GROUP_NAME"),
        (b"G=1\nH", 1, "BODY"),
        (b"\xff", 1, "BODY"),
        (b"G=1\nH=1\nI=1", 1, "GROUPS_MAX"),
    ],
)
async def test_what_no_threshold_can_be(body: bytes, code: int, rule: str) -> None:
    """The refusal names the rule, and nothing of the request is kept."""
    rig = Rig(options=attrs.evolve(BROKER, subscription_groups_max=2))
    answer = rig.call(2001, body=body)

    assert (answer.code, (answer.remark or "").partition(":")[0]) == (code, rule)
    assert thresholds(rig) == {}


async def test_a_group_to_be_removed_is_text() -> None:
    """Bytes that are no text are refused."""
    assert (Rig().call(2002, body=b"\xff").remark or "").startswith("BODY: group: expected UTF-8")


async def test_the_kernel_reads_ahead() -> None:
    """To ask for that changes nothing; it cannot be told not to."""
    rig = Rig()
    assert rig.call(2004, {"READ_AHEAD_MODE": "0"}).code == 0
    answer = rig.call(2004, {"READ_AHEAD_MODE": "1"})

    assert (answer.code, answer.remark) == (
        29,
        "READ_AHEAD: expected 0, found '1': the kernel always reads ahead",
    )
