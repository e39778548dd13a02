"""The command line as a user has it: arguments in, two streams and an exit code out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import cast

import attrs
import pytest
import structlog

from interop.serving import Broker, serving
from timermq.cli import main

SMALL_FILES = (
    "--set=mapped_file_size_commit_log=16777216",
    "--set=mapped_file_size_timer_log=1048576",
    "--set=max_hash_slot_num=1000",
    "--set=max_index_num=4000",
)
"""A gigabyte that nobody fills takes time to reserve."""


@attrs.frozen
class Ran:
    """What one run of the program left behind."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, object]]:
        """The JSON lines."""
        return [cast("dict[str, object]", json.loads(line)) for line in self.out.splitlines()]


RunProgram = Callable[..., Ran]


@pytest.fixture
def timermq(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunProgram]:
    """Run the program in this process, without settings of the environment."""
    for name in list(os.environ):
        if name.startswith("TIMERMQ_"):
            monkeypatch.delenv(name)

    def run(*argv: str) -> Ran:
        capsys.readouterr()
        code = main(argv)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    yield run
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker in a process of its own, shared by the tests; each takes a topic of its own."""
    with serving(tmp_path_factory.mktemp("broker") / "store", *SMALL_FILES) as one:
        yield one
