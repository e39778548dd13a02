"""What processors are given by name is what they ask for by type."""

from __future__ import annotations

from typing import get_type_hints

import attrs
import pytest

from broker_rig import ADDRESS, BROKER, Rig
from timermq.broker.admin.admin_processors import AdminProcessors
from timermq.broker.admin.runtime_info import RuntimeInfo
from timermq.broker.broker_parts import BrokerParts
from timermq.broker.bulk.bulk_scheduling import BulkScheduling
from timermq.broker.processors import Processors
from timermq.broker.tables import Tables
from timermq.broker.watching.watch_snapshot import SnapshotSource
from timermq.timerstore.message_id import UniqueIdGenerator

GROUPS = (Processors, AdminProcessors, BulkScheduling)
OWN = {
    "access",
    "bulk_topics",
    "clock",
    "facts",
    "jobs",
    "made",
    "open_doors",
    "reader",
    "run_reader",
    "runtime",
    "saved",
    "send",
    "source",
    "started_ms",
    "succession",
    "tls",
    "transactions",
}
"""Fields that have no part's name: each is given where its processor is made."""


def part_types() -> dict[str, object]:
    """The type of each part, by its name."""
    properties = {
        name: get_type_hints(one.fget)["return"]
        for name, one in vars(BrokerParts).items()
        if isinstance(one, property)
    }
    return {**get_type_hints(Tables), **properties, **get_type_hints(BrokerParts)}


def processor_types() -> list[type[attrs.AttrsInstance]]:
    """The classes that are made of parts."""
    members = [one for group in GROUPS for one in get_type_hints(group).values()]
    made = [one for one in members if attrs.has(one) and one not in GROUPS]
    return [*made, SnapshotSource, RuntimeInfo]


@pytest.mark.parametrize("processor", processor_types())
def test_types_of_fields(processor: type[attrs.AttrsInstance]) -> None:
    """A field with a part's name has its type; any other is known to be given."""
    types, parts = get_type_hints(processor), part_types()
    fields = {one.name for one in attrs.fields(processor) if one.default is attrs.NOTHING}
    named = fields - OWN

    assert {name: parts[name] for name in named} == {name: types[name] for name in named}


async def test_what_has_no_part_s_name_must_be_given() -> None:
    """A field that is not filled is told by its name."""

    @attrs.frozen
    class Wanting:
        """Two fields without a default."""

        address: str
        weather: str
        note: str = "none"

    broker = Rig().broker
    unique_ids = UniqueIdGenerator(bytes(8), 1, instance=1, now_ms=lambda: 0)
    parts = BrokerParts.of(
        BROKER, broker.timer_store, lambda: 0, address=ADDRESS, unique_ids=unique_ids
    )

    assert Wanting(ADDRESS, "fair") == parts.make(Wanting, weather="fair")
    with pytest.raises(AttributeError, match="weather"):
        parts.make(Wanting)
