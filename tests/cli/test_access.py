"""The verbs with an account and over TLS, against a broker in another process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trustme

from cli.program import SMALL_FILES, Ran, RunProgram
from interop.serving import Broker, serving
from signed import SECRET, write_rules

pytestmark = pytest.mark.slow


@attrs.frozen
class Guarded:
    """A broker that takes nothing but TLS and accounts."""

    broker: Broker
    folder: Path

    def words(self, *words: str, access_key: str) -> list[str]:
        """The command line of somebody who has an account."""
        tools = self.folder / f"{access_key}.yml"
        tools.write_text(f"accessKey: {access_key}\nsecretKey: {SECRET}\n")
        secure = ["--tls", "--ca", str(self.folder / "ca.pem"), "--credentials", str(tools)]
        return [*words, "--namesrv", self.broker.namesrv, *secure]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Such a broker, configured by its environment-free flags."""
    folder = tmp_path_factory.mktemp("guarded")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    settings = (
        "acl_enable=true",
        f"acl_file={write_rules(folder)}",
        "tls_server_mode=enforcing",
        f"tls_server_cert_path={folder}/both.pem",
    )
    flags = [f"--set={setting}" for setting in settings]
    with serving(folder / "store", *SMALL_FILES, *flags) as broker:
        yield Guarded(broker, folder)


def test_send_and_consume(timermq: RunProgram, guarded: Guarded) -> None:
    """Each verb by the rights of its account."""
    sent = timermq(*guarded.words("send", "T", "hello", "--json", access_key="producer"))
    got = timermq(
        *guarded.words("consume", "T", "--group", "G", "--from", "first", access_key="consumer"),
        *("--count", "1", "--timeout", "15s", "--json"),
    )

    assert (sent.code, got.code) == (0, 0), sent.err + got.err
    assert [row["body"] for row in got.rows] == ["hello"]
    assert [row["id"] for row in got.rows] == [sent.rows[0]["message_id"]]


@pytest.mark.parametrize(
    "words",
    [["top", "--once", "--json"], ["clock", "--json"], ["pending", "--json"]],
)
def test_what_operators_ask(timermq: RunProgram, guarded: Guarded, words: list[str]) -> None:
    """Administrators are answered; others are told in one line that they may not."""
    allowed = timermq(*guarded.words(*words, access_key="the-admin"))
    refused = timermq(*guarded.words(*words, access_key="producer"))

    assert (allowed.code, allowed.err) == (0, "")
    assert refused.code == 1
    assert "NO_PERMISSION" in refused.err
    assert refused.err.count("\n") == 1


def test_an_account_of_the_environment(
    timermq: RunProgram, guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one with a wrong secret."""

    def send(secret: str) -> Ran:
        monkeypatch.setenv("TIMERMQ_ACCESS_KEY", "producer")
        monkeypatch.setenv("TIMERMQ_SECRET_KEY", secret)
        secure = ["--tls", "--ca", str(guarded.folder / "ca.pem")]
        return timermq("send", "T", "x", "--namesrv", guarded.broker.namesrv, *secure)

    assert send(SECRET).code == 0
    wrong = send("wrong-secret")
    assert wrong.code == 1
    assert "NO_PERMISSION" in wrong.err
    assert "wrong-secret" not in wrong.err + guarded.broker.log.read_text()


def test_without_tls_or_trust(timermq: RunProgram, guarded: Guarded) -> None:
    """It is said in one line why there is no answer."""
    words = ["clock", "--namesrv", guarded.broker.namesrv]
    plain, strange = timermq(*words), timermq(*words, "--tls")

    assert (plain.code, strange.code) == (1, 1)
    assert "no TLS: the certificate is not accepted" in strange.err
    assert plain.err.count("\n") == strange.err.count("\n") == 1


def test_a_broker_with_bad_rules_does_not_start(timermq: RunProgram, tmp_path: Path) -> None:
    """The file, the place, what was expected; a certificate that is none is told so too."""
    (tmp_path / "plain_acl.yml").write_text("accounts: 7")
    store = ["serve", "--store", str(tmp_path / "store"), "--listen", "127.0.0.1:0"]
    store += ["--namesrv-listen", "127.0.0.1:0", "--set", "acl_enable=true"]
    missing = timermq(*store)
    bad = timermq(*store, "--set", f"acl_file={tmp_path}/plain_acl.yml")
    write_rules(tmp_path)
    store += ["--set", f"acl_file={tmp_path}/plain_acl.yml"]
    other = timermq(*store, "--set", f"tls_server_cert_path={tmp_path}/plain_acl.yml")

    assert (missing.code, bad.code) == (2, 1)
    assert "acl_file: expected the path of plain_acl.yml" in missing.err
    assert bad.err.splitlines()[-1] == (
        f"timermq: {tmp_path}/plain_acl.yml: accounts: expected a list, found something else"
    )
    assert other.code == 1
    assert other.err.splitlines()[-1].startswith(f"timermq: certificate {tmp_path}/plain_acl.yml")
