"""Tests of bodies of admin requests."""

from __future__ import annotations

import pytest

from timermq.remoting.admin_body import (
    decode_config,
    decode_configs,
    decode_properties,
    encode_properties,
)
from timermq.remoting.bodies import BodyFormatError


def test_properties_in_both_directions() -> None:
    """Lines key=value; later ones win, comments and spaces around are left out."""
    assert decode_properties(b"a=1\n# b=2\n\n! c\n d = x=y \na=3") == {"a": "3", "d": "x=y"}
    assert decode_properties(encode_properties({"a": "1", "b": ""})) == {"a": "1", "b": ""}


@pytest.mark.parametrize("body", [b"a", b"=\n-", b"\xff"])
def test_what_are_no_properties(body: bytes) -> None:
    """Refused with the connection open."""
    with pytest.raises(BodyFormatError):
        decode_properties(body)


def test_configurations() -> None:
    """One object, or a list of some under a name."""
    assert decode_config(b'{"a":1}') == {"a": 1}
    assert decode_configs(b'{"list":[{}]}', "list") == [{}]
    for body in (b"[]", b"1", b"", b'{"list":[]}', b'{"list":1}', b"{}"):
        with pytest.raises(BodyFormatError):
            decode_configs(body, "list")
