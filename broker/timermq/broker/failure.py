"""What ends a broker that was not asked to stop, told to the log."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import structlog

from timermq.remoting.causes import causes

log = structlog.get_logger("timermq.broker.failure")


@contextlib.contextmanager
def failure_told() -> Generator[None]:
    """Log the reasons of an error that leaves the block: for a failed sync, error and file."""
    try:
        yield
    except Exception as error:
        log.error("broker failed", reasons=[str(one) for one in causes(error)])
        raise
