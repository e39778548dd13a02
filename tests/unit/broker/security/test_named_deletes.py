"""Deletes and timers by ways that ask for no right: nothing of another account's is cancelled."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from broker_rig import BROKER, Rig, send_ext
from signed import sign, write_rules
from timermq.pipeline.records.timer_record import TIMER_TOPIC

RULES = """accounts:
- {accessKey: victimV, secretKey: hidden-secret, topicPerms: [V=PUB|SUB]}
- {accessKey: accountA, secretKey: hidden-secret, topicPerms: [A=PUB|SUB]}
- {accessKey: powerless, secretKey: hidden-secret}
"""
TRACE = "RMQ_SYS_TRACE_TOPIC"
DELETE = "TIMER_DEL_UNIQKEY\x01V+K\x02TIMER_DELAY_MS\x015000\x02"
HALF = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01UU\x02"


@pytest.mark.parametrize(
    ("who", "topic", "properties", "sys_flag", "rule"),
    [
        ("powerless", TRACE, DELETE, "0", "TRACE_PLAIN"),
        ("powerless", TRACE, "TIMER_DELAY_MS\x015000\x02", "0", "TRACE_PLAIN"),
        ("powerless", TRACE, HALF, "4", "TRACE_PLAIN"),
        ("accountA", "A", DELETE, "0", "DELETE_TOPIC"),
        ("accountA", "A", DELETE + HALF, "4", "DELETE_TOPIC"),
    ],
    ids=["trace, delete", "trace, timer", "trace, half", "own, delete", "own, half"],
)
async def test_what_is_not_ones_own(
    tmp_path: Path, who: str, topic: str, properties: str, sys_flag: str, rule: str
) -> None:
    """Refused by name, and nothing is stored."""
    path = write_rules(tmp_path, RULES)
    rig = Rig(options=attrs.evolve(BROKER, acl_enable=True, acl_file=path))
    own = "UNIQ_KEY\x01K\x02TIMER_DELAY_MS\x015000\x02"
    rig.handle(sign(rig.command(10, send_ext("V", own), b"waits"), "victimV"))
    end = rig.broker.store.commit_log.max_offset
    ext = send_ext(topic, properties, sysFlag=sys_flag)
    (answer,) = rig.handle(sign(rig.command(10, ext, b"0"), who))

    assert answer.code == 13
    assert (answer.remark or "").startswith(f"{rule}: ")
    assert rig.broker.store.commit_log.max_offset == end
    assert len(rig.records(TIMER_TOPIC)) == 1
    assert len(rig.broker.transactions.open) == 0
