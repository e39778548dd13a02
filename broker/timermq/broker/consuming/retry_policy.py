"""How long a group waits between two tries of a message, where its configuration says so itself.

Without a policy of its own a group waits by delay levels: level 3 first, then one more each time.
RocketMQ's remoting broker does that always, and leaves the policies to its proxy.

Source: Java ``GroupRetryPolicy``, ``CustomizedRetryPolicy``, ``ExponentialRetryPolicy``.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ..config_fields import read_struct

STEPS_MAX = 1_000
"""Delays in one list."""
_FIRST_STEP = 2
"""Java's lists begin as the delay levels do, and the first try takes their third delay."""
_EXPONENT_MAX = 32

_DelayMs = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class CustomizedRetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A list of delays; the last one stays."""

    next: Annotated[tuple[_DelayMs, ...], msgspec.Meta(min_length=1, max_length=STEPS_MAX)]
    """Milliseconds. The first retry takes the third, as the list begins like the delay levels."""

    def delay_ms(self, reconsume_times: int) -> int:
        """The backoff before the next try of a message, in milliseconds, after so many tries."""
        return self.next[min(max(reconsume_times, 0) + _FIRST_STEP, len(self.next) - 1)]


class ExponentialRetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Delays that grow by a factor."""

    initial: _DelayMs = 5_000
    max: _DelayMs = 7_200_000
    multiplier: Annotated[int, msgspec.Meta(ge=1, lt=2**31)] = 2

    def delay_ms(self, reconsume_times: int) -> int:
        """The backoff before the next try of a message, in milliseconds, after so many tries."""
        exponent = min(max(reconsume_times, 0), _EXPONENT_MAX)
        factor: int = self.multiplier**exponent
        return min(self.max, self.initial * factor)


RetryPolicy = CustomizedRetryPolicy | ExponentialRetryPolicy


class _GroupRetryPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    type: Literal["CUSTOMIZED", "EXPONENTIAL"] = "CUSTOMIZED"
    customized_retry_policy: CustomizedRetryPolicy | None = None
    exponential_retry_policy: ExponentialRetryPolicy | None = None


def read_retry_policy(where: str, value: object) -> RetryPolicy | None:
    """The policy in a group's ``groupRetryPolicy``; None when it names none of its own.

    Args:
        where: Names the group in errors.
        value: The object as the JSON reader gave it; None for none.

    Raises:
        ConfigTableError: It is something else than a policy.
    """
    if value is None:
        return None
    policy = read_struct(f"{where}: groupRetryPolicy", value, _GroupRetryPolicy)
    if policy.type == "EXPONENTIAL":
        return policy.exponential_retry_policy
    return policy.customized_retry_policy
