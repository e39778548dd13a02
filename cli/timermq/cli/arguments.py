"""The shared parts of the verbs' arguments: the parser, and the types that read a text."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from .moment import MomentError, parse_duration, parse_moment

if TYPE_CHECKING:
    from timermq.client import HistoryWriter

# What takes long to import is imported by the arguments that need it.

NAMESRV = "127.0.0.1:9876"
"""The default address of the name server in `serve`."""


class UsageError(Exception):
    """The command line makes no sense; the one who typed it corrects it (exit code 2)."""


class OneLineParser(argparse.ArgumentParser):
    """A parser whose error is one line, like every other error of the program.

    Flags are taken by their whole names alone: a beginning that is clear today means another flag,
    or two, once there are more of them.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - those of argparse
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def add_subparsers(self, **kwargs: Any) -> Any:  # noqa: ANN401 - as argparse
        """As argparse does, which without ``prog`` makes a formatter of help, and that takes Rich.

        The verbs that have verbs below have no positional argument before them.
        """
        options: dict[str, Any] = {"prog": self.prog, **kwargs}
        return super().add_subparsers(**options)

    def error(self, message: str) -> NoReturn:
        """Raise ``UsageError`` in place of printing the usage and leaving."""
        raise UsageError(f"{self.prog.removeprefix('timermq').strip()}: {message}".lstrip(": "))


class Verb(Protocol):
    """A module of this package that is a verb; its docstring is the help."""

    __doc__: str | None

    def prepare_parser(self, parser: OneLineParser) -> None:
        """Add the arguments and flags that the verb takes."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Do it; returns the exit code."""
        ...


def add_sub_verbs(parser: OneLineParser, verbs: Mapping[str, Verb], metavar: str) -> None:
    """The verbs below a verb; the one that was asked for is ``args.sub_verb``."""
    below = parser.add_subparsers(metavar=metavar, required=True)
    for name, verb in verbs.items():
        text = verb.__doc__ or ""
        one = below.add_parser(
            name,
            help=first_sentence(text),
            description=text,
            formatter_class=parser.formatter_class,
        )
        verb.prepare_parser(one)
        one.set_defaults(sub_verb=verb)


def run_sub_verb(args: argparse.Namespace) -> int:
    """Run the verb below a verb that was asked for; its exit code."""
    return cast("Verb", args.sub_verb).run(args)


def first_sentence(text: str) -> str:
    """The line that a list of verbs shows."""
    return text.strip().split("\n\n")[0].split(". ")[0].rstrip(".").replace("\n", " ")


def complete_files(argument: argparse.Action) -> None:
    """Let the shell complete an argument with the names of files."""
    _complete(argument, "FILE")


def complete_directories(argument: argparse.Action) -> None:
    """Let the shell complete an argument with the names of directories."""
    _complete(argument, "DIRECTORY")


def _complete(argument: argparse.Action, kind: str) -> None:
    """Only shtab reads this, which ``--print-completion`` imports before it prepares parsers."""
    if "shtab" in sys.modules:
        argument.complete = getattr(sys.modules["shtab"], kind)  # type: ignore[attr-defined]


def moment(text: str) -> int:
    """A moment as epoch milliseconds; relative ones count from now."""
    from timermq.client.moment import now_ms

    try:
        return parse_moment(text, now_ms())
    except MomentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def duration(text: str) -> int:
    """Milliseconds of a duration such as ``3d12h`` or ``250ms``."""
    try:
        return parse_duration(text)
    except MomentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def count(text: str) -> int:
    """A whole number from 1 on."""
    if text.isascii() and text.isdigit() and len(text) <= 18 and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, found {text!r}")


def positive(text: str) -> float:
    """A number above 0 that is finite."""
    with suppress(ValueError):
        number = float(text)
        if 0 < number < math.inf:
            return number
    raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")


def address(text: str) -> tuple[str, str]:
    """Host and port of ``HOST:PORT``; brackets around an IPv6 host are taken off."""
    from timermq.timerstore.message import PORT_MAX

    host, mark, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdecimal() and len(port) < 6 and int(port) <= PORT_MAX
    if not (mark and host and is_port):
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, found {text!r}")
    return host, port


def name_servers(text: str) -> str:
    """``HOST:PORT``, several separated by ``;``."""
    for one in text.split(";"):
        address(one.strip())
    return text


def add_json(parser: argparse.ArgumentParser) -> None:
    """The flag that every reading verb has."""
    parser.add_argument(
        "--json",
        action="store_true",
        help="one JSON object a line: times in epoch milliseconds, sizes in bytes",
    )


def add_namesrv(parser: argparse.ArgumentParser) -> None:
    """Add the flag for the name servers that a client asks for brokers."""
    parser.add_argument(
        "--namesrv",
        metavar="HOST:PORT",
        type=name_servers,
        default=NAMESRV,
        help=f"name server, several separated by ; (default: {NAMESRV})",
    )


def add_history(parser: argparse.ArgumentParser) -> None:
    """Add the flag for the file of a client's history."""
    parser.add_argument(
        "--history",
        metavar="FILE",
        help="append what is asked and answered, for check-history",
    )


def open_history(args: argparse.Namespace) -> AbstractContextManager[HistoryWriter | None]:
    """The history that was asked for, if one was."""
    from timermq.client import HistoryWriter

    return nullcontext() if args.history is None else HistoryWriter(args.history)
