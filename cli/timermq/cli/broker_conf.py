"""RocketMQ's ``broker.conf`` (``key=value`` lines), given as it is.

Our keys are RocketMQ's in snake case, some with their unit at the end, so most names translate by
rule; those of addresses and paths stand in a table. Values keep their meaning and unit. Unknown
keys are listed, not refused: such a file has many keys of features that we leave out. A key is
refused if it says that the store has files that are not read here. Keys of the engines of
RocketMQ's timers are known and change nothing: the store's files tell which engine it had.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import attrs

from .settings import ConfigurationError, shown

UNIT_SUFFIXES = ("", "_ms", "_sec", "_hours", "_percent", "_count", "_size")
"""Endings that our name may have where RocketMQ's has none."""


@attrs.frozen
class Served:
    """The values of a key that we can serve."""

    values: tuple[str, ...]
    reason: str
    """Why no others."""


def _no_other(what: str) -> str:
    return f"timermq does not read {what}"


REFUSED: Mapping[str, Served] = {
    "storeType": Served(
        ("default",), _no_other("queues and offsets that RocketMQ keeps in RocksDB")
    ),
    "configManagerVersion": Served(
        ("v1",), _no_other("topics and offsets that RocketMQ keeps in RocksDB")
    ),
    "rocksdbCQDoubleWriteEnable": Served(
        ("false",), _no_other("queues that RocketMQ keeps in RocksDB as well")
    ),
    "transRocksDBEnable": Served(
        ("false",), _no_other("transactions that RocketMQ keeps in RocksDB")
    ),
    "enableDLegerCommitLog": Served(("false",), _no_other("a commit log of DLedger")),
}
"""RocketMQ's names of settings that make other files, and are not passed over."""

TOLD_BY_FILES = frozenset(
    {
        "timerRecallToTimeWheelEnable",
        "timerRecallToTimelineEnable",
        "timerRocksDBEnable",
        "timerRocksDBPrecisionMs",
        "timerRocksDBRollIntervalHours",
        "timerRocksDBRollMaxTps",
        "timerRocksDBRollRangeHours",
        "timerRocksDBStopScan",
        "timerRocksDBTimeExpiredMaxTps",
        "timerWheelSnapshotFlush",
        "timerWheelSnapshotIntervalMs",
    }
)
"""RocketMQ's names of the engines of its timers, each of which is served on."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@attrs.frozen(kw_only=True)
class BrokerConf:
    """The values in such a file."""

    values: Mapping[str, str]
    """Our key to the text of the value."""
    names: Mapping[str, str]
    """Our key to RocketMQ's name, for messages."""
    unknown: tuple[str, ...]
    """RocketMQ's names that have no counterpart here, in the order of the file."""


def snake_case(name: str) -> str:
    """RocketMQ's name in snake case: ``storeType`` becomes ``store_type``."""
    return _HUMP.sub("_", name).lower()


def parse_broker_conf(text: str, known: Collection[str], renamed: Mapping[str, str]) -> BrokerConf:
    """Read the lines of a ``broker.conf``.

    Args:
        text: The whole file.
        known: Our keys.
        renamed: RocketMQ's name to our key, where the rule does not lead there.

    Raises:
        ConfigurationError: A line has no ``=``, or names of one key of ours say different things,
            or one asks for what we cannot serve.
    """
    values: dict[str, str] = {}
    names: dict[str, str] = {}
    unknown: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.strip()
        if not entry or entry.startswith(("#", "!")):
            continue
        name, equals, value = map(str.strip, entry.partition("="))
        if not equals:
            raise ConfigurationError(f"line {number}: expected key=value, found {shown(entry)}")
        _check_served(number, name, value)
        if name in REFUSED or name in TOLD_BY_FILES:
            continue
        key = _our_key(name, known, renamed)
        if key is None:
            unknown.append(name)
        elif key in values and names[key] != name and values[key] != value:
            raise ConfigurationError(
                f"line {number}: expected {name} as {names[key]}, which are one setting "
                f"here ({key}): {shown(values[key])}, found {shown(value)}"
            )
        else:
            values[key] = value
            names[key] = name
    return BrokerConf(values=values, names=names, unknown=tuple(unknown))


def _check_served(number: int, name: str, value: str) -> None:
    served = REFUSED.get(name)
    if served is not None and value not in served.values:
        raise ConfigurationError(
            f"line {number}: {name}: expected {' or '.join(served.values)}: {served.reason}, "
            f"found {shown(value)}"
        )


def _our_key(name: str, known: Collection[str], renamed: Mapping[str, str]) -> str | None:
    if name in renamed:
        return renamed[name]
    stem = snake_case(name)
    return next((stem + suffix for suffix in UNIT_SUFFIXES if stem + suffix in known), None)
