"""The program: finds the verb, runs it, and turns what goes wrong into one line and an exit code.

This is the only place where an error of ours becomes text on standard error. An exception that is
not ours is a bug and keeps its traceback.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import shtab
from rich_argparse import RichHelpFormatter

from timermq.broker import ConfigTableError
from timermq.broker.security.plain_acl import PlainAclError
from timermq.broker.security.tls import TlsError
from timermq.client import ClientError
from timermq.remoting import LocalProtocolError, RemoteProtocolError
from timermq.timerstore.errors import StoreError

from . import (
    bench,
    cancel,
    check_history,
    clock,
    config,
    consume,
    demo,
    pending,
    quarantine,
    reschedule,
    send,
    serve,
    simulate,
    spark,
    store,
    top,
)
from .arguments import OneLineParser, UsageError, Verb, first_sentence
from .log_output import LogFormat, configure_logs
from .output import visible
from .settings import ConfigurationError

DONE = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 130

USAGE_ERRORS = (UsageError, ConfigurationError, LocalProtocolError)
FAILURES = (
    StoreError,
    ClientError,
    ConfigTableError,
    PlainAclError,
    TlsError,
    RemoteProtocolError,
    OSError,
)
"""What can go wrong without being a bug, besides the usage."""


VERBS: Mapping[str, Verb] = {
    "demo": demo,
    "serve": serve,
    "send": send,
    "consume": consume,
    "cancel": cancel,
    "reschedule": reschedule,
    "top": top,
    "clock": clock,
    "pending": pending,
    "quarantine": quarantine,
    "store": store,
    "check-history": check_history,
    "simulate": simulate,
    "spark": spark,
    "config": config,
    "bench": bench,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program.

    Args:
        argv: Arguments without the program's name; None: those of the process.

    Returns:
        0 done, 1 failed or a promise broken, 2 usage, 130 interrupted.
    """
    configure_logs(LogFormat.CONSOLE, logging.WARNING)
    try:
        args = build_parser().parse_args(argv)
        code = cast("Verb", args.verb).run(args)
        sys.stdout.flush()
    except SystemExit as end:  # argparse after --help, --version, --print-completion
        return DONE if end.code is None else int(end.code)
    except BaseException as error:
        code = _exit_code(error)
    return code


def build_parser() -> OneLineParser:
    """The parser of the whole program."""
    parser = OneLineParser(
        prog="timermq",
        description="A durable broker for delayed messages on RocketMQ's files and protocol.",
        formatter_class=RichHelpFormatter,
    )
    version = importlib.metadata.version("timermq")
    parser.add_argument("--version", action="version", version=f"timermq {version}")
    shtab.add_argument_to(parser, "--print-completion")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for name, verb in VERBS.items():
        text = (verb.__doc__ or "").strip()
        one = verbs.add_parser(
            name,
            help=first_sentence(text),
            description=text,
            formatter_class=RichHelpFormatter,
        )
        verb.prepare_parser(one)
        one.set_defaults(verb=verb)
    return parser


def _exit_code(error: BaseException) -> int:
    """Say what went wrong in one line; re-raise what is not ours."""
    leaves = list(_leaves(error))
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
        return INTERRUPTED
    if all(isinstance(leaf, BrokenPipeError) for leaf in leaves):
        # The reader of our output has enough (`| head`). Later flushes must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    if not all(isinstance(leaf, USAGE_ERRORS + FAILURES) for leaf in leaves):
        raise error
    print(f"timermq: {visible(_one_line(leaves[0]))}", file=sys.stderr)
    return USAGE if isinstance(leaves[0], USAGE_ERRORS) else FAILED


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group of groups, as nurseries make them."""
    if isinstance(error, BaseExceptionGroup):
        for one in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(one)
    else:
        yield error


def _one_line(error: BaseException) -> str:
    """The message; what the operating system says gets our form: place, then what happened."""
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror[:1].lower()}{error.strerror[1:]}"
    return " ".join(str(error).split())
