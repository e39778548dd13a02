"""Jobs on a store with Spark: what will fire, whether all was delivered, bulk scheduling."""

from __future__ import annotations

from ..arguments import OneLineParser, Verb, add_sub_verbs
from ..arguments import run_sub_verb as run
from . import archive, audit, promote, rebuild, replay, report, schedule, table

__all__ = ["VERBS", "prepare_parser", "run"]

VERBS: dict[str, Verb] = {
    "archive": archive,
    "audit": audit,
    "rebuild": rebuild,
    "report": report,
    "table": table,
    "schedule": schedule,
    "replay": replay,
    "promote": promote,
}


def prepare_parser(parser: OneLineParser) -> None:
    """The jobs, as verbs below ``timermq spark``."""
    add_sub_verbs(parser, VERBS, "JOB")
