"""The client's log: trouble after which the work goes on, so that no caller is told of it.

The lines go to structlog, as those of the broker do. It is imported with the first of them: that
takes longer than importing the whole client, and a producer that sends one message has none.
"""

from __future__ import annotations


def warn(event: str, **values: object) -> None:
    """Write a warning.

    Args:
        event: What happened.
        values: Where, and why: as they are to be printed.
    """
    import structlog

    structlog.get_logger("timermq.client").warning(event, **values)
