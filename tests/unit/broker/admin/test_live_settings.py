"""Tests of settings by RocketMQ's names."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from broker_rig import BROKER, STORE, TIMER
from timermq.broker.admin.live_settings import change_settings, settings_text
from timermq.broker.options import JAVA_NAMES, BrokerOptions, java_name
from timermq.broker.refusal import RefusedError
from timermq.pipeline.state.timer_options import TimerOptions
from timermq.timerstore.live_setting import live_settings
from timermq.timerstore.store_options import StoreOptions

SECTIONS = [BrokerOptions, StoreOptions, TimerOptions]


def sections() -> Sequence[attrs.AttrsInstance]:
    """The options of a broker."""
    return attrs.evolve(BROKER), attrs.evolve(STORE), attrs.evolve(TIMER)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("mapped_file_size_commit_log", "mappedFileSizeCommitLog"),
        ("advertised_host", "brokerIP1"),
        ("file_reserved_time_hours", "fileReservedTime"),
        ("check_crc_on_recover", "checkCRCOnRecover"),
        ("transaction_time_out_ms", "transactionTimeOut"),
        ("flush_interval_commit_log_ms", "flushIntervalCommitLog"),
        ("clean_resource_interval_ms", "cleanResourceInterval"),
    ],
)
def test_names(key: str, name: str) -> None:
    """By rule, or by the table."""
    assert java_name(key) == name


def test_names_in_the_table_are_of_settings() -> None:
    """Each is one that there is, and none has the name of another."""
    keys = {field.name for section in SECTIONS for field in attrs.fields(section)}

    assert keys >= set(JAVA_NAMES)
    assert len({java_name(key) for key in keys}) == len(keys)


def test_values_as_text() -> None:
    """Truth in lower case, what is not set as nothing."""
    shown = settings_text([BrokerOptions()])

    assert shown["autoCreateTopicEnable"] == "true"
    assert shown["namesrvAddr"] == ""
    assert shown["listenPort"] == "10911"


@pytest.mark.parametrize("section", SECTIONS)
def test_all_that_is_not_live_is_frozen(section: type[attrs.AttrsInstance]) -> None:
    """What was read once cannot be set; what is looked at each time can."""
    options, live = section(), live_settings(section)

    assert live
    for field in attrs.fields(section):
        value = getattr(options, field.name)
        if field.name in live:
            setattr(options, field.name, value)
        else:
            with pytest.raises(attrs.exceptions.FrozenAttributeError):
                setattr(options, field.name, value)


def test_changes() -> None:
    """What has changed is told, whichever section it is of."""
    broker, store, timer = options = sections()
    changes = {"topicsMax": "5", "brokerPermission": "6", "fileReservedTime": "24"}
    changes |= {"deleteWhen": "03;05", "timerMaxDelaySec": "60", "enablePropertyFilter": "false"}

    assert change_settings(options, changes) == {
        "topics_max": 5,
        "file_reserved_time_hours": 24,
        "delete_when": "03;05",
        "timer_max_delay_sec": 60,
        "enable_property_filter": False,
    }
    assert [broker, store, timer] == [
        attrs.evolve(BROKER, topics_max=5, enable_property_filter=False),
        attrs.evolve(STORE, file_reserved_time_hours=24, delete_when="03;05"),
        attrs.evolve(TIMER, timer_max_delay_sec=60),
    ]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("topicsMax", "0", "topics_max"),
        ("deleteWhen", "25", "expected hours 0 to 23"),
        ("diskMaxUsedSpaceRatio", "101", "disk_max_used_space_ratio"),
        ("timerMaxDelaySec", "3d", "expected a number, found '3d'"),
        ("recallMessageEnable", "1", "expected true or false, found '1'"),
        ("listenPort", "1", "'listenPort' does not change while the broker serves"),
        ("mappedFileSizeCommitLog", "1", "start it again; these do: allowRecall"),
    ],
)
def test_one_that_is_refused_keeps_the_others_back(name: str, text: str, told: str) -> None:
    """All of them change, or none."""
    options = sections()

    with pytest.raises(RefusedError, match=told):
        change_settings(options, {"brokerPermission": "4", "fileReservedTime": "1", name: text})
    assert options == sections()
