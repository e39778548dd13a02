"""The walk through docs/pipeline.md, line by line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from interop.serving import Broker
from spark.pending import TRIES_MAX
from timermq.pipeline.spark.jobs.audit import Audit

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_walk_through(
    spark: SparkSession, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every line runs, and shows what the page says it does."""
    section = PAGE.read_text().split("## A walk through")[1].split("\n## ")[0]
    begin, campaign, again, by_minute, body, audit, lake = BLOCK.findall(section)
    names: dict[str, object] = {"store": str(broker.store), "broker": broker.listen}

    for block in (begin, campaign, campaign):
        exec(block, names)
    capsys.readouterr()
    exec(again, names)
    told = capsys.readouterr().out
    counts: list[int] = []
    for _ in range(TRIES_MAX):
        exec(by_minute, names)
        counts = reminders(cast("DataFrame", names["by_minute"]))
        if sum(counts) >= 2000:
            break
    exec(body, names)
    exec(audit, names)
    exec(lake, names)

    assert names["spark"] is spark
    assert "2000\n" == told
    assert 2000 == sum(counts)
    assert len(counts) in (60, 61)
    assert "hello 42" == names["body"]
    found = cast("Audit", names["found"])
    assert not any(found.broken.values())
    assert found.counts["pending"] >= 2000
    assert {"date", "topic_name"} < set(cast("DataFrame", names["lake"]).columns)


def reminders(by_minute: DataFrame) -> list[int]:
    """How many of the campaign fire, minute by minute."""
    return [int(str(row["count"])) for row in by_minute.where("topic = 'reminders'").collect()]
