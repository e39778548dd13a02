"""The program: finds the verb, runs it, and turns what goes wrong into one line and an exit code.

This is the only place where an error of ours becomes text on standard error. An exception that is
not ours is a bug and keeps its traceback.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from rich_argparse import RichHelpFormatter

from .arguments import OneLineParser, UsageError, Verb
from .exit_code import DONE, FAILED, INTERRUPTED, UNREAD, USAGE
from .output import visible
from .verbs import VERBS, VerbParser

USAGE_ERRORS = (
    ("timermq.cli.settings", "ConfigurationError"),
    ("timermq.remoting", "LocalProtocolError"),
)
FAILURES = (
    ("timermq.timerstore.errors", "StoreError"),
    ("timermq.client", "ClientError"),
    ("timermq.broker.config_fields", "ConfigTableError"),
    ("timermq.broker.security.plain_acl", "PlainAclError"),
    ("timermq.broker.security.tls", "TlsError"),
    ("timermq.broker.replication.link_security", "SecretError"),
    ("timermq.remoting.credentials", "CredentialsError"),
    ("timermq.remoting", "RemoteProtocolError"),
)
"""Errors that are no bugs, besides those of usage and system: modules and names."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program.

    Args:
        argv: Arguments without the program's name; None: those of the process.

    Returns:
        0 done, 1 failed or a promise broken, 2 usage, 130 interrupted, 141 when the reader of the
        output had gone before all was found out.
    """
    _open_closed_streams()
    _escape_what_a_terminal_cannot_show()
    try:
        code = _run(argv)
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            _let_go_of_output()  # what the verb has found holds all the same
    except BaseException as error:
        code = _exit_code(error)
    return code


def _run(argv: Sequence[str] | None) -> int:
    """Run the verb of a command line."""
    try:
        args = build_parser().parse_args(argv)
    except SystemExit as end:  # after --help, --version, --print-completion, or a usage error
        return DONE if end.code is None else int(end.code)
    if "structlog" in sys.modules:  # a verb without it has nothing to log, and takes half the time
        from .log_output import log_warnings

        log_warnings()
    return cast("Verb", args.verb).run(args)


def _open_closed_streams() -> None:
    """A stream that was closed (`>&-`) is nowhere: a send that is stored must not fail for it."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - a stream


def _let_go_of_output() -> None:
    """Its reader has enough (`| head`). Later flushes must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escape_what_a_terminal_cannot_show() -> None:
    """In a locale without UTF-8 a key of other letters is printed as escapes, as in errors."""
    out: object = sys.stdout
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="backslashreplace")


def build_parser() -> OneLineParser:
    """The parser of the whole program."""
    parser = OneLineParser(
        prog="timermq",
        description="A durable broker for delayed messages on RocketMQ's files and protocol.",
        formatter_class=RichHelpFormatter,
    )
    parser.add_argument(
        "--version", action=_PrintVersion, nargs=0, help="show program's version number and exit"
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True, parser_class=VerbParser)
    parsers = [
        verbs.add_parser(name, verb=name, help=sentence, formatter_class=RichHelpFormatter)
        for name, sentence in VERBS.items()
    ]
    parser.add_argument(
        "--print-completion",
        action=_PrintCompletion,
        type=_shell,
        metavar="SHELL",
        parsers=parsers,
        help="print shell completion script",
    )
    return parser


class _PrintVersion(argparse.Action):
    """Prints the version of the program."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        import importlib.metadata

        print(f"timermq {importlib.metadata.version('timermq')}")
        parser.exit()


def _shell(text: str) -> str:
    """The name of a shell that can be told how to complete."""
    import shtab

    if text not in shtab.SUPPORTED_SHELLS:
        known = ", ".join(shtab.SUPPORTED_SHELLS)
        raise argparse.ArgumentTypeError(f"expected one of {known}, found {text!r}")
    return text


class _PrintCompletion(argparse.Action):
    """Prints what completes command lines of all verbs in a shell."""

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - those of argparse
        parsers: Sequence[VerbParser],
        **kwargs: Any,  # noqa: ANN401 - those of argparse
    ) -> None:
        super().__init__(*args, **kwargs)
        self._parsers = parsers

    def __call__(
        self, parser: argparse.ArgumentParser, _namespace: object, shell: object, *_rest: object
    ) -> None:
        import shtab

        self.choices = shtab.SUPPORTED_SHELLS
        for one in self._parsers:
            one.prepare()
        print(shtab.complete(parser, str(shell)))
        parser.exit()


def _exit_code(error: BaseException) -> int:
    """Say what went wrong in one line; re-raise what is not ours."""
    leaves = [error]
    if isinstance(error, BaseExceptionGroup):
        # Not above: code that makes groups has imported it, and other commands start sooner.
        from timermq.remoting.causes import causes

        leaves = list(causes(cast("BaseExceptionGroup[BaseException]", error)))
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
        return INTERRUPTED
    if all(isinstance(leaf, BrokenPipeError) for leaf in leaves):
        _let_go_of_output()
        return UNREAD
    usage_errors: tuple[type[BaseException], ...] = (UsageError, *_imported(USAGE_ERRORS))
    failures: tuple[type[BaseException], ...] = (OSError, *_imported(FAILURES))
    if not all(isinstance(leaf, usage_errors + failures) for leaf in leaves):
        raise error
    print(f"timermq: {visible(_one_line(leaves[0]))}", file=sys.stderr)
    return USAGE if isinstance(leaves[0], usage_errors) else FAILED


def _imported(names: Iterable[tuple[str, str]]) -> Iterator[type[BaseException]]:
    """The classes of imported modules: a module that is not imported has raised nothing."""
    for module, name in names:
        if module in sys.modules:
            yield getattr(sys.modules[module], name)


def _one_line(error: BaseException) -> str:
    """The message; what the operating system says gets our form: place, then what happened."""
    if isinstance(error, PermissionError) and error.filename:
        from timermq.timerstore.errors import no_access

        return no_access(error)
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror[:1].lower()}{error.strerror[1:]}"
    return " ".join(str(error).split())
