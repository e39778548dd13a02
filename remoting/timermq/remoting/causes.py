"""The causes in an error that is a group of groups, as nurseries make them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast


def causes(error: BaseException) -> Iterator[BaseException]:
    """The errors that are no groups, in their order; one at least."""
    if isinstance(error, BaseExceptionGroup):
        for one in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from causes(one)
    else:
        yield error


def first_cause(error: BaseException) -> BaseException:
    """The first of the ``causes`` of an error."""
    return next(causes(error))
