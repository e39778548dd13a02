"""`timermq serve` on a disk that fails: it says so, ends with 1, and starts again without loss.

A log that cannot be written is no such failure.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import attrs
import pytest
import trio

from cli.program import SMALL_FILES, RunProgram
from interop.serving import free_port, serving
from timermq.client import OutgoingMessage, Producer
from timermq.client.errors import BrokerRefusedError

pytestmark = pytest.mark.slow

FAILING = """
import sys
from timermq.cli import serve
from timermq.cli.main import main
from timermq.simulator.disks.fault_plan import FaultRule, FaultRules, Operation
from timermq.simulator.disks.faulty_disk import FaultyDisk
from timermq.timerstore.file_family import FileFamily
from timermq.timerstore.os_disk import OsDisk

root, operation, family, *argv = sys.argv[1:]
rule = FaultRule(operations=[Operation(operation)], families=[FileFamily(family)])
serve.OsDisk = lambda: FaultyDisk(OsDisk(), root, FaultRules(rule))
sys.exit(main(argv))
"""
"""The program, on a disk on which one such operation fails."""


@pytest.mark.parametrize(
    ("operation", "family"),
    [
        ("sync", "timerwheel"),
        ("sync", "config/timercheck"),
        ("sync", "checkpoint"),
        ("sync_dir", "timerlog"),
    ],
)
def test_a_failed_sync_ends_the_broker(
    timermq: RunProgram, tmp_path: Path, operation: str, family: str
) -> None:
    """The log names file and error, standard error too; what waited is still there afterwards."""
    store = tmp_path / "store"
    with serving(store, *SMALL_FILES) as broker:
        sent = timermq("send", "T", "x", "--at", "in 1h", "--namesrv", broker.namesrv)
    (store / "abort").write_text("1")
    ended = subprocess.run(
        [
            *(sys.executable, "-c", FAILING, str(store), operation, family),
            *("serve", "--store", str(store), "--listen", "127.0.0.1:0"),
            *("--namesrv-listen", "127.0.0.1:0", "--set=log_format=JSON", *SMALL_FILES),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    path = f"{store}/{family}"
    *logged, told = ended.stderr.splitlines()
    lines = [json.loads(line) for line in logged]
    reasons = [str(line["reasons"]) for line in lines if line["event"] == "broker failed"]
    waiting = timermq("pending", "--store", str(store), "--json", *SMALL_FILES)

    assert 0 == sent.code
    assert 1 == ended.returncode
    assert path in told
    assert "nput/output error" in told
    assert [path in one for one in reasons] == [True]
    assert 1 == len(waiting.rows)


LIMITED = """
import resource, sys
from timermq.cli.main import main
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
sys.exit(main(sys.argv[1:]))
"""
"""The program, where few files may be open."""


@attrs.define
class Told:
    """A broker that tells its log to its parent."""

    process: subprocess.Popen[bytes]
    namesrv: str

    def stop_listening(self) -> None:
        """What it says has no reader any more."""
        assert self.process.stderr is not None
        self.process.stderr.close()


@contextlib.contextmanager
def telling(store: Path, *program: str) -> Generator[Told]:
    """One for the length of a block, from when it is ready; stopped by SIGTERM at its end."""
    namesrv = f"127.0.0.1:{free_port()}"
    command = [*program, "serve", "--store", str(store), "--listen", f"127.0.0.1:{free_port()}"]
    command += ["--namesrv-listen", namesrv, "--set=log_format=JSON", *SMALL_FILES]
    command += ["--set=vip_listen_enable=false"]
    with subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            while b"broker ready" not in (line := process.stderr.readline()):
                assert line
            yield Told(process, namesrv)
        finally:
            process.terminate()


async def flood(namesrv: str) -> set[str]:
    """Send to more topics than there are files; the rules of what was refused."""
    refused = set[str]()
    async with Producer(namesrv, group="flood") as producer:
        for number in range(64):
            for queue_id in range(4):
                one = OutgoingMessage(topic=f"T{number}", body=b"x", queue_id=queue_id)
                try:
                    await producer.send_batch([one])
                except BrokerRefusedError as error:
                    refused.add(error.rule)
    return refused


def test_a_flood_of_topics_leaves_the_store_its_files(timermq: RunProgram, tmp_path: Path) -> None:
    """What would take the last ones is refused; the broker serves on, and starts again."""
    with telling(tmp_path / "store", "-c", LIMITED) as broker:
        refused = trio.run(flood, broker.namesrv)
        sent = timermq("send", "T0", "x", "--at", "in 1h", "--namesrv", broker.namesrv)
    with telling(tmp_path / "store", "-c", LIMITED) as again:
        waiting = timermq("pending", "--json", "--namesrv", again.namesrv)

    assert {"TOPICS_SHARE"} == refused
    assert 0 == sent.code
    assert 1 == len(waiting.rows)
    assert [0, 0] == [one.process.returncode for one in (broker, again)]


def test_a_reader_of_logs_that_is_stuck_does_not_hold_the_broker(
    timermq: RunProgram, tmp_path: Path
) -> None:
    """It serves while the pipe is full, and ends in order when it is asked to."""
    with telling(tmp_path / "store", "-m", "timermq.cli") as broker:
        trio.run(make_topics, broker.namesrv, 600)  # a line each: together more than a pipe takes
        sent = timermq("send", "T0", "x", "--at", "in 100ms", "--namesrv", broker.namesrv)

    assert 0 == sent.code
    assert 0 == broker.process.returncode


async def make_topics(namesrv: str, count: int) -> None:
    """Make topics T0, T1 … by sending a message to each."""
    async with Producer(namesrv, group="topics") as producer:
        for number in range(count):
            await producer.send_batch([OutgoingMessage(topic=f"T{number}", body=b"x")])


def test_a_reader_of_logs_that_goes_does_not_end_the_broker(
    timermq: RunProgram, tmp_path: Path
) -> None:
    """What it would have written is lost; it serves, and ends in order when it is asked to."""
    with telling(tmp_path / "store", "-m", "timermq.cli") as broker:
        broker.stop_listening()
        # A line for the topic that is made, and one for each end of a consumer.
        sent = timermq("send", "T", "x", "--at", "in 100ms", "--namesrv", broker.namesrv)
        # From the first: on a busy machine the message is there before the consumer.
        wanted = ("--from=first", "--count=1", "--json", "--namesrv", broker.namesrv)
        got = timermq("consume", "T", "--group=G", *wanted)

    assert 0 == sent.code
    assert 1 == len(got.rows)
    assert 0 == broker.process.returncode
