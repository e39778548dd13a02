"""The errors in a group of groups, as nurseries make them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors that are no groups, in their order."""
    if isinstance(error, BaseExceptionGroup):
        for one in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(one)
    else:
        yield error


def in_words(error: BaseException) -> str:
    """All of them in one line."""
    return "; ".join(f"{type(one).__name__}: {one}" for one in leaves(error))
