"""The options of the sink: ``df.write.format("timermq.schedule").option(…)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from timermq.remoting import RemoteProtocolError
from timermq.remoting.bulk import NAME_SIZE_MAX, checked_name

from ..errors import SparkJobError
from ..options import absolute

NAME = "timermq.schedule"
"""The name for ``df.write.format``."""
_BATCH_DIGITS = 19
"""Characters that the number of a stream's batch adds to the name of its job."""
_OF_SPARK = frozenset({"path", "checkpointlocation", "queryname"})
"""Options that Spark hands over for its own use."""


def _absolute(directory: str | None) -> str | None:
    return None if directory is None else absolute(directory)


@attrs.frozen(kw_only=True)
class SinkOptions:
    """The options of ``df.write.format("timermq.schedule")``, checked."""

    broker: str | None = None
    """``HOST:PORT`` of the broker."""
    namesrv: str | None = None
    """In place of it: a name server, ``HOST:PORT``; the brokers that it knows share the rows."""
    job: str
    """Name of the job: whatever runs under one name is scheduled once. Of a stream: of the sink."""
    rejects: str | None = attrs.field(default=None, converter=_absolute)
    """A directory for the rows that are refused; None: a refused row fails the job."""
    far: str | None = attrs.field(default=None, converter=_absolute)
    """A directory for rows that are due later than ``window_ms``; None: there are none."""
    window_ms: int | None = None
    """From the moment of the job on, milliseconds; goes with ``far``."""
    wait: bool = True
    """Whether a commit waits until the broker has adopted all rows."""
    same_rows: bool = True
    """Whether a job that was handed over before with other rows is refused; else what was handed
    over counts, whatever the rows are."""
    patience_ms: int = 30_000
    """How long a broker is waited for that has gone, or is busy, after it has answered once."""
    access_key: str | None = None
    """An account of the broker, where it controls access."""
    secret_key: str | None = attrs.field(default=None, repr=False)
    security_token: str | None = attrs.field(default=None, repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Read what Spark hands over.

        Args:
            options: Names in any case.

        Raises:
            SparkJobError: An option is unknown, missing, or no value of its kind.
        """
        given = {key.lower(): text for key, text in options.items() if key.lower() not in _OF_SPARK}
        known = {field.name for field in attrs.fields(cls)}
        for name in given:
            if name not in known:
                raise _wrong(name, f"expected one of {', '.join(sorted(known))}", "an unknown one")
        if ("broker" in given) == ("namesrv" in given):
            found = "both" if "broker" in given else "none"
            raise _wrong("broker", "expected either broker or namesrv, HOST:PORT", found)
        if "job" not in given:
            raise _wrong("job", "expected a name for the job: a rerun has the same one", "none")
        _check_job(given["job"])
        if ("far" in given) != ("window_ms" in given):
            raise _wrong("far", "expected far and window_ms together", "one of them")
        if ("access_key" in given) != ("secret_key" in given):
            raise _wrong("access_key", "expected access_key and secret_key", "one of them")
        read: dict[str, Any] = {
            name: _READ[name](name, text) if name in _READ else text for name, text in given.items()
        }
        return cls(**read)

    def to_options(self) -> dict[str, str]:
        """The same as Spark takes it."""
        found: dict[str, str] = {}
        for field in attrs.fields(type(self)):
            value: str | int | bool | None = getattr(self, field.name)
            if value is not None:
                found[field.name] = str(value).lower() if isinstance(value, bool) else str(value)
        return found

    @property
    def roots(self) -> list[str]:
        """The directories that files are published in."""
        return [root for root in (self.rejects, self.far) if root is not None]

    def of_batch(self, batch_id: int) -> SinkOptions:
        """Those of one batch of a stream."""
        return attrs.evolve(self, job=f"{self.job}.{batch_id}")


def _check_job(name: str) -> None:
    try:
        checked_name("BULK_JOB", name)
    except RemoteProtocolError as error:
        raise SparkJobError(f"{NAME}: option job: {error.remark}") from None
    if len(name) > NAME_SIZE_MAX - _BATCH_DIGITS - 1:
        most = NAME_SIZE_MAX - _BATCH_DIGITS - 1
        raise _wrong("job", f"expected at most {most} characters", str(len(name)))


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise _wrong(name, "expected true or false", repr(text))
    return text.lower() == "true"


def _milliseconds(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise _wrong(name, "expected milliseconds", repr(text))
    return int(text)


def _directory(name: str, text: str) -> str:
    return absolute(text, f"{NAME}: option {name}")


_READ: Mapping[str, Callable[[str, str], object]] = {
    "rejects": _directory,
    "far": _directory,
    "wait": _boolean,
    "same_rows": _boolean,
    "window_ms": _milliseconds,
    "patience_ms": _milliseconds,
}
"""The options that are more than a text."""


def _wrong(name: str, expected: str, found: str) -> SparkJobError:
    return SparkJobError(f"{NAME}: option {name}: {expected}, found {found}")
