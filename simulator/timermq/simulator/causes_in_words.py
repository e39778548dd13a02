"""An error of a nursery in words."""

from __future__ import annotations

from timermq.remoting.causes import causes


def in_words(error: BaseException) -> str:
    """All of its causes in one line."""
    return "; ".join(f"{type(one).__name__}: {one}" for one in causes(error))
