"""The speaker of a request: the account that signed it, and the topics it may send to.

A connection may carry requests of several accounts, and access control checks all that arrive
together before any of them is done. So the speaker belongs to the request; registrations of a
client, and deferred work, keep the speaker that they began with.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs


def _every_topic(_topic: str) -> bool:
    return True


def _no_topic(_topic: str) -> bool:
    return False


@attrs.frozen(eq=False)
class Speaker:
    """An account in a request; there is one an account, until the rules are read again."""

    account: str = ""
    """Access key; empty without access control, and for speakers with all rights: administrators,
    and clients with a white address."""
    may_send: Callable[[str], bool] = _every_topic
    """Whether the speaker may send to a topic, by the rules at the moment of the call; then it may
    also see messages sent to it in the name of its group."""


UNLIMITED = Speaker()
"""The speaker of administrators, and of all when there is no access control."""
NOBODY = Speaker("nobody", _no_topic)
"""The speaker of answers to requests of ours: no right is asked for. No key is so short."""
