"""Several brokers of one supervisor, as RocketMQ's own client and admin tool see them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.program import SMALL_FILES
from interop.several import serving_several
from interop.talking import talking

pytestmark = [pytest.mark.slow, pytest.mark.interop]

TOPIC, GROUP = "SeveralTopic", "SeveralGroup"
COUNT, DELAY_MS = 24, 3_000
NAMES = {"broker-a-0", "broker-a-1"}


def test_a_java_client_spreads(tmp_path: Path, java_client: Callable[..., list[str]]) -> None:
    """It sends to both in turns and gets all from both, and clusterList names both (106, 28)."""
    with serving_several(tmp_path / "stores", 2, *SMALL_FILES) as several:
        with talking(java_client("MqAdmin", several.namesrv)) as admin:
            made = admin.ask(f"updateTopic -c DefaultCluster -t {TOPIC} -r 2 -w 2")
            listed = [line.split() for line in admin.ask("clusterList").splitlines()]
        rows = [row for row in listed if row and row[0] == "DefaultCluster"]
        with talking(java_client("Member", several.namesrv, TOPIC, GROUP)) as member:
            begun_ms = time.time() * 1000
            member.say(f"{COUNT} {DELAY_MS} later")
            sent = [line.split() for line in member.hear("SENT later", COUNT)]
            got = [line.split() for line in member.hear("GOT later", COUNT)]

    assert 2 == made.count("success")
    assert [(f"broker-a-{number}", "0", several.addresses[number]) for number in (0, 1)] == sorted(
        (row[1], row[2], row[3]) for row in rows
    )
    assert {"true"} == {row[-1] for row in rows}
    assert NAMES == {words[1] for words in sent} == {words[1] for words in got}
    assert set(Counter(words[0] for words in got).values()) == {1}
    assert all(int(words[2]) - begun_ms >= DELAY_MS - 1_000 for words in got)
