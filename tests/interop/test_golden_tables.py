"""The tables under ``config/`` of RocketMQ's own stores, and the handles that its clients hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interop.golden_opened import AFTERWARDS_MS, Opened, file_bytes
from timermq.pipeline.admission.recall_handle import decode_handle, encode_handle
from timermq.timerlog import TimerMetrics
from timermq.timerstore.config_file import fastjson, load_json, parse_json
from timermq.timerstore.os_disk import OsDisk

pytestmark = pytest.mark.slow

TABLES = ("topics", "subscriptionGroup", "consumerOffset", "delayOffset", "consumerFilter")

PRETTY_TABLES = (*(f"{name}.json" for name in TABLES), "consumerOrderInfo.json")

COMPACT_TABLES = ("timermetrics", "transactionMetrics")


def test_tables_are_written_alike(opened: Opened) -> None:
    """Each table of RocketMQ, parsed and printed, is the file."""
    folder = Path(opened.golden.root) / "config"
    for name in (*PRETTY_TABLES, *COMPACT_TABLES):
        path = folder / name
        if path.exists():
            text = path.read_text()
            printed = fastjson(parse_json(text), pretty=name in PRETTY_TABLES)

            assert (name, text) == (name, printed)


def test_tables(opened: Opened) -> None:
    """Each table says what Java reads in it."""
    for name in TABLES:
        expected = opened.golden.raw.get(f"config {name}")
        table = load_json(OsDisk(), f"{opened.golden.root}/config/{name}.json")
        # The manifest is JSON, which has no integer keys.
        found = json.loads(json.dumps(table))

        assert (name, expected) == (name, found)


def test_timer_metrics(opened: Opened) -> None:
    """The counts of pending messages are printed as they were stored."""
    metrics = TimerMetrics.load(OsDisk(), f"{opened.golden.root}/config/timermetrics")

    assert file_bytes(opened, "config/timermetrics").decode() == metrics.text(AFTERWARDS_MS)


def test_recall_handles(opened: Opened) -> None:
    """A recall handle names topic, broker, moment and message, and is written alike."""
    for message in opened.golden.manifest.messages:
        if message.recall_handle is not None:
            handle = decode_handle(message.recall_handle)

            assert (message.topic, message.msg_id) == (handle.topic, handle.unique_key)
            assert message.recall_handle == encode_handle(
                handle.topic, handle.broker_name, handle.timestamp_ms, handle.unique_key
            )
