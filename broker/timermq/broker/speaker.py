"""The speaker of a request: the account that signed it, and the topics it may send to.

A connection may carry requests of several accounts, and what comes at once is looked at by access
control before any of it is done. So who speaks belongs to the request; what a client registers, and
work that takes its time, keep the speaker that they began with.
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
    """Access key; empty without access control, and of who may everything: administrators, and who
    comes from a white address."""
    may_send: Callable[[str], bool] = _every_topic
    """Whether he may send to a topic by the rules of the moment in which it is asked; so he may
    also see what was sent to it in his group's name."""


UNLIMITED = Speaker()
"""The speaker of administrators, and of all when there is no access control."""
NOBODY = Speaker("nobody", _no_topic)
"""Who answers a call of ours: nothing is asked behind that. No access key is so short."""
