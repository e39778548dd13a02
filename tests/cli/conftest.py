"""The command line as a user has it: arguments in, two streams and an exit code out."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from cli.program import SMALL_FILES, Ran, RunProgram
from interop.serving import Broker, serving
from timermq.cli import main


@pytest.fixture
def timermq(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunProgram:
    """Run the program in this process, without settings of the environment."""
    for name in list(os.environ):
        if name.startswith("TIMERMQ_"):
            monkeypatch.delenv(name)

    def run(*argv: str) -> Ran:
        capsys.readouterr()
        code = main(argv)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker in a process of its own, shared by the tests; each takes a topic of its own."""
    with serving(tmp_path_factory.mktemp("broker") / "store", *SMALL_FILES) as one:
        yield one
