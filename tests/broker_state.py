"""What a broker holds, as texts that are compared: whatever a request may have changed."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from timermq.broker.broker import Broker


def state_of(broker: Broker) -> Mapping[str, str]:
    """By what it is; reading it changes nothing."""
    tables, store = broker.tables, broker.store
    transactions = broker.transactions.open
    found: dict[str, object] = {
        "topics": tables.topics.to_json(),
        "groups": tables.groups.to_json(),
        "offsets": tables.offsets.to_json(),
        "offset resets": len(tables.resets),
        "locks": tables.locks.to_json(),
        "texts": tables.texts.to_json(),
        "routes": (tables.routes.brokers(), sorted(tables.routes.topics())),
        "own route": tables.own.is_wiped,
        "log": store.commit_log.max_offset,
        "queues": {(one.topic, one.queue_id): one.max_offset for one in store.queues()},
        "transactions": [(name, transactions.offset_of(name)) for name in transactions.names()],
        "bulk jobs": jobs_of(broker),
        "registrations": registrations_of(broker),
        "held pulls": tables.long_polling.held,
        "settings": [
            attrs.astuple(options, recurse=False)
            for options in (broker.options, store.options, broker.timer_store.options)
        ],
        "clock": broker.processors.clock.clock.status(),
        "watchers": broker.processors.watch.watchers,
    }
    return {what: repr(value) for what, value in found.items()}


def jobs_of(broker: Broker) -> list[object]:
    """The bulk jobs: whose each is, how far, and of which parts."""
    return [
        (one.name, one.account, one.state, one.staged_size, sorted(one.parts))
        for one in broker.processors.bulk.processor.jobs
    ]


def registrations_of(broker: Broker) -> list[object]:
    """Who is registered, on which connection: producers and consumers."""
    clients = broker.tables.clients
    found: list[object] = []
    for group in sorted(clients.producer_groups()):
        members = clients.producers(group).items()
        found.append((group, [(id(session), one.client_id) for session, one in members]))
    for info in clients.consumer_groups():
        members = info.members.items()
        ids = [(id(session), one.client_id) for session, one in members]
        found.append((info.group, ids, info.message_model, info.subscriptions))
    return found
