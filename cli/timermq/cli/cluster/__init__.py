"""The brokers of a cluster, a line each: `timermq cluster status`."""

from __future__ import annotations

from ..arguments import OneLineParser, Verb, add_sub_verbs
from ..arguments import run_sub_verb as run
from . import status

__all__ = ["VERBS", "prepare_parser", "run"]

VERBS: dict[str, Verb] = {"status": status}


def prepare_parser(parser: OneLineParser) -> None:
    """The verbs below ``timermq cluster``, with their arguments."""
    add_sub_verbs(parser, VERBS, "VERB")
