"""The received messages, which must be found by their keys until they are cleaned.

A look-up brings the index up to date first, so a message that stands in a queue is found, whatever
of the index was durable. Only a power cut can undo it, of a broker that does not sync first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from timermq.client.history import Crash, Deliver, Event
from timermq.remoting.stored_message import StoredMessage
from timermq.timerstore.record import Record

from .staged.staged_message import damage_of

Place = tuple[int, int]
"""A queue id and a queue offset."""


def place_of(message: StoredMessage | Record) -> str:
    """The place of a message, as rules name it."""
    return f"{message.topic}/{message.queue_id}@{message.queue_offset}"


@attrs.define(eq=False)
class SeenMessages:
    """The messages that consumers have seen in one simulation.

    Args:
        is_sync: Queues show only what is on the disk.
    """

    is_sync: bool
    power_cuts: int = attrs.field(default=0, init=False)
    """How many power cuts there were so far."""
    is_doubtful: bool = attrs.field(default=False, init=False)
    """Whether what is read was damaged under this process, which may not have noticed yet."""
    fillers: set[str] = attrs.field(factory=set[str], init=False)
    """Places, as rules name them, where a repair says that there was a message."""
    left_damaged: set[str] = attrs.field(factory=set[str], init=False)
    """Places of messages that were damaged before they left, where nothing compares them."""
    forgotten: set[str] = attrs.field(factory=set[str], init=False)
    """Unique keys of what was cancelled and cleaned since then."""
    _places: dict[tuple[str, str], set[Place]] = attrs.field(
        factory=dict[tuple[str, str], set[Place]], init=False
    )

    def add(self, arrival: Deliver, power_cuts: int) -> None:
        """Remember a message.

        Args:
            arrival: Where it stands.
            power_cuts: How many there had been when it was asked for; it may be older than the
                last one, and gone.
        """
        if self.is_sync or power_cuts == self.power_cuts:
            name = arrival.topic, arrival.message_id
            self._places.setdefault(name, set()).add((arrival.queue, arrival.offset))

    def forget(self, name: tuple[str, str], place: Place) -> None:
        """Cleaning takes what stands at a place, by topic and unique key."""
        self._places.get(name, set[Place]()).discard(place)

    def hear(self, event: Event) -> None:
        """Take an event of the history: after a power cut nothing is certain."""
        if isinstance(event, Crash) and event.kind == "power":
            self.power_cuts += 1
            if not self.is_sync:
                self._places.clear()

    def places(self, topic: str, message_id: str) -> set[Place]:
        """The places at which a message must be found."""
        return set(self._places.get((topic, message_id), ()))

    def faults_of(
        self, found: Sequence[StoredMessage], wanted: tuple[str, str], asked_for: set[Place]
    ) -> Iterator[str]:
        """The fault in the answer to a look-up by topic and unique key.

        Args:
            found: The messages in it.
            wanted: Topic and unique key.
            asked_for: ``places`` as the request left.
        """
        for message in found:
            if place_of(message) in self.left_damaged:
                continue
            name = message.topic, message.properties.get("UNIQ_KEY", "")
            damage = damage_of(message)
            if name != wanted or damage is not None:
                yield f"a look-up of {wanted} found {name}, {damage or 'whole'}"
        places = {(message.queue_id, message.queue_offset) for message in found}
        missing = asked_for & self.places(*wanted) - places
        if missing:
            yield f"a look-up of {wanted} did not find what stands at {sorted(missing)}"
