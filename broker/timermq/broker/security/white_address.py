"""Addresses that need no signature, in the forms of RocketMQ's ``plain_acl.yml``.

========================  ========================================================================
``192.168.0.7``, ``::1``  this address
``*``, ``*.*.*.*``        every address (``*:*:*:*:*:*:*:*`` too)
``192.168.0-10.*``        one range (``3-7`` or ``*``) in the second to fourth place, and ``*``
                          behind it; for IPv6 in the last place, or in the one before ``*``
``192.168.0.{1,2}``       the listed last places
``10.0.0.1,10.0.0.2``     the listed addresses
nothing                   no address
========================  ========================================================================

Java compares IPv6 as text; here addresses are numbers, so every spelling of one is the same, and an
IPv4 address that came over IPv6 (``::ffff:1.2.3.4``) is the IPv4 one. What Java takes for a form
that it is not (a range in the first place, numbers behind a range, which it passes over) is
refused.

Source: Java ``RemoteAddressStrategyFactory``, ``AclUtils``.
"""

from __future__ import annotations

import ipaddress

import attrs

_EVERYWHERE = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class WhiteAddressError(ValueError):
    """The text has none of the forms; who wrote it corrects it."""


@attrs.frozen
class WhiteAddress:
    """The addresses that one such text matches."""

    ranges: tuple[tuple[int, int, int], ...]
    """IP version, first and last address of each run of addresses, as numbers."""

    @classmethod
    def parse(cls, text: str) -> WhiteAddress:
        """Read one text.

        Raises:
            WhiteAddressError: It has none of the forms.
        """
        text = text.strip()
        if not text:
            return cls(())
        if text in _EVERYWHERE:
            return cls(((4, 0, 2**32 - 1), (6, 0, 2**128 - 1)))
        if text.endswith("}"):
            return cls(tuple(_one(one) for one in _listed(text)))
        if "," in text:
            return cls(tuple(_one(one) for one in text.split(",") if one))
        if "*" in text or "-" in text:
            return cls((_range6(text) if ":" in text else _range4(text),))
        return cls((_one(text),))

    def matches(self, host: str) -> bool:
        """Whether a peer's address is one of these; a text that is no address is none."""
        address = parse_address(host)
        if address is None:
            return False
        version, number = address.version, int(address)
        return any(kind == version and low <= number <= high for kind, low, high in self.ranges)


def parse_address(host: str) -> Address | None:
    """A peer's address without its zone, as IPv4 where it is that; None when it is no address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _one(text: str) -> tuple[int, int, int]:
    address = parse_address(text.strip())
    if address is None:
        raise _error(text)
    return address.version, int(address), int(address)


def _listed(text: str) -> list[str]:
    front, brace, rest = text.partition("{")
    # The braces are the last place: nothing but a separator may stand before them.
    if not brace or front[-1:] not in (".", ":") or "{" in rest:
        raise _error(text)
    return [front + one.strip() for one in rest[:-1].split(",") if one.strip()]


def _range4(text: str) -> tuple[int, int, int]:
    places = text.split(".")
    if len(places) != 4:
        raise _error(text)
    at = next(index for index, place in enumerate(places) if "*" in place or "-" in place)
    # Java looks at nothing behind the first range.
    if at == 0 or any(place.strip() != "*" for place in places[at + 1 :]):
        raise _error(text)
    front = [_number(text, place, 10, 255) for place in places[:at]]
    low, high = _bounds(text, places[at], 10, 255)
    after = 3 - at
    head = int.from_bytes(bytes(front), "big")
    return (
        4,
        ((head << 8) + low) << (8 * after),
        ((((head << 8) + high) + 1) << (8 * after)) - 1,
    )


def _range6(text: str) -> tuple[int, int, int]:
    front, _, last = text.rpartition(":")
    after = 0
    if last == "*" and "-" in front:
        front, _, last = front.rpartition(":")
        after = 1
    if "*" in front or "-" in front:
        raise _error(text)
    if front.endswith(":"):
        front += ":"  # the second colon of ``::`` was taken for the separator
    low, high = _bounds(text, last, 16, 0xFFFF)
    head = _head6(text, front, 7 - after)
    shift = 16 * after
    return 6, ((head << 16) + low) << shift, ((((head << 16) + high) + 1) << shift) - 1


def _head6(text: str, front: str, places: int) -> int:
    """The first ``places`` groups of 16 bits as a number; ``::`` stands for the missing ones."""
    left, colons, right = front.partition("::")
    before = [one for one in left.split(":") if one]
    behind = [one for one in right.split(":") if one]
    missing = places - len(before) - len(behind)
    if "::" in right or missing < 0 or (missing > 0) is not bool(colons):
        raise _error(text)
    groups = [*before, *(["0"] * missing), *behind]
    number = 0
    for group in groups:
        number = (number << 16) + _number(text, group, 16, 0xFFFF)
    return number


def _bounds(text: str, place: str, base: int, most: int) -> tuple[int, int]:
    place = place.strip()
    if place == "*":
        return 0, most
    first, minus, last = place.partition("-")
    low, high = _number(text, first, base, most), _number(text, last, base, most)
    if not minus or low > high:
        raise _error(text)
    return low, high


def _number(text: str, place: str, base: int, most: int) -> int:
    digits = place.strip()
    if digits.isascii() and digits.isalnum() and len(digits) <= 4:
        try:
            number = int(digits, base)
        except ValueError:
            raise _error(text) from None
        if number <= most:
            return number
    raise _error(text)


def _error(text: str) -> WhiteAddressError:
    return WhiteAddressError(
        f"expected an address, *, a range as 192.168.0-10.* or a list as 192.168.0.{{1,2}}, "
        f"found {ascii(text)[:100]}"
    )
