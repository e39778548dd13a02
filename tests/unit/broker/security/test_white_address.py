"""Tests of the forms of white addresses."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timermq.broker.security.white_address import WhiteAddress, WhiteAddressError

V4 = st.ip_addresses(v=4).map(str)
V6 = st.ip_addresses(v=6)
PLACE = st.integers(0, 255)


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("192.168.0.7", ["192.168.0.7", "::ffff:192.168.0.7"], ["192.168.0.70", "::1", "", "x"]),
        ("*", ["1.2.3.4", "fe80::1%eth0"], ["name"]),
        ("*.*.*.*", ["1.2.3.4", "::1"], []),
        ("*:*:*:*:*:*:*:*", ["1.2.3.4", "::1"], []),
        ("", [], ["1.2.3.4", "::1"]),
        ("  ", [], ["1.2.3.4"]),
        ("192.168.0.*", ["192.168.0.0", "192.168.0.255"], ["192.168.1.0", "192.167.255.255"]),
        ("192.168.0-10.*", ["192.168.0.1", "192.168.10.255"], ["192.168.11.0"]),
        ("192.168.*.*", ["192.168.11.0"], ["192.169.0.0"]),
        ("192.5-6.*.*", ["192.5.0.0", "192.6.255.255"], ["192.7.0.0", "192.4.255.255"]),
        ("10.0.0.3-7", ["10.0.0.3", "10.0.0.7"], ["10.0.0.2", "10.0.0.8"]),
        ("192.168.0.{1,3}", ["192.168.0.1", "192.168.0.3"], ["192.168.0.2", "192.168.0.13"]),
        ("10.0.0.1,10.0.0.9", ["10.0.0.1", "10.0.0.9"], ["10.0.0.2"]),
        ("::1", ["0:0:0:0:0:0:0:1", "::1%lo"], ["::2"]),
        ("1050:0:0:0:5:600:300c:*", ["1050::5:600:300c:1"], ["1050::5:600:300d:1"]),
        ("2::ac5:78:1-200:*", ["2::ac5:78:1:0", "2::ac5:78:200:ffff"], ["2::ac5:78:201:0"]),
        ("2::ac5:78:7-8", ["2::ac5:78:7"], ["2::ac5:78:9"]),
        ("fe80::*", ["fe80::1", "fe80::ffff"], ["fe80::1:0"]),
        ("1050::0005:0600:300c:{1,2}", ["1050::5:600:300c:2"], ["1050::5:600:300c:3"]),
    ],
)
def test_forms(text: str, yes: list[str], no: list[str]) -> None:
    """Those of RocketMQ's documentation and tests, on both sides of their bounds."""
    white = WhiteAddress.parse(text)

    assert [host for host in yes if not white.matches(host)] == []
    assert [host for host in no if white.matches(host)] == []


@pytest.mark.parametrize(
    "text",
    [
        "name",
        "1.2.3",
        "1.2.3.256",
        "1-2.3.4.5",
        "*.1.2.3",
        "1.2.3-1.*",
        "1.2.-3.*",
        "1.2.3-.4",
        "1.2.3-4.5",
        "1.2.3-300.*",
        "1.2.*",
        "1.2.3.{1,300}",
        "1.2.3{1,2}",
        "{1,2}",
        "1.2.3.{1,{2}",
        "1.2.3.4,x",
        "1::2::*",
        "1:2:3:4:5:6:7:8-9:*",
        "::1-*",
        "g::*",
        "::5-2",
        "1.2.3.x-5",
        "1.2.3.é-5",
    ],
)
def test_what_is_no_form(text: str) -> None:
    """It is refused, and quoted."""
    with pytest.raises(WhiteAddressError) as caught:
        WhiteAddress.parse(text)

    assert "found '" in str(caught.value)
    assert str(caught.value)[-2] in ascii(text)


@given(V4, V4)
def test_one_address_matches_itself_alone(one: str, other: str) -> None:
    """However the other one is near."""
    assert WhiteAddress.parse(one).matches(other) is (one == other)
    assert WhiteAddress.parse(one).matches(one)


@given(PLACE, PLACE, PLACE, PLACE, st.integers(1, 3), PLACE, PLACE)
def test_a_range_matches_as_the_places_say(
    a: int, b: int, c: int, d: int, place: int, first: int, last: int
) -> None:
    """Against a comparison place by place."""
    low, high = sorted((first, last))
    host = [a, b, c, d]
    front = [10, 20, 30][:place]
    text = ".".join([*map(str, front), f"{low}-{high}", *["*"] * (3 - place)])
    host[:place] = front
    white = WhiteAddress.parse(text)

    assert white.matches(".".join(map(str, host))) is (low <= host[place] <= high)


@given(V6, st.integers(0, 0xFFFF), st.integers(0, 0xFFFF))
def test_a_range_of_ipv6_matches_in_every_spelling(
    address: ipaddress.IPv6Address, first: int, last: int
) -> None:
    """Against the number of the last place; mapped IPv4 addresses are those of IPv4."""
    low, high = sorted((first, last))
    groups = address.exploded.split(":")
    text = ":".join([*groups[:7], f"{low:x}-{high:x}"])
    expected = address.ipv4_mapped is None and low <= int(groups[7], 16) <= high

    assert WhiteAddress.parse(text).matches(address.compressed) is expected
    assert WhiteAddress.parse(text).matches(address.exploded) is expected
