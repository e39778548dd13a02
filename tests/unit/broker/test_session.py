"""Tests of sessions: the host of a client and its language."""

import pytest

from broker_rig import RecordingSession
from timermq.broker.session import pack_born_host
from timermq.remoting import LanguageCode
from timermq.timerstore.message import format_host


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("192.0.2.7", "192.0.2.7:80"),
        ("::1", "127.0.0.1:80"),
        ("::ffff:192.0.2.7", "192.0.2.7:80"),
        ("2001:db8::1", "0.0.0.0:80"),
        ("fe80::1%eth0", "0.0.0.0:80"),
        ("", "0.0.0.0:80"),
    ],
)
def test_hosts_are_written_as_ipv4(host: str, written: str) -> None:
    """C++ consumers misread records with IPv6 hosts, so none are written."""
    assert format_host(pack_born_host(host, 80)) == written


def test_languages() -> None:
    """Two clients need special care and are told by their language."""
    assert RecordingSession(language=LanguageCode.CPP).session.is_cpp
    assert RecordingSession(language=LanguageCode.GO).session.is_go
    assert not RecordingSession().session.is_cpp
    assert not RecordingSession().session.is_go
