"""Accounts in files of RocketMQ's form."""

from __future__ import annotations

import pytest

from timermq.remoting import Command
from timermq.remoting.credentials import Credentials, CredentialsError
from timermq.remoting.signature import SigningKey


def test_an_account_in_a_file() -> None:
    """Every value is taken as it stands, also one that looks like a number."""
    found = Credentials.decode(b"accessKey: a\nsecretKey: 0012\nsecurityToken: yes\n")
    signed = found.sign(Command(10))

    assert signed.ext == {
        "AccessKey": "a",
        "SecurityToken": "yes",
        "Signature": SigningKey("0012").sign(b"ayes"),
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hidden-secret",
        b"accessKey: a\nsecretKey: hidden-secret\nmore: hidden-secret",
        b"accessKey: a\nsecretKey: [hidden-secret]",
        b"accessKey: a\nsecretKey: ''",
        b"secretKey: hidden-secret",
        b"{" * 10_000,
        b"\xff\xfe",
    ],
)
def test_what_is_no_account(data: bytes) -> None:
    """It is refused without a word of its content."""
    with pytest.raises(CredentialsError, match="expected") as caught:
        Credentials.decode(data)

    assert "hidden" not in str(caught.value)
