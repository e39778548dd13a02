"""The places that ``--lease`` may name."""

from __future__ import annotations

import pytest

from timermq.broker.replication.lease_place import LeasePlace


def test_a_place_with_all_parts() -> None:
    """Endpoints, the key, and how long the lease holds."""
    place = LeasePlace.parse("etcds://one:2379,[::1]:2380/orders/broker%20a?ttl=2.5")

    assert place == LeasePlace(
        endpoints=(("one", 2379), ("::1", 2380)),
        name="orders/broker a",
        is_secure=True,
        ttl_ms=2_500,
    )


def test_ten_seconds_without_a_time() -> None:
    """The default leaves a margin of a second and four renewals."""
    place = LeasePlace.parse("etcd://one:2379/a")

    assert (place.ttl_ms, place.is_secure) == (10_000, False)
    assert place.timing(1_000).held_ms == 9_000


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("one:2379/a", "expected etcd://"),
        ("http://one:2379/a", "expected etcd://"),
        ("etcd://one:2379", "expected etcd://"),
        ("etcd://one:2379/", "expected etcd://"),
        ("etcd://one/a", "expected HOST:PORT"),
        ("etcd://one:0/a", "expected HOST:PORT"),
        ("etcd://one:65536/a", "expected HOST:PORT"),
        ("etcd://one:1,/a", "expected HOST:PORT"),
        ("etcd://user:word@one:1/a", "a user stands in lease_user"),
        ("etcd://one:1/a?ttl=soon", "expected seconds in ttl"),
        ("etcd://one:1/a?ttl=", "expected seconds in ttl"),
        ("etcd://one:1/a?tll=3", "expected ttl alone"),
    ],
)
def test_another_form_is_refused(url: str, expected: str) -> None:
    """The error says what stands where."""
    with pytest.raises(ValueError, match=expected):
        LeasePlace.parse(url)


@pytest.mark.parametrize("text", ["0.5", "301"])
def test_a_time_out_of_range_is_refused(text: str) -> None:
    """The times of the lease have bounds, whatever the margin."""
    with pytest.raises(ValueError, match="ttl: expected"):
        LeasePlace.parse(f"etcd://one:1/a?ttl={text}").timing(100)
