"""What the properties of a run of records tell queues and index, read together.

Records of one kind have texts of one size with the same properties: they are read as columns, one
size after the other. A size that is rare, or whose texts differ in more than values, is read text
by text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import attrs
import numpy as np
from numpy.typing import NDArray

from .array_types import Places
from .byte_columns import distinct, rows_at
from .dispatch import tags_code_in
from .index_keys import FreshColumns, FreshHashes, FreshRecords, KeyColumns, KeyHashes
from .java_hash import hash_rows
from .plain_run import PlainRun
from .properties import TAGS_NAME
from .property_columns import PropertyColumns

GROUP_MIN = 24
"""Fewer texts of a size are read text by text in less time."""
_ASCII_MAX = 127


@attrs.frozen(eq=False)
class _Group:
    """Records whose property texts have one size."""

    rows: NDArray[np.intp]
    """Which records of the run they are, ascending."""
    columns: PropertyColumns | None
    """None: they are read text by text."""


@attrs.frozen(eq=False, slots=False)
class RunProperties:
    """The properties of the records of a run."""

    run: PlainRun

    @cached_property
    def _groups(self) -> list[_Group]:
        return list(self._found_groups())

    def _found_groups(self) -> Iterator[_Group]:
        texts = self.run.properties
        sizes, which = distinct(texts.sizes)
        for number, size in enumerate(sizes):
            rows = np.flatnonzero(which == number)
            columns = None
            if size and len(rows) >= GROUP_MIN:
                columns = PropertyColumns.of(rows_at(texts.data, texts.starts[rows], size))
            yield _Group(rows, columns)

    def tags_codes(self) -> NDArray[np.int64]:
        """The tags code of each record, as ``dispatch.tags_code_in`` gives it."""
        codes = np.zeros(len(self.run), np.int64)
        for group in self._groups:
            tags = None if group.columns is None else group.columns.value(TAGS_NAME)
            if tags is None or int(tags.max(initial=0)) > _ASCII_MAX:
                codes[group.rows] = [tags_code_in(text) for text in self._texts(group)]
            elif tags.size:
                codes[group.rows] = hash_rows(np.zeros(len(tags), np.int32), tags)
        return codes

    def having(self, name: bytes) -> NDArray[np.bool_]:
        """Which records may have a property; the others have none of this name."""
        mark = name + b"\x01"
        having = np.zeros(len(self.run), np.bool_)
        for group in self._groups:
            if group.columns is None:
                having[group.rows] = [mark in text for text in self._texts(group)]
            else:
                having[group.rows] = group.columns.may_have(name)
        return having

    def _texts(self, group: _Group) -> list[bytes]:
        texts = self.run.property_texts
        return [texts[row] for row in group.rows.tolist()]

    def key_hashes(self, topics: Sequence[str]) -> FreshHashes:
        """What the index wants to know of the records.

        Args:
            topics: The topic of each.
        """
        parts = [self._group_hashes(group, topics) for group in self._groups]
        hashes = np.concatenate([part.hashes for part in parts])
        rows = np.concatenate([part.offsets_py for part in parts])
        if len(parts) > 1:
            order = np.argsort(rows, kind="stable")
            hashes, rows = hashes[order], rows[order]
        run = self.run
        positions: Places = run.positions
        return FreshHashes(
            start=int(positions[0]),
            end=int(positions[0]) + run.size,
            count=len(run),
            keys=KeyHashes(hashes, positions[rows], run.heads["store_ms"].astype(np.int64)[rows]),
        )

    def _group_hashes(self, group: _Group, topics: Sequence[str]) -> KeyHashes:
        """The hashes of a group's keys; for positions there are the numbers of the records."""
        rows: list[int] = group.rows.tolist()
        names: Sequence[str] = topics
        if len(rows) < len(topics):
            names = [topics[row] for row in rows]
        if group.columns is not None:
            fresh = FreshColumns.of(group.columns, names, group.rows, end=0, store_ms=0)
            if fresh is not None:
                return fresh.hashed()
        keys = KeyColumns()
        keys.add_fresh(FreshRecords(0, 0, 0, names, self._texts(group), rows))
        return keys.hashed()
