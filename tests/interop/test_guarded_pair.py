"""A pair of brokers that take signed requests alone, over TLS alone: of each other, too."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import attrs
import pytest
import trustme

from interop.serving import Broker, StartBroker
from interop.test_pair import LONG, log_end, log_has, run_verb
from waiting import wait_until

TOPIC = "Guarded"
ACCESS_KEY, SECRET = "the-replicas", "hidden-secret"


@attrs.frozen
class Guarded:
    """A directory with certificate, rules and account, and what uses them."""

    directory: Path

    @classmethod
    def make(cls, directory: Path) -> Guarded:
        """With an authority of its own, and one account."""
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        issued.private_key_and_cert_chain_pem.write_to_path(directory / "both.pem")
        authority.cert_pem.write_to_path(directory / "trust.pem")
        account = f"accessKey: {ACCESS_KEY}\nsecretKey: {SECRET}\n"
        (directory / "tools.yml").write_text(account)
        rules = f"accounts:\n- {{accessKey: {ACCESS_KEY}, secretKey: {SECRET}, admin: true}}\n"
        (directory / "plain_acl.yml").write_text(rules)
        return cls(directory)

    def flags(self) -> tuple[str, ...]:
        """Of a broker of the pair."""
        settings = {
            "acl_enable": "true",
            "acl_file": self.directory / "plain_acl.yml",
            "credentials_file": self.directory / "tools.yml",
            "ha_listen_port": 0,
            "mapped_file_size_commit_log": 4 << 20,
            "replica_tls_enable": "true",
            "tls_client_trust_cert_path": self.directory / "trust.pem",
            "tls_server_cert_path": self.directory / "both.pem",
            "tls_server_mode": "enforcing",
        }
        return tuple(
            word for name, value in settings.items() for word in ("--set", f"{name}={value}")
        )

    def verb(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the program with the account, over TLS."""
        ca, account = str(self.directory / "trust.pem"), str(self.directory / "tools.yml")
        return run_verb(*words, "--tls", "--ca", ca, "--credentials", account)

    def send(self, broker: Broker, *bodies: str) -> None:
        """Send messages to a broker that leads; each has to be stored."""
        for body in bodies:
            done = self.verb("send", TOPIC, body, "--namesrv", broker.namesrv)
            assert done.returncode == 0, done.stderr


def follows(broker: Broker, master: Broker) -> None:
    """Wait until a broker is linked to a master, since it last began to follow."""

    def is_linked() -> bool:
        linked = [
            json.loads(line).get("master")
            for line in broker.log.read_text().splitlines()
            if "master is followed" in line
        ]
        return linked[-1:] == [master.listen]

    wait_until(is_linked, LONG, told=lambda: broker.log.read_text()[-3000:])


@pytest.mark.slow
def test_the_lead_goes_over_among_guarded_brokers(start: StartBroker, tmp_path: Path) -> None:
    """Following, a planned switch and a fence: all that is asked is signed, and over TLS."""
    guarded = Guarded.make(tmp_path)
    first = start(tmp_path / "a", *guarded.flags())
    second = start(tmp_path / "b", *guarded.flags(), "--follow", first.listen)
    follows(second, first)
    guarded.send(first, "before")

    switched = guarded.verb("demote", first.listen, "--to", second.listen, "--json")
    assert switched.returncode == 0, switched.stderr
    follows(first, second)
    guarded.send(second, "between")
    wait_until(lambda: log_end(first.store) >= log_end(second.store), LONG)

    refused = guarded.verb("promote", first.listen)
    assert "MASTER_ANSWERS" in refused.stderr
    forced = guarded.verb("promote", first.listen, "--force", "--json")
    assert json.loads(forced.stdout)["epoch"] == 3
    follows(second, first)
    assert log_has(second, "fenced: another replica leads")
    guarded.send(first, "behind")

    words = ("consume", TOPIC, "--group", "G", "--from", "first", "--count", "3")
    read = guarded.verb(*words, "--timeout", "60s", "--json", "--namesrv", first.namesrv)
    bodies = [json.loads(line)["body"] for line in read.stdout.splitlines()]
    assert sorted(bodies) == ["before", "behind", "between"]
    for one in (first, second):
        assert SECRET not in one.log.read_text()
