"""The options of a table: ``spark.read.format(NAME).option(…)``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

import attrs

from ..state.timer_options import PRECISIONS_MS
from .errors import SparkJobError
from .moment_text import moment_ms
from .places import object_place

INT64_MAX = 2**63 - 1
PARTITIONS_MAX = 10_000

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")
"""How ``hdfs://host/path`` and ``file:/path`` begin."""

_NAMED = re.compile(r"([\w.%|-]+)=(.+)", re.DOTALL)
"""A store with the name of its broker; a directory whose name has this form begins with ``./``."""
_LOCAL = re.compile(r"file:(?://(?:localhost)?)?(/(?!/).*)", re.DOTALL)
"""A directory of this machine as an address."""

Stores = str | Sequence["str | StorePattern"]
"""One store or several, as ``store_patterns`` reads them."""

Read = Callable[[str, str], object]
"""Makes a value of a text; the first argument is its place, for errors."""


@attrs.frozen
class Option:
    """An option of tables: how it is read, and what it means."""

    read: Read
    meaning: str


def absolute(directory: str, place: str | None = None) -> str:
    """The directory for all processes: executors have working directories of their own.

    Args:
        directory: As it was given.
        place: Where, for the error; None: the error begins with the directory.

    Raises:
        SparkJobError: It is the address of another place, ``hdfs://…`` or ``file:///…``.
    """
    if _SCHEME.match(directory):
        begin = directory if place is None else f"{place}: {directory}"
        raise SparkJobError(
            f"{begin}: expected a directory of this machine, found the address of another place"
        )
    return os.path.normpath(Path(directory).absolute())


def store_path(directory: str, place: str | None = None) -> str:
    """The path of a store for all processes: as ``absolute``, or a place in an object store."""
    return object_place(directory, place) or absolute(directory, place)


@attrs.frozen
class StorePattern:
    """One or several stores: a directory or a place in an object store, or a pattern of them."""

    directory: str
    """As of ``store_path``; ``*``, ``?`` and ``[…]`` stand for what is there. In an object store
    they do so behind the bucket, without ``?``, at which a URL's options begin."""
    name: str | None = None
    """The broker's, if it was given."""

    @property
    def text(self) -> str:
        """The pattern as an option has it."""
        return self.directory if self.name is None else f"{self.name}={self.directory}"


def store_patterns(given: Stores, place: str | None = None) -> tuple[StorePattern, ...]:
    """Read how stores were given: directories, patterns, URLs, or ``NAME=`` and one of these.

    Args:
        given: One, or several; what was read already stays as it is.
        place: Where, for the error.

    Raises:
        SparkJobError: It is the address of another place; there is none.
    """
    each = [given] if isinstance(given, str) else list(given)
    if not each:
        raise SparkJobError(f"{place or 'path'}: expected a store's directory, found an empty list")
    return tuple(one if isinstance(one, StorePattern) else _pattern(one, place) for one in each)


def _pattern(text: str, place: str | None) -> StorePattern:
    named = _NAMED.fullmatch(text)
    name, directory = (None, text) if named is None else named.groups()
    local = _LOCAL.fullmatch(directory)
    return StorePattern(store_path(directory if local is None else local[1], place), name)


def _store(place: str, text: str) -> tuple[StorePattern, ...]:
    return store_patterns(text, place)


def _stores(place: str, text: str) -> tuple[StorePattern, ...]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):  # pyright: ignore[reportUnknownVariableType]
        raise SparkJobError(f"{place}: expected a list of texts as JSON, found {text!r}")
    return store_patterns(cast("list[str]", found), place)


def _names(_: str, text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _one_of(*words: str) -> Read:
    def read(place: str, text: str) -> str:
        if text in words:
            return text
        raise SparkJobError(f"{place}: expected one of {', '.join(words)}, found {text!r}")

    return read


def _one_of_numbers(numbers: Sequence[int]) -> Read:
    words = {str(number): number for number in numbers}

    def read(place: str, text: str) -> int:
        if text in words:
            return words[text]
        raise SparkJobError(f"{place}: expected one of {', '.join(words)}, found {text!r}")

    return read


def _number(low: int, high: int) -> Read:
    def read(place: str, text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high:
            return int(text)
        raise SparkJobError(
            f"{place}: expected a whole number from {low} to {high}, found {text!r}"
        )

    return read


def _moment(place: str, text: str) -> int:
    return moment_ms(text, place)


OPTIONS: Mapping[str, Option] = {
    "path": Option(
        _store,
        "the store's directory, as driver and executors see it; a pattern such as "
        "`/data/*/store`, an address `file:/…`, a URL such as `s3://bucket/store`, or `NAME=` "
        "and any of these",
    ),
    "paths": Option(
        _stores, "several of them, in place of `path`: what `load([…])` makes of a list"
    ),
    "columns": Option(_names, "only these, separated by commas; what is left out is not read"),
    "partitions": Option(_number(1, PARTITIONS_MAX), "how many tasks read; by size otherwise"),
    "timer_precision_ms": Option(
        _one_of_numbers(PRECISIONS_MS),
        "width of a slot, where RocketMQ was set to another one than a second",
    ),
    "topics": Option(
        _names,
        "only these, separated by commas; of `timerlog` by hash, which another topic may have too",
    ),
    "due_from": Option(
        _moment, "moments from here on: epoch milliseconds, or ISO 8601 with an offset"
    ),
    "due_to": Option(_moment, "moments before this one, in the same forms"),
    "stored_from": Option(
        _moment, "store times from here on: epoch milliseconds, or ISO 8601 with an offset"
    ),
    "stored_to": Option(_moment, "store times before this one, in the same forms"),
    "damage": Option(
        _one_of("refuse", "report"),
        "`refuse`: where the commit log holds no record though it should, the job ends; `report`: "
        "it goes on at the next record that a queue leads to",
    ),
    "rows_per_batch": Option(_number(1, INT64_MAX), "rows of a stream's batch at most"),
}
COMMON = ("path", "paths", "columns", "partitions", "timer_precision_ms")
"""Those that every table takes."""
MOMENTS = tuple(name for name, option in OPTIONS.items() if option.read is _moment)
"""Those that are moments."""


@attrs.frozen(kw_only=True)
class ReadOptions:
    """The values, or what holds without them; ``OPTIONS`` has their meanings."""

    stores: tuple[StorePattern, ...] = attrs.field(alias="path", converter=store_patterns)
    columns: tuple[str, ...] = ()
    partitions: int | None = None
    timer_precision_ms: int | None = None
    topics: tuple[str, ...] = ()
    due_from: int = 0
    due_to: int = INT64_MAX
    stored_from: int = 0
    stored_to: int = INT64_MAX
    damage: str = "refuse"
    rows_per_batch: int = 1_000_000

    @classmethod
    def parse(
        cls, table: str, options: Mapping[str, str], takes: Iterable[str] = ()
    ) -> ReadOptions:
        """Read what Spark hands over.

        Args:
            table: Its name, for errors.
            options: Names in any case.
            takes: Those that the table takes besides the common ones; others would have no effect.

        Raises:
            SparkJobError: An option is unknown to the table, missing, or no value of its kind.
        """
        known = (*COMMON, *takes)
        found: dict[str, object] = {}
        for key, text in options.items():
            name = key.lower()
            if name not in known:
                raise SparkJobError(
                    f"{table}: option {key!r}: expected one of {', '.join(sorted(known))}"
                )
            found[name] = OPTIONS[name].read(f"{table}: option {name}", text)
        if "paths" in found:
            if "path" in found:
                raise SparkJobError(f"{table}: option paths: expected it without path, found both")
            found["path"] = found.pop("paths")
        if "path" not in found:
            raise SparkJobError(f"{table}: option path: expected the store's directory, found none")
        return cls(**found)  # type: ignore[arg-type]  # each was read by the function of its name

    def wants_due(self) -> bool:
        """Whether moments are asked for."""
        return self.due_from > 0 or self.due_to < INT64_MAX

    def wants_stored(self) -> bool:
        """Whether store times are asked for."""
        return self.stored_from > 0 or self.stored_to < INT64_MAX
