"""Fixtures of the tests on files and clients of others."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
import trio

from golden_stores import NAMES, GoldenStores
from interop.golden_opened import AFTERWARDS_MS, STORE_OPTIONS, TIMER_OPTIONS, Opened
from interop.java_peer import (
    RELEASE_4,
    RELEASE_5_3,
    JavaPeer,
    fetch_jars,
    missing_tool,
)
from timermq.pipeline.recovery.timer_files import TimerFiles
from timermq.pipeline.recovery.timer_recovery import recover
from timermq.timerstore.message import NO_HOST
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk

Client = Callable[..., list[str]]
"""Makes a command line of a program's name and its arguments."""


def skip_without_java() -> None:
    """End a test that needs RocketMQ's own broker where it cannot run."""
    missing = missing_tool("java", "javac", "mvn")
    if missing is not None:
        pytest.skip(f"RocketMQ's own broker needs {missing}, which is not installed here")


@pytest.fixture(scope="session")
def java_peer() -> JavaPeer:
    """RocketMQ's own broker and name server, fetched from Maven Central once a machine."""
    skip_without_java()
    return JavaPeer.compiled(fetch_jars()).archived()


@pytest.fixture(scope="session")
def java_peer_5_3() -> JavaPeer:
    """Broker and name server of RocketMQ 5.3, fetched once a machine."""
    skip_without_java()
    return JavaPeer.compiled(fetch_jars(RELEASE_5_3)).archived()


@pytest.fixture(scope="session")
def java_peer_4() -> JavaPeer:
    """Broker and client of RocketMQ 4.9, fetched once a machine."""
    skip_without_java()
    return JavaPeer.of_version_4(fetch_jars(RELEASE_4))


@pytest.fixture
def either_peer(request: pytest.FixtureRequest) -> JavaPeer:
    """The peer that a test's parameter names: ``java_peer`` or ``java_peer_5_3``."""
    return cast("JavaPeer", request.getfixturevalue(cast("str", request.param)))


@pytest.fixture(scope="session")
def java_client(tmp_path_factory: pytest.TempPathFactory, java_peer: JavaPeer) -> Client:
    """Command lines of the programs in ``interop/java``: main class and arguments."""
    return _java_client(tmp_path_factory.mktemp("java-client"), java_peer)


@pytest.fixture(scope="session")
def java_client_5_3(tmp_path_factory: pytest.TempPathFactory, java_peer_5_3: JavaPeer) -> Client:
    """The same programs with the client of RocketMQ 5.3."""
    return _java_client(tmp_path_factory.mktemp("java-client-5-3"), java_peer_5_3)


@pytest.fixture
def either_client(request: pytest.FixtureRequest) -> Client:
    """The client that a test's parameter names: ``java_client`` or ``java_client_5_3``."""
    return cast("Client", request.getfixturevalue(cast("str", request.param)))


def _java_client(folder: Path, peer: JavaPeer) -> Client:
    client = JavaPeer.clients(peer.jars)

    def command(main_class: str, *args: str) -> list[str]:
        return [*client.command(main_class, folder), *args]

    return command


@pytest.fixture(scope="session")
def go_client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """Command lines of the programs in ``interop/go``: folder and arguments."""
    return _go_client(tmp_path_factory.mktemp("go-client"), "go.mod")


@pytest.fixture(scope="session")
def newest_go_client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """Those programs of them that the newest commit of the Go client compiles."""
    return _go_client(tmp_path_factory.mktemp("newest-go-client"), "newest.mod")


@pytest.fixture
def either_go_client(request: pytest.FixtureRequest) -> Client:
    """The client that a test's parameter names: ``go_client`` or ``newest_go_client``."""
    return cast("Client", request.getfixturevalue(cast("str", request.param)))


def _go_client(folder: Path, modules: str) -> Client:
    missing = missing_tool("go")
    if missing is not None:
        pytest.skip(f"the Go client needs {missing}, which is not installed here")

    def command(program: str, *args: str) -> list[str]:
        built = folder / program
        if not built.exists():
            build = ["go", "build", f"-modfile={modules}", "-o", str(built), f"./{program}"]
            subprocess.run(build, cwd=Path(__file__).parent / "go", check=True)
        return [str(built), *args]

    return command


@pytest.fixture(params=NAMES)
def opened(request: pytest.FixtureRequest, golden_stores: GoldenStores) -> Iterator[Opened]:
    """Each of the stores, open read only, timers recovered in memory."""
    golden = golden_stores[cast("str", request.param)]
    disk = OsDisk()
    store = MessageStore.open(
        disk,
        golden.root,
        STORE_OPTIONS,
        now_ms=lambda: AFTERWARDS_MS,
        store_host=NO_HOST,
        read_only=True,
    )
    files = TimerFiles.open(disk, golden.root, TIMER_OPTIONS, read_only=True)
    recovered = recover(files, store, TIMER_OPTIONS, AFTERWARDS_MS)
    yield Opened(golden, store, files, recovered.read_ms)
    files.close()
    trio.run(store.aclose)
