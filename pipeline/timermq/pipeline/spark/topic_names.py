"""Topics by their Java hash: what the timer log knows of a topic.

The names are those of the consume queues and of the broker's table of topics. A topic that nothing
was delivered to yet, in a store without that table, has none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import cast

import numpy as np
from numpy.typing import NDArray

from timermq.timerstore.config_file import load_json
from timermq.timerstore.errors import StoreFormatError
from timermq.timerstore.java_hash import java_hash

from .object_disk import disk_of

UNKNOWN = "hash %d"
"""The stand-in for a topic whose name is not known."""


def topic_names(*stores: str) -> dict[int, str]:
    """The names that some stores know, by hash.

    Args:
        stores: Their directories, as the driver sees them.
    """
    return by_hash(set[str]().union(*map(_names_of, stores)))


def _names_of(store: str) -> set[str]:
    disk = disk_of(store)
    names = set(disk.list_dir(f"{store}/consumequeue"))
    try:
        found = load_json(disk, f"{store}/config/topics.json")
    except StoreFormatError:
        found = None  # a report is no check: `timermq store check` says what is wrong with it
    if isinstance(found, dict):
        table = cast("Mapping[str, object]", found).get("topicConfigTable")
        if isinstance(table, dict):
            names |= cast("Mapping[str, object]", table).keys()
    return names


def by_hash(names: Iterable[str]) -> dict[int, str]:
    """Names by hash; those that share one stand together: a unit does not tell which it is of."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for name in sorted(names):
        found[java_hash(name)].append(name)
    return {value: " or ".join(sharing) for value, sharing in found.items()}


def may_be_of(hashes: NDArray[np.int32], topics: Iterable[str]) -> NDArray[np.bool_]:
    """Which of some hashes are those of topics; another topic may have the same one."""
    return np.isin(hashes, np.array(list(map(java_hash, topics)), np.int64))
