"""Tests of what a page of metrics is made of, apart from the broker."""

from __future__ import annotations

import pytest

from timermq.broker.metrics.metrics_snapshot import version_name


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (479, "v5_3_3"),
        (478, "v5_3_3_snapshot"),
        (194, "v3_9_1_snapshot"),
        (611, "v5_9_9"),
        (193, "193"),
        (612, "higher_version"),
        (-1, "-1"),
    ],
)
def test_versions(version: int, name: str) -> None:
    """As RocketMQ's metrics call them."""
    assert version_name(version) == name
