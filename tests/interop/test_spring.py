"""RocketMQ's starter for Spring Boot: a template sends by delay and moment, a listener receives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from interop.conftest import skip_without_java
from interop.java_built import compiled_once
from interop.java_peer import SOURCES, JavaPeer, fetch_pom
from interop.serving import serving
from interop.test_ways_of_sending import transcript_of

pytestmark = [pytest.mark.slow, pytest.mark.interop]

STARTER_VERSION = "2.3.4"
TOPIC = "SpringTopic"


def test_a_spring_application(tmp_path: Path) -> None:
    """Every message arrives once, and not before its moment."""
    skip_without_java()
    spring = SOURCES / "spring"
    version = f"-Dspring.starter.version={STARTER_VERSION}"
    jars = fetch_pom(f"rocketmq-spring-{STARTER_VERSION}", spring / "pom.xml", version)
    classes = compiled_once([spring / "SpringClient.java"], jars)
    command = JavaPeer(classes, jars).command("SpringClient", tmp_path)
    with serving(tmp_path / "store") as broker:
        # A topic that is there when the listener starts: it looks for new ones every 30 s.
        send = [sys.executable, "-m", "timermq.cli", "send", TOPIC, "first"]
        subprocess.run([*send, "--namesrv", broker.namesrv], check=True, timeout=60)
        transcript = transcript_of([*command, broker.namesrv, TOPIC, "SpringGroup"])

    assert transcript.sent.keys() == {"plain", "delay", "seconds", "at"}
    for body, (message_id, moment) in transcript.sent.items():
        got = transcript.only(body)
        assert (got.message_id, got.tag) == (message_id, "tag")
        assert moment == "-" or int(moment) <= got.stored_ms
