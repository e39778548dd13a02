"""An answer that says "stored", and may not be sent before that is certain."""

from __future__ import annotations

import attrs

from timermq.remoting.command import Command

from .session import Session


@attrs.frozen
class UnflushedAnswer:
    """An answer that says "stored" as soon as that is durable, and replicated where that counts."""

    session: Session
    answer: Command
    end: int
    """Position in the commit log up to which it must be flushed."""
    begun_ms: int | None = None
    """Wall clock when its put began, of a send."""
