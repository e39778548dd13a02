"""RocketMQ's own clients under load, each in a process that writes its history and may end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import attrs
import trio

from interop.java_built import compile_java
from interop.java_peer import JavaPeer, fetch_jars, missing_tool
from timermq.client.history import HistoryWriter, Start
from timermq.client.moment import now_ms

from .load import CPP_TOPIC, GO_TOPIC, JAVA_TOPIC, Load, Target

HERE = Path(__file__).parent
GO_MODULE = HERE.parent / "interop/go"
LIVES_MAX = 1_000
AGAIN_SECONDS = 1.0


@attrs.frozen
class RealClient:
    """A client's program; its arguments are name servers, topic, history, name and seed."""

    name: str
    topic: str
    command: Sequence[str]

    async def run(self, load: Load, seed: int) -> None:
        """Keep it running until cancelled: it is started again when it ends by itself."""
        for life in range(LIVES_MAX):
            process = self._process(load, f"{self.name}{life}", seed + life)
            assert process.stdout is not None
            try:
                await trio.to_thread.run_sync(
                    partial(self._take_keys, process.stdout, load), abandon_on_cancel=True
                )
            finally:
                process.kill()
                process.wait()
            await trio.sleep(AGAIN_SECONDS)

    def _process(self, load: Load, who: str, seed: int) -> subprocess.Popen[str]:
        path = load.directory / f"{who}.jsonl"
        with HistoryWriter(path, who=who) as history:
            history.write(Start(at_ms=now_ms(), who=who, settings={"client": self.name}))
        command = [*self.command, load.namesrv, self.topic, str(path), who, str(seed)]
        environment = {**os.environ, "HOME": str(load.directory)}  # they write their logs there
        with (load.directory / f"{self.name}.err").open("ab") as errors:
            return subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
            )

    def _take_keys(self, lines: Iterable[str], load: Load) -> None:
        """Messages that the client sent may be cancelled as well; what else it prints is a log."""
        with contextlib.suppress(ValueError):  # closed when the process was killed
            for line in lines:
                if line.startswith(self.name):
                    load.acknowledged += 1
                    load.targets.append(Target(self.topic, None, line.strip()))


CPP = RealClient("cpp", CPP_TOPIC, (sys.executable, str(HERE / "cpp_load.py")))


def real_clients(directory: Path) -> Iterator[RealClient]:
    """Clients of RocketMQ that can run here: C++, and Java and Go where their tools are.

    Args:
        directory: Takes what is compiled.
    """
    yield CPP
    if missing_tool("java", "javac", "mvn") is None:
        jars = fetch_jars()
        compile_java([HERE / "LoadClient.java"], directory / "classes", jars)
        command = JavaPeer(directory / "classes", jars).command("LoadClient", directory)
        yield RealClient("java", JAVA_TOPIC, command)
    if missing_tool("go") is None:
        built = directory / "loading"
        build = ["go", "build", "-modfile=go.mod", "-o", str(built), "./loading"]
        subprocess.run(build, cwd=GO_MODULE, check=True)
        yield RealClient("go", GO_TOPIC, (str(built),))
