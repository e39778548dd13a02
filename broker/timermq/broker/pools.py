"""The pools that all peers take from, each with what a share of it goes by."""

from __future__ import annotations

import attrs

from .options import BrokerOptions
from .pool import Pool


@attrs.frozen(eq=False, kw_only=True)
class Pools:
    """One pool for each kind of thing that a peer may take for itself."""

    frames: Pool
    """Bytes received that are not worked on, by address."""
    unread: Pool
    """Bytes of answers that peers have not read, by address."""
    held_pulls: Pool
    """Pulls that wait for messages, by account, without one by address."""

    @classmethod
    def of(cls, options: BrokerOptions) -> Pools:
        """The pools of a broker with these settings."""
        return cls(
            frames=Pool(lambda: options.unfinished_frames_size_max),
            unread=Pool(lambda: options.unread_outputs_size_max),
            held_pulls=Pool(lambda: options.held_pulls_max),
        )
