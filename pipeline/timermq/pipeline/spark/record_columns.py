"""The shared parts of tables of records: columns of a chunk, and which records are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from timermq.timerstore.array_types import Flags
from timermq.timerstore.properties import KEYS_NAME, TAGS_NAME, UNIQ_KEY_NAME

from .byte_arrays import Values, are_in, text
from .options import ReadOptions
from .record_chunks import RecordChunk

Arrays = dict[str, Values]


def record_columns(chunk: RecordChunk, names: Sequence[str]) -> Arrays:
    """Those of some columns that a record of any kind has, beside the numbers of its head."""
    return {name: _COLUMNS[name](chunk) for name in names if name in _COLUMNS}


def are_asked_for(chunk: RecordChunk, options: ReadOptions) -> Flags:
    """Which records are of the topics and store times that are asked for."""
    stored = chunk.heads["store_ms"]
    kept = (stored >= options.stored_from) & (stored < options.stored_to)
    if options.topics and kept.any():
        kept &= are_in(chunk.topics, [topic.encode() for topic in options.topics])
    return np.asarray(kept, np.bool_)


def _origins(chunk: RecordChunk) -> Values:
    origins, are = chunk.origins
    return pa.array(origins, mask=~are)


def _words(name: bytes) -> Callable[[RecordChunk], Values]:
    return lambda chunk: text(chunk.found.value(name)).fill_null("")


_COLUMNS: Mapping[str, Callable[[RecordChunk], Values]] = {
    "born_host": lambda chunk: chunk.hosts("born_host"),
    "store_host": lambda chunk: chunk.hosts("store_host"),
    "topic": lambda chunk: text(chunk.topics),
    "unique_id": lambda chunk: text(chunk.found.value(UNIQ_KEY_NAME)),
    "keys": _words(KEYS_NAME),
    "tags": _words(TAGS_NAME),
    "properties": lambda chunk: chunk.properties,
    "body": lambda chunk: chunk.bodies,
    "origin_py": _origins,
}
