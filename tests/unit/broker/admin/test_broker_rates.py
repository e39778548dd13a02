"""Tests of the rates of a broker: what came and went over the last seconds, minutes and days."""

from __future__ import annotations

import pytest

from timermq.broker.admin.broker_rates import BrokerRates, Totals


class Busy:
    """A broker whose counters the test sets."""

    def __init__(self) -> None:
        self.put = 0
        self.time = 0.0
        self.now_ms = 1_700_000_000_000
        self.rates = BrokerRates(
            lambda: Totals(put=self.put),
            now_ms=lambda: self.now_ms,
            current_time=lambda: self.time,
        )

    def go_on(self, *, put: int = 0, looks: int = 1) -> None:
        """Let ten seconds pass before each look, with so many messages put in them."""
        for _ in range(looks):
            self.put += put
            self.time += 10
            self.now_ms += 10_000
            self.rates.sample()

    def pull(self, count: int, *, group: str = "G") -> None:
        """A group is given so many messages of a byte of topic T."""
        self.rates.pulled(("T", group), 0, count=count, size=count, next_offset=count)


def put_rates(busy: Busy) -> tuple[float, ...]:
    """Over ten seconds, a minute, ten minutes."""
    return busy.rates.rates(lambda one: one.put)


def test_a_burst_fades() -> None:
    """It counts within each of the three spans as long as it is within it."""
    busy = Busy()
    busy.go_on(looks=70)
    busy.go_on(put=600)

    assert put_rates(busy) == pytest.approx((60, 10, 1))
    busy.go_on()
    assert put_rates(busy) == pytest.approx((0, 10, 1))
    busy.go_on(looks=6)
    assert put_rates(busy) == pytest.approx((0, 0, 1))
    busy.go_on(looks=60)
    assert put_rates(busy) == (0, 0, 0)


def test_what_came_since_the_last_look_counts() -> None:
    """A broker that no client was connected to has not been looked at for long."""
    busy = Busy()
    busy.put, busy.time = 100, 5.0

    assert put_rates(busy)[0] == pytest.approx(10)


def test_days_begin_at_midnight() -> None:
    """The counters of the last two are kept."""
    busy = Busy()
    busy.go_on(put=1, looks=2 * 8_640)

    assert busy.put - 8_640 <= busy.rates.morning.put < busy.put
    assert busy.rates.morning.put - busy.rates.yesterday_morning.put == 8_640


def test_what_a_group_got() -> None:
    """Messages, bytes and pulls, by topic and group; what the broker's own topics gave is apart."""
    busy = Busy()
    busy.pull(60)
    busy.pull(0)
    busy.pull(6)
    busy.rates.pulled(("rmq_sys_wheel_timer", "G"), 0, count=5, size=5, next_offset=5)
    got = busy.rates.got_by_group["T", "G"]

    assert (got.count, got.size, got.calls) == (66, 66, 2)
    assert (busy.rates.found_count, busy.rates.missed_count) == (3, 1)
    assert (busy.rates.got_count, busy.rates.user_got_count) == (71, 66)


def test_what_is_deleted_and_made_again_counts_from_0() -> None:
    """The sum of all never falls."""
    busy = Busy()
    busy.pull(60)
    busy.pull(0, group="Empty")
    busy.rates.forget_topic("T")
    busy.rates.forget_group("H")
    busy.pull(6)

    assert busy.rates.got_by_group["T", "G"].count == 6
    assert busy.rates.got_count == 66
    busy.rates.forget_group("G")
    assert (busy.rates.got_by_group, busy.rates.got_count) == ({}, 66)
    assert busy.rates.pulled_to == {}, "also of who was given nothing"
    assert busy.rates.given_to == {}
