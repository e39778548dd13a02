"""`timermq serve` on a disk that fails: it says so, ends with 1, and starts again without loss.

A log that cannot be written is no such failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.program import SMALL_FILES, RunProgram
from interop.serving import free_port, serving

pytestmark = pytest.mark.slow

FAILING = """
import sys
from timermq.cli import serve
from timermq.cli.main import main
from timermq.timerstore.fault_plan import FaultRule, FaultRules, Operation
from timermq.timerstore.faulty_disk import FaultyDisk
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


def test_a_reader_of_logs_that_goes_does_not_end_the_broker(
    timermq: RunProgram, tmp_path: Path
) -> None:
    """What it would have written is lost; it serves, and ends in order when it is asked to."""
    listen, namesrv = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "timermq.cli", "serve", "--store", str(tmp_path / "store")),
            *("--listen", listen, "--namesrv-listen", namesrv, *SMALL_FILES),
        ],
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    with process, process.stderr:
        try:
            while b"broker ready" not in process.stderr.readline():
                assert process.poll() is None
            process.stderr.close()
            # A line for the topic that is made, and one for each end of a consumer.
            sent = timermq("send", "T", "x", "--at", "in 100ms", "--namesrv", namesrv)
            got = timermq("consume", "T", "--group=G", "--count=1", "--json", "--namesrv", namesrv)
        finally:
            process.terminate()

    assert 0 == sent.code
    assert 1 == len(got.rows)
    assert 0 == process.returncode
