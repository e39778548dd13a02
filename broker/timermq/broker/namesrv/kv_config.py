"""Texts that operators keep in name servers, by namespace and key: ``config/kvConfig.json``.

RocketMQ keeps the order of topics there; nothing here goes by them.

Source: Java ``KVConfigManager``.
"""

from __future__ import annotations

from timermq.remoting.codes import ResponseCode

from ..config_fields import ConfigFields
from ..config_table import in_order
from ..refusal import RefusedError

ENTRIES_MAX = 10_000
"""Texts of all namespaces."""
TEXT_LENGTH_MAX = 65_536
"""Characters of a namespace, a key and a value together."""


class KvConfigTable:
    """Texts by namespace and key, changed by operators."""

    path = "config/kvConfig.json"
    without_it: str | None = "the texts are lost, such as orders of topics"

    def __init__(self) -> None:
        self.changes = 0
        self._rest: dict[str, object] = {}
        self._tables: dict[str, dict[str, str]] = {}

    def load(self, data: object) -> None:
        """Replace the table by what a file has, decoded from JSON."""
        fields = ConfigFields(self.path, data)
        table = fields.fields("configTable")
        self._tables = {name: table.texts(name) for name in list(table.rest)}
        self._rest = fields.rest

    def to_json(self) -> dict[str, object]:
        """The content of the file, for JSON."""
        tables = {namespace: dict(texts) for namespace, texts in self._tables.items()}
        return in_order(self._rest, configTable=tables)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Keep a text.

        Raises:
            RefusedError: There is no room for it (1).
        """
        count = sum(map(len, self._tables.values()))
        size = len(namespace) + len(key) + len(value)
        is_new = self.get(namespace, key) is None
        if (is_new and count >= ENTRIES_MAX) or size > TEXT_LENGTH_MAX:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                "KV_CONFIG_MAX",
                f"expected at most {ENTRIES_MAX} texts of {TEXT_LENGTH_MAX} characters, found "
                f"{count + is_new} and {size}",
            )
        self._tables.setdefault(namespace, {})[key] = value
        self.changes += 1

    def get(self, namespace: str, key: str) -> str | None:
        """A text; None when there is none."""
        return self._tables.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Forget a text, if it is there."""
        if self._tables.get(namespace, {}).pop(key, None) is not None:
            self.changes += 1

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """All texts of a namespace; None when there is none such."""
        found = self._tables.get(namespace)
        return None if found is None else dict(found)
