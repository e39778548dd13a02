"""Tests of retry policies: what Java's files say, and the pauses that follow."""

import pytest

from timermq.broker.config_fields import ConfigTableError
from timermq.broker.consuming.retry_policy import (
    CustomizedRetryPolicy,
    ExponentialRetryPolicy,
    read_retry_policy,
)

WHERE = "config/subscriptionGroup.json: g"


def test_a_list_begins_with_its_third_delay_and_stays_at_its_last() -> None:
    """Java's lists have the two shortest delay levels in front, which no retry takes."""
    policy = CustomizedRetryPolicy(next=(1, 5, 10, 30))

    assert [policy.delay_ms(times) for times in (-1, 0, 1, 2, 99)] == [10, 10, 30, 30, 30]
    assert CustomizedRetryPolicy(next=(7,)).delay_ms(0) == 7


def test_delays_grow_up_to_their_maximum() -> None:
    """The default doubles from five seconds up to two hours."""
    policy = ExponentialRetryPolicy()

    assert [policy.delay_ms(times) for times in (-1, 0, 1, 2, 10, 11, 10_000)] == [
        5_000,
        5_000,
        10_000,
        20_000,
        5_120_000,
        7_200_000,
        7_200_000,
    ]
    assert ExponentialRetryPolicy(initial=3, multiplier=1).delay_ms(40) == 3


@pytest.mark.parametrize(
    ("value", "policy"),
    [
        (None, None),
        ({}, None),
        ({"type": "CUSTOMIZED"}, None),
        ({"type": "EXPONENTIAL"}, None),
        ({"type": "EXPONENTIAL", "customizedRetryPolicy": {"next": [1]}}, None),
        ({"customizedRetryPolicy": {"next": [1, 2]}}, CustomizedRetryPolicy(next=(1, 2))),
        (
            {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1, "max": 9, "x": 0}},
            ExponentialRetryPolicy(initial=1, max=9),
        ),
    ],
)
def test_reading(value: object, policy: object) -> None:
    """Only a policy of the type that is named counts; without one the group has none."""
    assert read_retry_policy(WHERE, value) == policy


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "Expected `object`, got `array`"),
        ({"type": "LINEAR"}, "Invalid enum value 'LINEAR' - at `$.type`"),
        ({"customizedRetryPolicy": {"next": []}}, "Expected `array` of length >= 1"),
        ({"customizedRetryPolicy": {"next": [-1]}}, "Expected `int` >= 0"),
        ({"customizedRetryPolicy": {"next": [0] * 1001}}, "Expected `array` of length <= 1000"),
        ({"exponentialRetryPolicy": {"multiplier": 0}}, "Expected `int` >= 1"),
        ({"exponentialRetryPolicy": {"max": "9"}}, "Expected `int`, got `str`"),
        ({"\udc8d": 1}, "'utf-8' codec can't encode character '\\udc8d'"),
    ],
)
def test_what_is_no_policy(value: object, reason: str) -> None:
    """The place is named: a guess would overwrite what the operator has."""
    with pytest.raises(ConfigTableError) as caught:
        read_retry_policy(WHERE, value)

    assert str(caught.value).startswith(f"{WHERE}: groupRetryPolicy: {reason}")
