"""The program around the verbs: help, exit codes, and errors of one line."""

from __future__ import annotations

import importlib.metadata
import io
import os
import subprocess
import sys

import pytest
import trio

from cli.program import RunProgram
from timermq.cli import main as main_module_function
from timermq.cli.arguments import first_sentence
from timermq.cli.top.terminal import is_terminal
from timermq.cli.verbs import VERBS, verb_module
from timermq.client import BrokerRefusedError
from timermq.timerstore.errors import StoreFormatError


def test_no_verb(timermq: RunProgram) -> None:
    """Without a verb nothing is done, and one line says so."""
    ran = timermq()

    assert (2, "", "timermq: the following arguments are required: VERB\n") == (
        ran.code,
        ran.out,
        ran.err,
    )


def test_unknown_flag(timermq: RunProgram) -> None:
    """A usage error names the verb."""
    ran = timermq("cancel", "T", "H", "--force")

    assert (2, "timermq: unrecognized arguments: --force\n") == (ran.code, ran.err)


def test_argument_that_does_not_read(timermq: RunProgram) -> None:
    """The message of the argument's type is kept."""
    ran = timermq("send", "T", "--delay", "5")

    assert 2 == ran.code
    assert ran.err == (
        "timermq: send: argument --delay: duration '5': expected a form like 3d12h, 90s or 250ms\n"
    )


def test_version(timermq: RunProgram) -> None:
    """The version is that of the installed distribution."""
    ran = timermq("--version")

    assert (0, f"timermq {importlib.metadata.version('timermq')}\n") == (ran.code, ran.out)


@pytest.mark.parametrize("verb", VERBS)
def test_help(timermq: RunProgram, verb: str) -> None:
    """Every verb explains itself with the docstring of its module."""
    ran = timermq(verb, "--help")
    words = (verb_module(verb).__doc__ or "").split()

    assert 0 == ran.code
    assert words
    assert " ".join(words[:3]) in " ".join(ran.out.split())


@pytest.mark.parametrize("verb", VERBS)
def test_the_list_says_what_the_verb_says(verb: str) -> None:
    """Its sentence is the first one of the module, which the list does not import."""
    assert first_sentence(verb_module(verb).__doc__ or "") == VERBS[verb]


def test_list_of_verbs(timermq: RunProgram) -> None:
    """The help names every verb."""
    ran = timermq("--help")

    assert 0 == ran.code
    assert all(verb in ran.out for verb in VERBS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion(timermq: RunProgram, shell: str) -> None:
    """The shell's completion is printed and knows the verbs."""
    ran = timermq("--print-completion", shell)

    assert 0 == ran.code
    assert all(verb in ran.out for verb in VERBS)


def test_failures_are_one_line(timermq: RunProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of ours is told in one line, also out of a nursery."""

    async def fail() -> None:
        raise StoreFormatError("f", 7, "a unit", "none")

    async def fail_inside() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)

    def run(_: object) -> None:
        trio.run(fail_inside)

    monkeypatch.setattr(verb_module("cancel"), "run", run)
    ran = timermq("cancel", "T", "H")

    assert (1, "timermq: f: at 7: expected a unit, found none\n") == (ran.code, ran.err)


def test_system_errors_are_one_line(timermq: RunProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the operating system refuses gets our form: place, then what happened."""

    def fail(_: object) -> int:
        raise FileNotFoundError(2, "No such file or directory", "/nowhere")

    monkeypatch.setattr(verb_module("cancel"), "run", fail)
    ran = timermq("cancel", "T", "H")

    assert (1, "timermq: /nowhere: no such file or directory\n") == (ran.code, ran.err)


def test_interrupt(timermq: RunProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control-C ends with 130 and says nothing."""

    def interrupt(_: object) -> int:
        raise BaseExceptionGroup("nursery", [KeyboardInterrupt()])

    monkeypatch.setattr(verb_module("cancel"), "run", interrupt)
    ran = timermq("cancel", "T", "H")

    assert (130, "", "") == (ran.code, ran.out, ran.err)


def test_bugs_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that is not ours is not made into a line."""

    def fail(_: object) -> int:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(verb_module("cancel"), "run", fail)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        main_module_function(("cancel", "T", "H"))


@pytest.mark.slow
def test_reader_that_has_enough() -> None:
    """A closed pipe is told by nothing but the code, as of any program: `… | head -1`."""
    command = f"{sys.executable} -m timermq.cli --help | (exit); echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)

    assert ran.stdout in {"0\n", "141\n"}  # all written, or not, before it closed
    assert "" == ran.stderr


def test_a_reader_that_goes_before_the_verdict() -> None:
    """A check whose findings were not read to the end has not found that all is well."""
    code = (
        "import sys\n"
        "from timermq.cli import main\n"
        "from timermq.cli.verbs import verb_module\n"
        "verb_module('store').run = lambda _: print('x' * 1_000_000) or 1\n"
        "sys.exit(main(['store', 'check', 'D']))"
    )
    reader, writer = os.pipe()
    os.close(reader)

    ran = subprocess.run(
        [sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)

    assert (141, b"") == (ran.returncode, ran.stderr)


def test_failures_obey_no_terminal(timermq: RunProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server says in its refusal is written out."""

    def run(_: object) -> None:
        raise BrokerRefusedError(1, "RULE: \x1b[2Jgone")

    monkeypatch.setattr(verb_module("cancel"), "run", run)
    ran = timermq("cancel", "T", "H")

    assert "timermq: refused with code 1: RULE: \\x1b[2Jgone\n" == ran.err


def test_a_terminal_without_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its encoding has no sign for is printed as an escape, and the rest as it is."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))

    code = main_module_function(("serve", "--help"))
    sys.stdout.flush()

    assert 0 == code
    assert r"HOST:PORT;\u2026" in written.getvalue().decode("ascii")


def test_a_verdict_outlives_its_reader() -> None:
    """What a verb has found is its exit code, also when its output is not read any more."""
    code = (
        "import sys\n"
        "from timermq.cli import main\n"
        "from timermq.cli.verbs import verb_module\n"
        "verb_module('cancel').run = lambda _: print('not_found') or 1\n"
        "sys.exit(main(['cancel', 'T', 'H']))"
    )
    reader, writer = os.pipe()
    os.close(reader)

    buffered = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=buffered,
        check=False,
    )
    os.close(writer)

    assert (1, b"") == (ran.returncode, ran.stderr)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str) -> None:
    """They are nowhere, and no error: what was done is done."""
    command = f"{sys.executable} -m timermq.cli config show {closed}; echo $? >/dev/fd/9"
    reader, writer = os.pipe()

    ran = subprocess.run(
        ["bash", "-c", command.replace("/dev/fd/9", f"/dev/fd/{writer}")],
        capture_output=True,
        pass_fds=[writer],
        check=True,
    )
    os.close(writer)
    with open(reader, "rb") as told:  # noqa: PTH123 - a pipe
        assert b"0\n" == told.read()
    assert b"" == ran.stderr


def test_a_host_that_cannot_be(timermq: RunProgram) -> None:
    """IDNA refuses the name with an error of its own."""
    ran = timermq("send", "T", "b", "--namesrv", "a..b:1")

    assert (1, 1) == (ran.code, len(ran.err.splitlines()))
    assert "a..b:1: cannot connect: " in ran.err


def test_no_broker_was_reached(timermq: RunProgram) -> None:
    """However short the time is: no message there, and no broker there, are told apart."""
    ran = timermq("consume", "T", "--group", "g", "--timeout", "1ms", "--namesrv", "127.0.0.1:1")

    assert (1, 1) == (ran.code, len(ran.err.splitlines()))


def test_two_ways_to_say_seeds(timermq: RunProgram) -> None:
    """``--seed`` and ``--seeds`` together are refused, for one of them would be dropped."""
    ran = timermq("simulate", "--seed", "7", "--seeds", "1..1")

    assert 2 == ran.code
    assert "--seeds: not allowed with argument --seed" in ran.err


def test_more_seeds_than_can_be_counted(timermq: RunProgram) -> None:
    """A usage error, no traceback."""
    ran = timermq("simulate", "--seeds", "1..100000000000000000000")

    assert 2 == ran.code
    assert "expected N or A..B below 10^18" in ran.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--property", "a=1", "--property", "a=2"), "a: given before"),
        (("--property", "UNIQ_KEY=x"), "UNIQ_KEY: the message's id, which the client makes"),
        (("--property", "KEYS=x", "--key", "y"), "KEYS: set by --key"),
        (("--property", "TAGS=x", "--tag", "y"), "TAGS: set by --tag"),
        (("--property", "DELAY=3", "--level", "4"), "DELAY: set by --level"),
    ],
)
def test_properties_that_say_two_things(
    timermq: RunProgram, words: tuple[str, ...], why: str
) -> None:
    """One of them would be dropped."""
    ran = timermq("send", "T", "b", *words)

    assert 2 == ran.code
    assert f"argument --property: {why}" in ran.err


@pytest.mark.parametrize("words", [["pending"], ["quarantine", "list"]])
def test_a_directory_without_a_name(timermq: RunProgram, words: list[str]) -> None:
    """That of a variable that is not set: it does not mean a running broker."""
    ran = timermq(*words, "--store", "")

    assert (1, 1) == (ran.code, len(ran.err.splitlines()))
    assert "expected a store" in ran.err


@pytest.mark.parametrize(("term", "expected"), [("dumb", False), ("xterm-256color", True)])
def test_a_terminal_that_cannot_draw(
    monkeypatch: pytest.MonkeyPatch, term: str, expected: bool
) -> None:
    """`top` prints one frame there, as where there is no terminal."""
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", term)

    assert expected is is_terminal()
