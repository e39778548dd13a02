"""Why a master ends the link of a peer, by the name of a rule."""

from __future__ import annotations


class LinkRefusedError(Exception):
    """The peer cannot follow; its own operator, or the master's, does what the text says."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        """The rule, in capitals."""
        self.text = text
