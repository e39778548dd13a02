"""``timermq.commitlog`` says of every record what RocketMQ's own classes read there."""

from __future__ import annotations

import hashlib

import pytest
from pyspark.sql import SparkSession

from golden_stores import NAMES, GoldenStores
from timermq.pipeline.spark import read_table


@pytest.mark.parametrize("name", NAMES)
def test_records(spark: SparkSession, golden_stores: GoldenStores, name: str) -> None:
    """Every record of the log is there once, in whatever pieces the log is read."""
    store = golden_stores[name]
    columns = (
        "phy_offset,total_size,magic,body_crc,topic,queue_id,queue_offset,flag,born_ms,"
        "store_ms,reconsume_times,prepared_transaction_offset,unique_id,properties,body"
    )

    found = read_table(spark, "timermq.commitlog", store.root, columns=columns, partitions=5)

    assert [
        (
            one.phy_offset,
            one.size,
            one.magic,
            one.body_crc,
            one.topic,
            one.queue_id,
            one.queue_offset,
            one.flag,
            one.born_ms,
            one.store_ms,
            one.reconsume_times,
            one.prepared_transaction_offset,
            one.uniq_key,
            one.properties_text,
            one.stored_body_size,
        )
        for one in store.manifest.state.records
        if not one.blank
    ] == [
        (*row[:-2], bytes(row.properties).decode(), len(row.body))
        for row in found.orderBy("phy_offset").collect()
    ]


def test_bodies(spark: SparkSession, golden_stores: GoldenStores) -> None:
    """Bodies are those that were sent, compressed ones as they are stored."""
    store = golden_stores["g2"]
    found = read_table(spark, "timermq.commitlog", store.root, columns="phy_offset,body").collect()
    digests = {row.phy_offset: hashlib.sha256(bytes(row.body)).hexdigest() for row in found}

    assert {
        one.phy_offset: one.body_sha256
        for one in store.manifest.state.records
        if not one.blank and one.stored_body_size == one.body_size
    }.items() <= digests.items()
