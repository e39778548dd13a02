"""What waits in a broker, as it lists it and as its store tells."""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from typing import cast

from pyspark.sql import Row, SparkSession

from interop.serving import Broker
from timermq.cli import main
from timermq.pipeline.spark import read_table

TRIES_MAX = 30
"""Readings after which a broker must have published what it took: one a second is promised."""


def waiting_rows(broker: Broker, topic: str) -> list[dict[str, object]]:
    """All messages that wait for a topic."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["pending", "--namesrv", broker.namesrv, "--topic", topic, "--json"]) == 0
    return [cast("dict[str, object]", json.loads(line)) for line in printed.getvalue().splitlines()]


def waiting_keys(broker: Broker, topic: str) -> Counter[str]:
    """The keys of the messages that wait on a topic, counted."""
    return Counter(str(row["keys"]) for row in waiting_rows(broker, topic))


def stored_rows(
    spark: SparkSession, broker: Broker, topic: str, columns: str, count: int
) -> list[Row]:
    """What waits for a topic in the log of a broker, as soon as it has published so many."""
    found: list[Row] = []
    for _ in range(TRIES_MAX):
        log = read_table(
            spark, "timermq.commitlog", str(broker.store), columns=f"real_topic,{columns}"
        )
        found = log.where(f"real_topic = '{topic}'").collect()
        if len(found) >= count:
            break
    return found
