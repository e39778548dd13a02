"""Groups of real clients whose members come, leave and die, and what came to them.

Each kind of consumer has a group of its own, all read one topic: one life of a broker shows them
all at once.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

import attrs

from interop.consuming import Consumers, Delivery

TOPIC = "T"
ROUND = 16
"""Messages of a round: four for each queue of a topic that such a producer makes."""
ROUNDS_MAX = 90
"""In which all members have got something; clients look at their group every 20 seconds."""
RECONNECTED_SECONDS = 120.0
"""C++ lets a send to a broker that is gone time out, and looks for routes every 30 seconds."""
BROADCASTING = "broadcasting"
Command = Callable[[str], list[str]]
"""A client's program for a name server."""


@attrs.define(eq=False)
class Life:
    """Members of some groups, each of a kind of consumers, and the producer that they live on."""

    processes: Sequence[Consumers]
    """The first has the producer too."""
    members: dict[str, list[str]] = attrs.Factory(dict[str, list[str]])
    """Kind to names of its members, which begin with it."""

    @property
    def clients(self) -> Consumers:
        """The process with the producer."""
        return self.processes[0]

    def join(self, number: str, *kinds: str, process: int = 0) -> None:
        """A member more in the group of each of these kinds."""
        for kind in kinds:
            self.processes[process].start(f"{kind}-{number}", kind, kind, TOPIC)
            self.members.setdefault(kind, []).append(f"{kind}-{number}")

    def leave(self, number: str, *kinds: str) -> None:
        """Have one member of each kind leave its group in order."""
        for kind in kinds:
            self.clients.stop(f"{kind}-{number}")
            self.members[kind].remove(f"{kind}-{number}")

    def send(self, prefix: str, count: int = ROUND, pause_ms: int = 0) -> None:
        """Have the client's own producer send messages, one after the other."""
        self.clients.tell("send", "P", TOPIC, prefix, str(count), str(pause_ms))

    def got(self, kind: str, prefix: str = "") -> list[Delivery]:
        """What came of a round, or of all, to any member of a kind, also to those that left."""
        return [
            one
            for clients in self.processes
            for one in clients.deliveries()
            if one.consumer.startswith(f"{kind}-")
            and one.body.startswith(f"{prefix}-" * bool(prefix))
        ]

    def wait_for_all(
        self, prefix: str, count: int = ROUND, kinds: Collection[str] | None = None
    ) -> None:
        """Wait until all messages of a round were acknowledged and have come to these groups."""
        sent = {f"SENT {prefix} {number}" for number in range(count)}
        self.clients.wait_until(lambda: sent <= set(self.clients.lines), RECONNECTED_SECONDS)
        waiting = self.members.keys() if kinds is None else kinds
        self.clients.wait_until(
            lambda: all(self.has_all(kind, prefix, count) for kind in waiting),
            RECONNECTED_SECONDS,
        )

    def has_all(self, kind: str, prefix: str, count: int) -> bool:
        """Has a round come: to each member where they are told all, else to any of them?"""
        bodies = {f"{prefix}-{number}" for number in range(count)}
        got = self.got(kind, prefix)
        if kind != BROADCASTING:
            return bodies <= {one.body for one in got}
        return all(
            bodies <= {one.body for one in got if one.consumer == name}
            for name in self.members[kind]
        )

    def share(self, title: str, kinds: Collection[str]) -> None:
        """Send rounds until one of them comes to all members, each queue to one of them.

        Where they are told all, it comes to each: C++ begins where a queue ends. What comes of it
        to other groups is not waited for.
        """
        left = set(kinds)
        for number in range(ROUNDS_MAX):
            prefix = f"{title}{number}"
            self.send(prefix)
            self.wait_for_all(prefix, kinds=set(kinds) - {BROADCASTING})
            left = {kind for kind in left if not self._is_shared(kind, prefix)}
            if not left:
                return
            time.sleep(1)
        raise AssertionError(f"not all members of {sorted(left)} got something of their own")

    def _is_shared(self, kind: str, prefix: str) -> bool:
        if kind == BROADCASTING:
            return self.has_all(kind, prefix, ROUND)
        places = {(one.consumer, one.queue_id) for one in self.got(kind, prefix)}
        alone = len({queue_id for _, queue_id in places}) == len(places)
        return alone and {name for name, _ in places} == set(self.members[kind])


def cpp_consumer(*args: str) -> list[str]:
    """The command line of the C++ client's program."""
    return [sys.executable, str(Path(__file__).parent / "cpp_consumer.py"), *args]


def offsets_by_queue(deliveries: Iterable[Delivery]) -> dict[int, list[int]]:
    """Queue to the offsets that came of it, in order."""
    queues: dict[int, list[int]] = defaultdict(list)
    for one in deliveries:
        queues[one.queue_id].append(one.queue_offset)
    return queues


def check_order(deliveries: Iterable[Delivery], changes: int) -> None:
    """Each queue comes from its beginning, in its order, and nothing is left out.

    Who takes a queue over, or finds its broker again, may read again what was not committed.

    Args:
        deliveries: All that came to an orderly group.
        changes: How often a queue may have gone from one to another, or its broker.
    """
    for offsets in offsets_by_queue(deliveries).values():
        back = [now for before, now in zip([-1, *offsets], offsets, strict=False) if now <= before]
        ahead = [
            now for before, now in zip([-1, *offsets], offsets, strict=False) if now > before + 1
        ]

        assert ahead == [], offsets
        assert len(back) <= changes, offsets
