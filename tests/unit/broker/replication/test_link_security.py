"""Who may link: secrets, certificates, and peers without TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

import attrs
import pytest
import trustme

from broker_rig import BROKER
from timermq.broker.options import BrokerOptions
from timermq.broker.replication.link_security import (
    SECRET_SIZE_MAX,
    SECRET_SIZE_MIN,
    SecretError,
    follower_context,
    master_context,
    plain_refusal,
    read_secret,
)
from timermq.broker.security.tls import TlsError


def with_certificate(directory: Path, authority: trustme.CA) -> BrokerOptions:
    """Options with a certificate of this authority, which is the one that is trusted."""
    issued = authority.issue_cert("replica.example")
    issued.private_key_and_cert_chain_pem.write_to_path(directory / "replica.pem")
    authority.cert_pem.write_to_path(directory / "trust.pem")
    return attrs.evolve(
        BROKER,
        ha_tls_cert_path=str(directory / "replica.pem"),
        ha_tls_trust_cert_path=str(directory / "trust.pem"),
    )


def test_a_secret_is_a_line_of_a_file(tmp_path: Path) -> None:
    """The end of the line does not count: editors add it."""
    path = tmp_path / "secret"
    path.write_bytes(b"s" * SECRET_SIZE_MIN + b"\r\n")

    assert read_secret(str(path)) == b"s" * SECRET_SIZE_MIN
    assert read_secret(None) is None


@pytest.mark.parametrize("size", [0, SECRET_SIZE_MIN - 1, SECRET_SIZE_MAX + 1, 1 << 20])
def test_a_secret_has_bounds(tmp_path: Path, size: int) -> None:
    """A short one is guessed; a large file is another one than was meant."""
    path = tmp_path / "secret"
    path.write_bytes(b"s" * size)

    with pytest.raises(SecretError, match="expected 16 to 1024 bytes, found"):
        read_secret(str(path))


def test_a_secret_that_cannot_be_read(tmp_path: Path) -> None:
    """The start fails, and names setting and file."""
    with pytest.raises(SecretError, match=r"ha_secret_file .*gone: No such file"):
        read_secret(str(tmp_path / "gone"))


def test_both_sides_show_certificates(tmp_path: Path) -> None:
    """Each checks that of the other."""
    options = with_certificate(tmp_path, trustme.CA())
    for context in (master_context(options), follower_context(options)):
        assert context is not None
        assert context.verify_mode is ssl.CERT_REQUIRED
    assert master_context(BROKER) is None
    assert follower_context(BROKER) is None


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    """They are named at the start."""
    options = with_certificate(tmp_path, trustme.CA())
    (tmp_path / "trust.pem").write_text("no PEM")
    with pytest.raises(TlsError, match=r"trusted certificates .*trust.pem"):
        master_context(options)
    (tmp_path / "replica.pem").unlink()
    with pytest.raises(TlsError, match=r"certificate .*replica.pem"):
        follower_context(options)


@pytest.mark.parametrize(
    ("host", "is_here"),
    [("127.0.0.1", True), ("::1", True), ("::ffff:127.0.0.2", True), ("10.1.1.1", False)],
)
def test_a_peer_without_tls(host: str, is_here: bool) -> None:
    """One on this machine may link; any may where the setting says so."""
    refused = plain_refusal(BROKER, host)

    assert (refused is None) == is_here
    assert plain_refusal(attrs.evolve(BROKER, ha_plain_enable=True), host) is None
    if refused is not None:
        assert refused.name == "HA_PLAIN"
