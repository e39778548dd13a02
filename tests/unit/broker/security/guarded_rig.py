"""A broker with access control that stands still, and what it answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from broker_rig import BROKER, Rig
from signed import RULES, write_rules
from timermq.broker.security.access_control import AccessStatistics
from timermq.remoting import Command


def guarded(directory: Path, rules: str = RULES) -> Rig:
    """A broker that stands still, with access control."""
    path = write_rules(directory, rules)
    return Rig(options=attrs.evolve(BROKER, acl_enable=True, acl_file=path))


@asynccontextmanager
async def answering(rig: Rig) -> AsyncGenerator[None]:
    """The broker's access control runs: late answers come, files are read again."""
    access = rig.broker.access
    assert access is not None
    async with trio.open_nursery() as nursery:
        await nursery.start(access.run)
        yield
        nursery.cancel_scope.cancel()


def statistics(rig: Rig) -> AccessStatistics:
    """The numbers that the broker shows about access."""
    shown = rig.broker.statistics().access
    assert shown is not None
    return shown


def code_of(rig: Rig, command: Command) -> int | None:
    """How a request is answered at once; None: not at once."""
    answers = [*rig.handle(command), *rig.peer.sent]
    rig.peer.sent.clear()
    return answers[0].code if answers else None
