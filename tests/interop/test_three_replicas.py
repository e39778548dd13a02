"""Three brokers of one name, as processes: each has an id of its own, whichever of them leads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interop.serving import Broker, StartBroker
from interop.test_guarded_pair import follows
from interop.test_pair import LONG, run_verb
from waiting import wait_until

FLAGS = ("--set", "mapped_file_size_commit_log=4194304", "--set", "ha_listen_port=0")


def ids(master: Broker) -> dict[str, str]:
    """Addresses to ids, as the master's name server has them."""
    status = run_verb("cluster", "status", "--namesrv", master.namesrv, "--json")
    rows = [json.loads(line) for line in status.stdout.splitlines()]
    return {row["address"]: row["id"] for row in rows}


@pytest.mark.slow
def test_ids_stay_different_when_the_lead_goes_over(start: StartBroker, tmp_path: Path) -> None:
    """A master takes the id that its successor has left: handed over, and passed over."""
    a = start(tmp_path / "a", *FLAGS)
    b = start(tmp_path / "b", *FLAGS, "--follow", a.listen, "--set", "broker_id=1")
    c = start(tmp_path / "c", *FLAGS, "--follow", a.listen, "--set", "broker_id=2")
    assert run_verb("send", "T", "hello", "--namesrv", a.namesrv).returncode == 0
    for one in (b, c):
        follows(one, a)

    def check(master: Broker, *expected: tuple[Broker, str]) -> None:
        for one, broker_id in expected:
            if broker_id != "0":
                follows(one, master)
        wanted = {one.listen: broker_id for one, broker_id in expected}
        wait_until(lambda: ids(master) == wanted, LONG, told=lambda: str(ids(master)), pause=0.5)

    switched = run_verb("demote", a.listen, "--to", c.listen)
    assert switched.returncode == 0, switched.stderr
    check(c, (a, "2"), (b, "1"), (c, "0"))

    forced = run_verb("promote", b.listen, "--force")
    assert forced.returncode == 0, forced.stderr
    check(b, (a, "2"), (b, "0"), (c, "1"))
