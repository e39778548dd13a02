"""The stores that a job is about, each with its broker's name.

A name is given (``NAME=DIR``), or told by the store: every broker, RocketMQ's too, keeps a topic
of its own name in its table. Where neither says it, the directory stands for it, or the URL.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from glob import glob
from typing import cast

import attrs

from timermq.timerstore.config_file import load_json
from timermq.timerstore.errors import StoreFormatError

from .errors import SparkJobError
from .object_disk import disk_of
from .options import StorePattern, Stores, store_patterns
from .places import bucket_and_key, is_object, shown_place
from .store_view import StoreView

_WILD = re.compile(r"[*?[]")
_TEMPLATE = "TBW102"
"""The topic after which others are made."""
_PERM_INHERIT = 1
"""Right of topics to be taken as a pattern; Java's ``PermName.PERM_INHERIT``."""


@attrs.frozen
class NamedStore:
    """One store, and whose it is."""

    broker: str
    root: str
    """The directory, as driver and executors see it, or a place in an object store."""
    is_named: bool = True
    """The name was given."""

    @property
    def pattern(self) -> StorePattern:
        """The store as an option has it, with its name if that was given."""
        return StorePattern(self.root, self.broker if self.is_named else None)

    def view(self, timer_precision_ms: int | None = None) -> StoreView:
        """The store as it stands now; errors are those of ``StoreView.of``."""
        return StoreView.of(self.root, timer_precision_ms=timer_precision_ms)

    def looked_at(self, timer_precision_ms: int | None = None) -> AbstractContextManager[StoreView]:
        """The same for the length of a block, in which a stopped store is recovered once."""
        return StoreView.looked_at(self.root, timer_precision_ms=timer_precision_ms)


def named_stores(given: Stores) -> list[NamedStore]:
    """The stores that are meant, in the order given, those of a pattern by their paths.

    Raises:
        SparkJobError: Nothing fits a pattern, several stores one name; a store comes twice.
    """
    found: dict[str, NamedStore] = {}
    names: dict[str, str] = {}
    for pattern in store_patterns(given):
        for root in _directories(pattern):
            store = NamedStore(
                pattern.name or broker_name(root) or shown_place(root),
                root,
                pattern.name is not None,
            )
            key = root if is_object(root) else os.path.realpath(root)
            before = found.setdefault(key, store)
            if before is not store:
                raise SparkJobError(
                    f"{root}: expected each store once, found it as {before.root} too"
                )
            other = names.setdefault(store.broker, root)
            if other != root:
                raise SparkJobError(
                    f"{root}: expected brokers of different names, found {store.broker!r} here and "
                    f"in {other}: say which it is, NAME={root}"
                )
    return list(found.values())


def one_store(given: Stores, job: str) -> NamedStore:
    """The store of a job that takes one.

    Args:
        given: As for ``named_stores``.
        job: For the error.

    Raises:
        SparkJobError: There are several, or as of ``named_stores``.
    """
    found = named_stores(given)
    if len(found) > 1:
        roots = ", ".join(store.root for store in found)
        raise SparkJobError(f"{job}: expected one store, found {len(found)}: {roots}")
    return found[0]


def broker_name(root: str) -> str | None:
    """The name that a store tells; None where it tells none, or several.

    Java's ``TopicConfigManager`` makes the topic of that name: one queue, and others may inherit
    from it. The cluster's has more queues.
    """
    try:
        found = load_json(disk_of(root), f"{root}/config/topics.json")
    except (StoreFormatError, OSError):
        return None  # a table of a store is no check: `timermq store check` says what is wrong
    table = cast("Mapping[str, object]", found).get("topicConfigTable") if _is_map(found) else None
    if not _is_map(table):
        return None
    topics = cast("Mapping[str, object]", table)
    names = [name for name, one in topics.items() if name != _TEMPLATE and _is_brokers(one)]
    return names[0] if len(names) == 1 else None


def _is_brokers(config: object) -> bool:
    if not _is_map(config):
        return False
    told = cast("Mapping[str, object]", config)
    perm = told.get("perm")
    queues = (told.get("readQueueNums"), told.get("writeQueueNums"))
    return (
        isinstance(perm, int)
        and perm & _PERM_INHERIT > 0
        and perm > _PERM_INHERIT
        and queues == (1, 1)
    )


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)


def _directories(pattern: StorePattern) -> Sequence[str]:
    directory = pattern.directory
    if not _WILD.search(directory):
        return [directory]
    disk = disk_of(directory)
    if disk.is_dir(directory):
        return [directory]
    fitting = _objects(directory) if is_object(directory) else glob(directory)  # noqa: PTH207 - from the root on
    found = [path for path in sorted(fitting) if disk.is_dir(path)]
    if not found:
        raise SparkJobError(f"{directory}: expected directories of stores that fit, found none")
    if pattern.name is not None and len(found) > 1:
        raise SparkJobError(
            f"{pattern.text}: expected one store, found {len(found)}: {', '.join(found)}"
        )
    return found


def _objects(pattern: str) -> list[str]:
    """The places that fit a pattern in an object store; a hidden name fits none, as on a disk."""
    bucket, key = bucket_and_key(pattern)
    found = [bucket]
    for part in key.split("/"):
        if not _WILD.search(part):
            found = [f"{one}/{part}" for one in found]
            continue
        found = [
            f"{one}/{name}"
            for one in found
            for name in fnmatch.filter(disk_of(one).list_dir(one), part)
            if part.startswith(".") or not name.startswith(".")
        ]
    return found
