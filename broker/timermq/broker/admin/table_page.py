"""A page of a table that is read in several requests.

From 5.4 on RocketMQ's slaves and tools ask for topics and groups page by page. A request names the
number of the page's first entry, in the order of names, and the version of the table of the pages
before. If the table has changed since, the answer is the first page, and the reader begins again.

Source: Java ``TopicConfigManager.subTopicConfigTable``, ``SubscriptionGroupManager.subGroupTable``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from timermq.remoting.bodies import json_object, load_json
from timermq.remoting.codes import ResponseCode
from timermq.timerstore.config_file import DataVersion

from ..config_table import version_json
from ..refusal import RefusedError

PAGE_COUNT_MAX = 2_000
"""Entries of a page: RocketMQ's ``splitMetadataSize``."""


@attrs.frozen
class TablePage:
    """The page that a request asks for."""

    begin: int
    """Number of the first entry, from 0."""
    count: int
    """Entries at most."""
    version: str
    """That of the pages before, as JSON; empty: there are none."""

    @classmethod
    def asked(cls, begin: int | None, count: int | None, version: str | None) -> TablePage | None:
        """The page of a request's parameters; None: it has none of them, and wants everything.

        Raises:
            RefusedError: The numbers are those of no page (29).
        """
        if begin is None and count is None and version is None:
            return None
        first, most = begin or 0, PAGE_COUNT_MAX if count is None else count
        if first < 0 or most < 1:
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER,
                "TABLE_PAGE",
                f"expected a first entry from 0 and a page of at least 1, found {first} and {most}",
            )
        return cls(first, min(most, PAGE_COUNT_MAX), version or "")

    def names(self, table: Iterable[str], version: DataVersion) -> Sequence[str]:
        """The names on the page, in their order.

        Args:
            table: All names.
            version: Of the table now.

        Raises:
            BodyFormatError: The version of the pages before is not valid.
        """
        ordered = sorted(table)
        begin = self.begin if self._goes_on_in(version) else 0
        end = begin + self.count
        # Java's readers stop before the last entry: alone on a page it would not be read.
        if end == len(ordered) - 1:
            end += 1
        return ordered[begin:end]

    def _goes_on_in(self, version: DataVersion) -> bool:
        """Whether the pages before are of this version."""
        if not self.begin or not self.version.strip():
            return False
        text = self.version.encode("utf-8", "replace")
        before = json_object(load_json(text, "dataVersion"), "dataVersion")
        return all(before.get(name) == value for name, value in version_json(version).items())
