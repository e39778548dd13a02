"""Real clients with an account and over TLS: what they may is done, all else is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from interop.conftest import Client
from interop.serving import serving

HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.timeout(900),  # the Go client is built from its sources, once a machine
]

ACCESS_KEY, SECRET = "RocketMQ", "12345678"
RULES = f"""\
accounts:
- accessKey: {ACCESS_KEY}
  secretKey: {SECRET}
  topicPerms: [Allowed=PUB|SUB]
  groupPerms: [Group=SUB]
"""
RIGHT = ["SENT Allowed", "REFUSED Forbidden", "GOT hello", "DONE"]
WRONG = ["REFUSED Allowed", "DONE"]
SECONDS = "30"
"""How long a client waits for its message."""


@attrs.frozen
class Guarded:
    """The flags of a broker that asks who it is."""

    flags: tuple[str, ...]

    @classmethod
    def make(cls, directory: Path, *, tls: bool = False) -> Guarded:
        """With the rules of this module, and with TLS alone when asked for."""
        (directory / "plain_acl.yml").write_text(RULES)
        settings = ["acl_enable=true", f"acl_file={directory}/plain_acl.yml"]
        if tls:
            issued = trustme.CA().issue_cert("127.0.0.1")
            issued.private_key_and_cert_chain_pem.write_to_path(directory / "both.pem")
            settings.append("tls_server_mode=enforcing")
            settings.append(f"tls_server_cert_path={directory}/both.pem")
        return cls(tuple(word for setting in settings for word in ("--set", setting)))


@attrs.frozen
class Certified:
    """Certificates of a broker that asks for one, and of its clients, by one authority."""

    directory: Path
    authority: trustme.CA

    @classmethod
    def make(cls, directory: Path) -> Certified:
        """The authority, and what is written of it."""
        made = cls(directory, trustme.CA())
        made.authority.cert_pem.write_to_path(directory / "ca.pem")
        return made

    def flags(self) -> tuple[str, ...]:
        """Of a broker that takes no client without a certificate."""
        issued = self.authority.issue_cert("127.0.0.1")
        issued.private_key_and_cert_chain_pem.write_to_path(self.directory / "both.pem")
        settings = {
            "tls_server_mode": "enforcing",
            "tls_server_cert_path": self.directory / "both.pem",
            "tls_server_need_client_auth": "require",
            "tls_server_trust_cert_path": self.directory / "ca.pem",
        }
        return tuple(
            word for name, value in settings.items() for word in ("--set", f"{name}={value}")
        )

    def properties(self, name: str, signed_by: trustme.CA | None) -> str:
        """Path of a ``tls.properties`` that checks the broker, and shows a certificate or none."""
        lines = ["tls.test.mode.enable=false", "tls.client.authServer=true"]
        lines.append(f"tls.client.trustCertPath={self.directory}/ca.pem")
        if signed_by is not None:
            issued = signed_by.issue_cert("client.example")
            key = load_pem_private_key(issued.private_key_pem.bytes(), None)
            encoded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            (self.directory / f"{name}.key").write_bytes(encoded)
            issued.cert_chain_pems[0].write_to_path(self.directory / f"{name}.pem")
            lines.append(f"tls.client.keyPath={self.directory}/{name}.key")
            lines.append(f"tls.client.certPath={self.directory}/{name}.pem")
        path = self.directory / f"{name}.properties"
        path.write_text("\n".join(lines))
        return str(path)


def talk(
    command: Sequence[str], home: Path, access_key: str = ACCESS_KEY, secret: str = SECRET
) -> list[str]:
    """What a client of an account printed, without the codes of refusals."""
    run = subprocess.run(
        command,
        env={**os.environ, "HOME": str(home), "ACCESS_KEY": access_key, "SECRET_KEY": secret},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    words = [line.split() for line in run.stdout.splitlines()]
    said = [" ".join(line[:2]) for line in words if line and line[0] in _SAID]
    assert said[-1:] == ["DONE"], run.stdout[-2000:] + run.stderr[-2000:]
    return said


_SAID = {"SENT", "REFUSED", "GOT", "DONE"}


def test_java_client(tmp_path: Path, java_client: Client) -> None:
    """Over TLS alone: the right key, the wrong one, and the log, which shows no secret."""
    guarded = Guarded.make(tmp_path, tls=True)
    with serving(tmp_path / "store", *guarded.flags) as broker:
        arguments = ("AccessClient", broker.namesrv, "Allowed", "Forbidden", "Group")
        right = talk(java_client(*arguments, SECONDS, "tls"), tmp_path)
        wrong = talk(java_client(*arguments, SECONDS, "tls"), tmp_path, secret="87654321")
        plain = talk(java_client(*arguments, SECONDS, "plain"), tmp_path)

    assert (right, wrong, plain) == (RIGHT, WRONG, WRONG)
    log = broker.log.read_text()
    assert "logins failed" in log
    assert "missing right" in log
    assert "plain connection refused" in log
    assert SECRET not in log
    assert "87654321" not in log


def test_java_client_with_a_certificate(tmp_path: Path, java_client: Client) -> None:
    """Who shows one of the right authority is served; none, or one of another, is refused."""
    certified = Certified.make(tmp_path)
    known = certified.properties("known", certified.authority)
    others = {
        "none": certified.properties("none", None),
        "stranger": certified.properties("stranger", trustme.CA()),
    }
    with serving(tmp_path / "store", *certified.flags()) as broker:
        arguments = ("AccessClient", broker.namesrv, "Allowed", "Also", "Group", SECONDS)
        served = talk(java_client(*arguments, known), tmp_path)
        refused = {
            name: talk(java_client(*arguments, path), tmp_path) for name, path in others.items()
        }

    assert served == ["SENT Allowed", "SENT Also", "GOT hello", "DONE"]
    assert refused == {"none": WRONG, "stranger": WRONG}


def test_java_client_without_tls(tmp_path: Path, java_client: Client) -> None:
    """The same account over a plain connection, where that is taken."""
    with serving(tmp_path / "store", *Guarded.make(tmp_path).flags) as broker:
        arguments = ("AccessClient", broker.namesrv, "Allowed", "Forbidden", "Group")

        assert talk(java_client(*arguments, SECONDS, "plain"), tmp_path) == RIGHT


def test_go_client(tmp_path: Path, go_client: Client) -> None:
    """The right key and the wrong one; no release of it has TLS."""
    with serving(tmp_path / "store", *Guarded.make(tmp_path).flags) as broker:
        arguments = ("access", broker.namesrv, "Allowed", "Forbidden", "Group")

        assert talk(go_client(*arguments, SECONDS), tmp_path) == RIGHT
        assert talk(go_client(*arguments, SECONDS), tmp_path, "stranger") == WRONG


def test_cpp_client(tmp_path: Path) -> None:
    """The right key and the wrong one."""
    program = [sys.executable, str(HERE / "cpp_access_client.py")]
    with serving(tmp_path / "store", *Guarded.make(tmp_path).flags) as broker:
        arguments = [*program, broker.namesrv, "Allowed", "Forbidden", "Group"]

        assert talk([*arguments, SECONDS], tmp_path) == RIGHT
        assert talk([*arguments, SECONDS], tmp_path, secret="87654321") == WRONG
