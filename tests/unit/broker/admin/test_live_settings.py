"""Tests of settings by RocketMQ's names."""

from __future__ import annotations

import attrs
import pytest

from timermq.broker.admin.live_settings import change_settings, java_name, settings_text
from timermq.broker.options import LIVE_SETTINGS, BrokerOptions
from timermq.broker.refusal import RefusedError


def test_names() -> None:
    """By rule, or by the table."""
    assert java_name("mapped_file_size_commit_log") == "mappedFileSizeCommitLog"
    assert java_name("advertised_host") == "brokerIP1"
    assert java_name("file_reserved_time_hours") == "fileReservedTime"


def test_values_as_text() -> None:
    """Truth in lower case, what is not set as nothing."""
    shown = settings_text([BrokerOptions()])

    assert shown["autoCreateTopicEnable"] == "true"
    assert shown["namesrvAddr"] == ""
    assert shown["listenPort"] == "10911"


def test_live_settings_are_settings() -> None:
    """Each is a field, and nothing else can be set."""
    fields = {field.name for field in attrs.fields(BrokerOptions)}
    options = BrokerOptions()

    assert fields >= LIVE_SETTINGS
    options.broker_permission = 4
    for name in fields - LIVE_SETTINGS:
        with pytest.raises(attrs.exceptions.FrozenAttributeError):
            setattr(options, name, getattr(options, name))


def test_changes() -> None:
    """What has changed is told; one that is refused keeps the others back."""
    options = BrokerOptions()

    assert change_settings(options, {"topicsMax": "5", "brokerPermission": "6"}) == ["topics_max"]
    assert options.topics_max == 5
    with pytest.raises(RefusedError, match="topics_max"):
        change_settings(options, {"brokerPermission": "4", "topicsMax": "0"})
    assert options.broker_permission == 6
