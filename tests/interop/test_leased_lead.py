"""The lease that settings name, in a real etcd: certificates, a password, and who holds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
import trustme

from broker_rig import BROKER
from etcd_peer import HOST, free_port, running_etcd
from timermq.broker.options import BrokerOptions
from timermq.broker.replication.lease import LeaseError, LeaseRecord
from timermq.broker.replication.leased_lead import holder_of, lease_of
from timermq.broker.security.tls import TlsError

pytestmark = [pytest.mark.interop]

RECORD = LeaseRecord(holder="a:1", instance="a/1", epoch=1, ttl_ms=10_000)


def options(lease: str, **more: str) -> BrokerOptions:
    """A broker with this lease."""
    changed: dict[str, Any] = {"lease": lease, "ha_listen_port": 0, **more}
    return attrs.evolve(BROKER, **changed)


async def test_the_holder_is_known_before_a_start(tmp_path: Path) -> None:
    """A broker that comes back sees whom to follow; one holder for each broker name."""
    with running_etcd(tmp_path) as etcd:
        own = options(etcd.url("orders", "5"))
        assert await holder_of(own) is None
        lease = lease_of(own)
        await lease.replace(RECORD, (await lease.read()).version)
        await lease.aclose()

        assert await holder_of(own) == "a:1"
        assert await holder_of(attrs.evolve(own, broker_name="another")) is None
        assert etcd.ctl("get", f"orders/{own.broker_name}", "--print-value-only").strip() == (
            RECORD.encode().decode()
        )


async def test_an_engine_that_is_away_holds_up_no_start() -> None:
    """The broker waits as a follower for what it will say."""
    assert await holder_of(options(f"etcd://{HOST}:{free_port()}/orders")) is None


async def test_a_password_is_read_for_each_login(tmp_path: Path) -> None:
    """A file that was put right counts without a restart; a right to the one key is enough."""
    file = tmp_path / "password"
    with running_etcd(tmp_path) as etcd:
        etcd.ctl("user", "add", "root:secret")
        etcd.ctl("user", "grant-role", "root", "root")
        etcd.ctl("user", "add", "broker:secret")
        etcd.ctl("role", "add", "lease")
        key = f"orders/{BROKER.broker_name}"
        etcd.ctl("role", "grant-permission", "lease", "readwrite", key)
        etcd.ctl("user", "grant-role", "broker", "lease")
        etcd.ctl("auth", "enable")
        url = etcd.url("orders", "30")
        lease = lease_of(options(url, lease_user="broker", lease_password_file=str(file)))
        with pytest.raises(LeaseError, match="password of broker"):
            await lease.read()
        file.write_text("x" * 2_000)
        with pytest.raises(LeaseError, match="at most 1024 bytes"):
            await lease.read()
        file.write_text("secret\n")
        absent = await lease.read()
        assert (await lease.replace(RECORD, absent.version))[0]
        assert not (await lease.replace(RECORD, absent.version))[0]
        await lease.aclose()


async def test_certificates_of_the_settings(tmp_path: Path) -> None:
    """The broker knows etcd by its authority, and shows its own certificate."""
    authority = trustme.CA()
    issued = authority.issue_cert(HOST)
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "cert.pem").write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))
    authority.cert_pem.write_to_path(tmp_path / "trust.pem")
    trusted = {"lease_tls_trust_cert_path": str(tmp_path / "trust.pem")}
    shown = {
        "lease_tls_cert_path": str(tmp_path / "cert.pem"),
        "lease_tls_key_path": str(tmp_path / "key.pem"),
    }
    with running_etcd(tmp_path, certificates=tmp_path) as etcd:
        url = etcd.url("orders", "30")
        lease = lease_of(options(url, **trusted, **shown))
        assert (await lease.replace(RECORD, "0"))[0]
        await lease.aclose()
        with pytest.raises(LeaseError, match=str(etcd.port)):
            await lease_of(options(url, **trusted)).read()


@pytest.mark.parametrize("setting", ["lease_tls_trust_cert_path", "lease_tls_cert_path"])
def test_files_that_cannot_be_used_are_an_error_at_the_start(tmp_path: Path, setting: str) -> None:
    """An operator sees it before the broker serves."""
    (tmp_path / "bad.pem").write_text("no certificate")
    with pytest.raises(TlsError, match=r"bad\.pem"):
        lease_of(options("etcds://etcd.example:2379/a", **{setting: str(tmp_path / "bad.pem")}))
