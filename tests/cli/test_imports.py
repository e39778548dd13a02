"""What a command line imports before it does anything: most of the time that it takes.

Counted are modules, which are the same on a busy machine. Those of Python itself differ from one
version to the next and are left out, but for a few that are large.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import attrs
import pytest

from interop.serving import Broker

LARGE = {
    *("asyncio", "attr", "cattrs", "email", "lark", "msgspec", "numpy", "platformdirs"),
    *("prometheus_client", "psutil", "pyarrow", "pygments", "pyspark", "rich", "shtab"),
    *("structlog", "trio", "yaml"),
}
"""Libraries that take five milliseconds or more."""

CLIENT = {"attr", "msgspec", "trio"}
"""What speaking to a broker takes."""
LOGGING = {"asyncio", "pygments", "rich", "structlog"}
SETTINGS = {*CLIENT, *LOGGING, "cattrs", "platformdirs"}

COUNTING = """
import contextlib, io, json, sys
before = set(sys.modules)
from timermq.cli.main import main
with contextlib.redirect_stdout(io.StringIO()):
    code = main(sys.argv[1:])
print(json.dumps([code, sorted(set(sys.modules) - before)]))
"""


@attrs.frozen
class Imports:
    """What a command line brought."""

    code: int
    modules: frozenset[str]

    @property
    def count(self) -> int:
        """Modules that are not Python's own."""
        return sum(one.partition(".")[0] not in sys.stdlib_module_names for one in self.modules)

    @property
    def large(self) -> set[str]:
        """The large libraries among them."""
        return LARGE & {one.partition(".")[0] for one in self.modules}


def imports_of(*words: str) -> Imports:
    """What a process of its own imports for a command line."""
    ran = subprocess.run(
        [sys.executable, "-c", COUNTING, *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    code, modules = json.loads(ran.stdout)
    return Imports(code, frozenset(modules))


@pytest.mark.parametrize(
    ("words", "count_max", "large"),
    [
        ("--version", 15, {"email"}),
        ("--help", 60, {"rich"}),
        ("send --help", 220, {*CLIENT, "rich"}),
        ("consume --help", 270, {*CLIENT, *LOGGING}),
        ("cancel --help", 220, {*CLIENT, "rich"}),
        ("reschedule --help", 220, {*CLIENT, "rich"}),
        ("top --help", 245, {*CLIENT, "rich"}),
        ("clock --help", 225, {*CLIENT, "rich"}),
        ("cluster --help", 230, {*CLIENT, "rich"}),
        ("pending --help", 230, {*CLIENT, "rich"}),
        ("explain --help", 225, {*CLIENT, "rich"}),
        ("quarantine --help", 225, {*CLIENT, "rich"}),
        ("check-history --help", 225, {*CLIENT, "rich"}),
        ("config --help", 310, SETTINGS),
        ("store --help", 606, {*SETTINGS, "numpy"}),
        ("backup --help", 475, {*SETTINGS, "numpy"}),
        ("restore --help", 617, {*SETTINGS, "numpy"}),
        ("spark --help", 355, SETTINGS),
    ],
)
def test_imports_of_a_verb(words: str, count_max: int, large: set[str]) -> None:
    """A verb brings what it uses, and help the library that draws it."""
    found = imports_of(*words.split())

    assert 0 == found.code
    assert large == found.large
    assert found.count <= count_max


def test_imports_of_a_sender(broker: Broker) -> None:
    """To send, cancel or reschedule takes what speaks to a broker, and nothing else."""
    sends = imports_of("send", "Imports", "hello", "--delay", "1h", "--namesrv", broker.namesrv)
    cancels = imports_of("cancel", "Imports", "--id", "0" * 32, "--namesrv", broker.namesrv)
    moves = imports_of(
        *("reschedule", "Imports", "--id", "0" * 32, "--delay", "2h", "--namesrv", broker.namesrv)
    )

    assert (0, 1, 1) == (sends.code, cancels.code, moves.code)
    assert [CLIENT] * 3 == [one.large for one in (sends, cancels, moves)]
    assert max(one.count for one in (sends, cancels, moves)) <= 178


def test_imports_of_who_asks(broker: Broker) -> None:
    """What waits, is quarantined or happened is asked without the code of a store."""
    for words in ("pending", "quarantine list", "clock status", "cluster status"):
        found = imports_of(*words.split(), "--json", "--namesrv", broker.namesrv)

        assert (words, 0, CLIENT) == (words, found.code, found.large)
        assert found.count <= 185


def test_warnings_of_a_consumer_are_lines() -> None:
    """Its client imports structlog late; lines are set up by then, not left on standard output."""
    code = (
        "from timermq.cli import main\n"
        "main(['consume', 'T', '--group', 'G', '--namesrv', '127.0.0.1:1'])\n"
        "from timermq.client.log import warn\n"
        "warn('commit failed', group='G')"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert "" == ran.stdout
    assert "commit failed" in ran.stderr.splitlines()[-1]
