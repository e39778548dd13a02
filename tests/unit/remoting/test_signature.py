"""Tests of request signatures: what is signed, how, and how a signature is compared."""

import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timermq.remoting import Command, FrameConnection, SendHeader, encode_frame
from timermq.remoting.send_run.signed_send_v2 import SignedSendV2, decode_signed_send_v2
from timermq.remoting.signature import SigningKey, signed_content

FIELDS = st.text(st.characters(codec="utf-8"), max_size=6)


def test_a_signature_of_the_cpp_client() -> None:
    """C++ without credentials signs with an empty secret: seen on the wire."""
    ext = {"AccessKey": "", "OnsChannel": "ALIYUN", "topic": "TopicA"}

    assert SigningKey("").sign(signed_content(ext, b"", 63)) == "Sf55A+YZN21izFtJZ+36oINzoLw="


def test_the_content_is_in_the_order_of_names() -> None:
    """Capitals first; the signature itself is left out, the body comes last."""
    ext = {"b": "4", "a": "3", "Signature": "x", "AccessKey": "1", "OnsChannel": "2"}

    assert signed_content(ext, b"5", 479) == b"12345"


@pytest.mark.parametrize(("version", "content"), [(399, b"1"), (400, b"2true1"[1:])])
def test_old_clients_leave_one_parameter_out(version: int, content: bytes) -> None:
    """Up to 4.9.3 the mark of a query by unique key was added after signing."""
    assert signed_content({"a": "1", "_UNIQUE_KEY_QUERY": "true"}, b"", version) == content


def test_half_a_character_is_signed_as_java_does() -> None:
    """Java writes a question mark for what is no UTF-8."""
    assert signed_content({"a": "\ud800"}, b"", 479) == b"?"


@given(st.text(max_size=100), st.binary(max_size=200))
def test_the_digest_is_hmac(secret: str, content: bytes) -> None:
    """Whatever secret and content are."""
    key = secret.encode("utf-8", "replace")

    assert SigningKey(secret).digest(content) == hmac.digest(key, content, hashlib.sha1)


@given(st.text(max_size=30))
def test_any_text_is_compared(signature: str) -> None:
    """A signature of other characters than Base64 is a wrong one, not an error."""
    key = SigningKey("12345678")

    assert key.is_signature(b"x", signature) is (signature == key.sign(b"x"))


def test_a_secret_is_not_shown() -> None:
    """Neither by ``repr`` nor by the attributes."""
    key = SigningKey("top secret")

    assert "top secret" not in repr(key)
    assert not hasattr(key, "__dict__")


SEND_EXT = SendHeader(topic="T", queue_id=0, producer_group="PG").to_v2()


@given(
    st.dictionaries(st.sampled_from("abcdefghijklmn"), FIELDS),
    st.dictionaries(st.sampled_from(["OnsChannel", "SecurityToken", "Other"]), FIELDS),
    st.sets(st.sampled_from("abcdefghijklmn")),
    st.binary(max_size=8),
)
def test_a_send_and_its_command_have_the_same_content(
    letters: dict[str, str], others: dict[str, str], missing: set[str], body: bytes
) -> None:
    """The content by a send's fields is that by all of its parameters."""
    ext = SEND_EXT | letters | others | {"AccessKey": "key", "Signature": "s"}
    ext = {name: value for name, value in ext.items() if name not in missing}
    connection = FrameConnection(decode_send=decode_signed_send_v2)
    connection.receive_data(encode_frame(Command(310, ext=ext, body=body)))
    (request,) = connection.requests()
    expected = signed_content(ext, body, 479)

    if isinstance(request, SignedSendV2):
        assert request.content() == expected
        command = request.to_command()
        assert command.ext == ext
    else:
        assert isinstance(request, Command)
        assert signed_content(request.ext, request.body, 479) == expected
        assert "Other" in ext or set("abefghijm") - set(ext)


def test_a_send_is_read_in_one_pass() -> None:
    """What Java sends, with and without a maximum of tries."""
    for more in ({}, {"l": "16", "n": "broker-a", "SecurityToken": "t"}):
        ext = SEND_EXT | more | {"AccessKey": "key", "Signature": "s"}
        header = json.dumps({"code": 310, "extFields": ext, "opaque": 1}, separators=(",", ":"))

        assert isinstance(decode_signed_send_v2(header.encode()), SignedSendV2)


def test_an_unsigned_send_is_a_command() -> None:
    """Then it is refused like everything that is not signed."""
    header = json.dumps({"code": 310, "extFields": SEND_EXT, "opaque": 1}, separators=(",", ":"))

    assert decode_signed_send_v2(header.encode()) is None
    assert decode_signed_send_v2(b"{") is None
    assert decode_signed_send_v2(b'{"code":310,') is None


@pytest.mark.parametrize("number", ["4", "1.50", "-0.0", "1e3", "123456789012345678901234567890"])
def test_numbers_are_signed_as_they_are_written(number: str) -> None:
    """C++ sends numbers bare; their text is what it has signed."""
    header = f'{{"code":10,"extFields":{{"queueId":{number},"topic":"T"}}}}'.encode()
    connection = FrameConnection()
    connection.receive_data(
        (len(header) + 4).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    )
    (request,) = connection.requests()

    assert isinstance(request, Command)
    assert signed_content(request.ext, b"", 63) == f"{number}T".encode()
