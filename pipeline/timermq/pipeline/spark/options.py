"""What may be asked of a table: ``spark.read.format(NAME).option(…)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from .errors import SparkJobError

INT64_MAX = 2**63 - 1
PARTITIONS_MAX = 10_000


@attrs.frozen(kw_only=True)
class ReadOptions:
    """The options of all tables; each says on docs/pipeline.md which of them it takes."""

    path: str
    """The store's directory, as the executors see it."""
    topics: tuple[str, ...] = ()
    """Only these; none for all."""
    due_from: int = 0
    """Moments from here on, epoch milliseconds."""
    due_to: int = INT64_MAX
    """… and before this one."""
    stored_from: int = 0
    """Store times from here on, epoch milliseconds."""
    stored_to: int = INT64_MAX
    """… and before this one."""
    columns: tuple[str, ...] = ()
    """Only these, in this order; none for all. What is left out is not read."""
    partitions: int | None = None
    """How many tasks read at most; None: by size."""
    rows_per_batch: int = 1_000_000
    """Of a stream: how many rows a batch has at most."""
    timer_precision_ms: int | None = None
    """Width of a slot, where RocketMQ was set to another one than a second."""

    @classmethod
    def parse(cls, table: str, options: Mapping[str, str]) -> ReadOptions:
        """Read what Spark hands over.

        Args:
            table: Its name, for errors.
            options: Names in any case.

        Raises:
            SparkJobError: An option is unknown, missing, or no value of its kind.
        """
        found: dict[str, object] = {}
        for key, text in options.items():
            name = key.lower()
            if name not in _READ:
                raise SparkJobError(
                    f"{table}: option {key!r}: expected one of {', '.join(sorted(_READ))}"
                )
            found[name] = _READ[name](f"{table}: option {name}", text)
        if "path" not in found:
            raise SparkJobError(f"{table}: option path: expected the store's directory, found none")
        return cls(**found)  # type: ignore[arg-type]  # each was read by the function of its name

    def wants_due(self) -> bool:
        """Whether moments are asked for."""
        return self.due_from > 0 or self.due_to < INT64_MAX


def _text(_: str, text: str) -> str:
    return text


def _names(_: str, text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _number(low: int, high: int) -> Callable[[str, str], int]:
    def read(place: str, text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high:
            return int(text)
        raise SparkJobError(
            f"{place}: expected a whole number from {low} to {high}, found {text!r}"
        )

    return read


_READ: Mapping[str, Callable[[str, str], object]] = {
    "path": _text,
    "topics": _names,
    "columns": _names,
    "due_from": _number(0, INT64_MAX),
    "due_to": _number(0, INT64_MAX),
    "stored_from": _number(0, INT64_MAX),
    "stored_to": _number(0, INT64_MAX),
    "partitions": _number(1, PARTITIONS_MAX),
    "rows_per_batch": _number(1, INT64_MAX),
    "timer_precision_ms": _number(1, 1000),
}
