"""The verbs of the program, and parsers that import one only when it is asked for.

A verb's module brings the libraries that it needs; all of them together take a second to import.
So a list of verbs is made from this table alone, and a command line from the module of its verb.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, cast

from .arguments import OneLineParser, Verb

VERBS: Mapping[str, str] = {
    "demo": "Try it all in 15 seconds: a broker on a throw-away store, real sockets, and a check",
    "serve": (
        "Serve: the broker with a name server of its own, on a store that is made if it is not "
        "there"
    ),
    "send": "Send a message: now, for a moment, after a delay, or by level",
    "consume": (
        "Receive the messages of a topic as a member of a group, and commit what was printed"
    ),
    "cancel": "Take a message back that waits for its moment: cancelled, too_late or not_found",
    "reschedule": "Give a pending message another moment: moved, too_late or not_found",
    "top": (
        "Watch brokers: the wheel, its pointers and lag, rates, lateness, next slots, top topics"
    ),
    "cluster": "The brokers of a cluster, a line each: `timermq cluster status`",
    "promote": "Let a follower lead whose master is gone",
    "demote": "Let a master hand over to its follower, which clients hardly notice, and follow it",
    "clock": (
        "Look at a broker's wall clock, or accept it as right: `timermq clock status`, `clock "
        "accept`"
    ),
    "pending": (
        "List what will fire, and when: of a running broker, or of the store of a stopped one"
    ),
    "explain": "Tell the life of one message, step by step, and how it stands",
    "quarantine": (
        "See to what could not be delivered: list it, show one, try it again, or let it go"
    ),
    "store": ("Look into a stopped store, of this program or of RocketMQ 5, and repair it"),
    "backup": (
        "Ship a store to a directory or an object store, once or every second; `restore` brings it "
        "back"
    ),
    "restore": (
        "Make a store of a backup, in a directory that is empty or not there; `serve` then serves "
        "it"
    ),
    "check-history": (
        "Judge histories of producers and consumers: lost, early, twice, cancelled or not, in order"
    ),
    "simulate": (
        "Simulate days of a broker under faults, from one seed: nothing lost, early or twice"
    ),
    "spark": (
        "Jobs on a store with Spark: what will fire, whether all was delivered, bulk scheduling"
    ),
    "config": "Show the configuration: every setting, its value, and where the value comes from",
    "bench": (
        "Measure this machine: rates, bursts, lateness, memory, each beside the floor that is "
        "promised"
    ),
}
"""Each with the first sentence of its module, which the list of verbs shows."""


def verb_module(name: str) -> Verb:
    """The module of a verb, imported when it is asked for."""
    return cast("Verb", importlib.import_module(f"timermq.cli.{name.replace('-', '_')}"))


class VerbParser(OneLineParser):
    """The parser of one verb: gets description and arguments as soon as it has to parse.

    Args:
        verb: Its name; empty for the parsers below it, which their verb prepares.
        args: As for argparse.
        kwargs: The same.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - those of argparse
        verb: str = "",
        **kwargs: Any,  # noqa: ANN401 - those of argparse
    ) -> None:
        super().__init__(*args, **kwargs)
        self._verb = verb

    def prepare(self) -> None:
        """Import the verb and take its arguments over; once."""
        if self._verb:
            module, self._verb = verb_module(self._verb), ""
            self.description = (module.__doc__ or "").strip()
            module.prepare_parser(self)
            self.set_defaults(verb=module)

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as argparse
        """Parse, after ``prepare`` has added the verb's arguments."""
        self.prepare()
        return super().parse_known_args(*args, **kwargs)
