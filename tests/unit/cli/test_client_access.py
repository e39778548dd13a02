"""Tests of what the verbs come in with."""

import argparse
import ssl
from pathlib import Path

import pytest
import trustme

from timermq.cli.arguments import OneLineParser, UsageError
from timermq.cli.client_access import ClientAccess, add_client_access
from timermq.cli.configuration import environment_layer
from timermq.cli.main import build_parser
from timermq.cli.verbs import VERBS


def parsed(*words: str) -> argparse.Namespace:
    """The arguments of some words."""
    parser = OneLineParser()
    add_client_access(parser)
    return parser.parse_args(words)


def access(*words: str) -> ClientAccess:
    """The access that a verb makes of some words."""
    return ClientAccess.of(parsed(*words))


def test_without_anything_no_request_is_signed_and_nothing_is_secret() -> None:
    """Without a flag or a variable there is no account and no TLS."""
    found = access()

    assert (found.namesrv, found.credentials, found.tls) == ("127.0.0.1:9876", None, None)


def test_an_account_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both variables, or it is a mistake; a broker's configuration passes them over."""
    monkeypatch.setenv("TIMERMQ_ACCESS_KEY", "key")
    with pytest.raises(UsageError, match="TIMERMQ_ACCESS_KEY and TIMERMQ_SECRET_KEY: expected"):
        access()
    monkeypatch.setenv("TIMERMQ_SECRET_KEY", "hidden-secret")
    found = access()

    assert repr(found.credentials) == "Credentials(access_key='key')"
    assert "hidden" not in repr(found)
    assert environment_layer({"TIMERMQ_SECRET_KEY": "hidden-secret"}).values == {}


def test_an_account_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RocketMQ's tools.yml; it counts before the environment."""
    monkeypatch.setenv("TIMERMQ_ACCESS_KEY", "another")
    path = tmp_path / "tools.yml"
    path.write_text("accessKey: rocketmq2\nsecretKey: 12345678\n")

    assert repr(access("--credentials", str(path)).credentials) == (
        "Credentials(access_key='rocketmq2')"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hidden-secret",
        "accessKey: a\nsecretKey: 'hidden-secret",
        "accessKey: a\nsecret: hidden-secret",
        "accessKey: a",
        "secretKey: hidden-secret",
        "accessKey: [a]\nsecretKey: hidden-secret",
        "\x00",
    ],
)
def test_files_that_are_something_else(tmp_path: Path, text: str) -> None:
    """They are refused, and nothing of them is shown."""
    path = tmp_path / "tools.yml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        access("--credentials", str(path))

    assert str(caught.value).startswith(str(path))
    assert "hidden" not in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    """A missing file of credentials is a FileNotFoundError, as any missing file is."""
    with pytest.raises(FileNotFoundError):
        access("--credentials", "/none")


@pytest.mark.parametrize("flag", ["--ca", "--cert", "--cert-key"])
def test_a_certificate_that_is_not_there(tmp_path: Path, flag: str) -> None:
    """The error names it, which OpenSSL's own does not."""
    there, gone = tmp_path / "there.pem", str(tmp_path / "gone.pem")
    trustme.CA().issue_cert("client.example").private_key_and_cert_chain_pem.write_to_path(there)
    words = {"--ca": str(there), "--cert": str(there), "--cert-key": str(there), flag: gone}

    with pytest.raises(FileNotFoundError) as caught:
        access("--tls", *(word for pair in words.items() for word in pair))
    assert gone == caught.value.filename


def test_tls_checks_who_answers(tmp_path: Path) -> None:
    """Always, by the certificates that are named or by those of the system."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    shown = authority.issue_cert("client.example")
    shown.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    shown.private_key_pem.write_to_path(tmp_path / "key.pem")
    ca, both, key = (str(tmp_path / f"{name}.pem") for name in ("ca", "both", "key"))

    for words in (
        ["--tls"],
        ["--tls", "--ca", ca],
        ["--tls", "--ca", ca, "--cert", both],
        ["--tls", "--ca", ca, "--cert", both, "--cert-key", key],
    ):
        context = access(*words).tls
        assert context is not None
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    for words, reason in (
        (["--ca", ca], "argument --ca: expected with --tls"),
        (["--cert-key", key], "argument --cert-key: expected with --tls"),
        (["--tls", "--cert-key", key], "argument --cert-key: expected with --cert"),
        (["--tls", "--ca", key], "expected certificates, PEM"),
        (["--tls", "--cert", key], "expected a certificate and its key without a password"),
    ):
        with pytest.raises(UsageError, match=reason):
            access(*words)


@pytest.mark.parametrize(
    "words",
    [
        ["send", "T"],
        ["consume", "T", "--group", "G"],
        ["cancel", "T", "H"],
        ["reschedule", "T", "H", "--delay", "1s"],
        ["pending"],
        ["top"],
        ["clock"],
        ["quarantine", "list"],
    ],
)
def test_every_verb_that_speaks_to_brokers_has_the_flags(words: list[str]) -> None:
    """And none takes a secret as an argument."""
    parser = build_parser()
    args = parser.parse_args([*words, "--tls", "--credentials", "/dev/null"])

    assert (args.tls, args.credentials) == (True, "/dev/null")
    assert words[0] in VERBS
    with pytest.raises(UsageError):
        parser.parse_args([*words, "--secret-key", "x"])
