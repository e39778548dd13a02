"""Open files are shared out among connections, queues and the rest."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from descriptors import open_count
from timermq.broker.open_files import (
    OTHER_FILES,
    FileShares,
    raise_file_limit,
    room_for_connections,
    within_open_files,
)
from timermq.broker.options import BrokerOptions
from timermq.timerstore.consume_queue import ConsumeQueue
from timermq.timerstore.mapped_file_queue import MappedFileQueue
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.queue_unit import UNIT


def test_the_limit_of_open_files_bounds_connections() -> None:
    """As many connections as wanted, or half of the files that the process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1_000), hard))
        assert room_for_connections(100) == 100
        assert room_for_connections(1 << 30) == hard // 2
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_connections_get_half_of_few_files() -> None:
    """A container with 1,024 of them is a broker for more than one client, and for some topics."""
    program = """
import resource
import subprocess
import sys
from timermq.broker.open_files import raise_file_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 1_024))
shares = raise_file_limit(8_192, 65_536)
print(shares.connections, shares.queues, *resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert "512 256 1024 1024" == ran.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of the table there alone")
def test_the_table_of_open_files_does_not_grow_while_clients_come() -> None:
    """Who accepts a connection would stand still while it is copied: it is large from the start."""
    program = """
from pathlib import Path
from timermq.broker.open_files import within_open_files
from timermq.broker.options import BrokerOptions

def table_size():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("FDSize:"))

before = table_size()
options = within_open_files(BrokerOptions(connections_max=700, queues_max=10))
print(before, options.connections_max, table_size())
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    before, connections, after = map(int, ran.stdout.split())

    assert before < connections < after
    assert after >= connections + OTHER_FILES


def test_the_store_has_its_files_beside_the_connections() -> None:
    """The limit is raised by connections and segments together, in any order."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))

        assert raise_file_limit(100) == FileShares(100, 0)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (100 + OTHER_FILES, hard)
        assert room_for_connections(100) == 100
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (100 + OTHER_FILES, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_is_counted_is_what_is_open(tmp_path: Path) -> None:
    """A segment of a queue is one open file, also when it has been read; one of a log is two."""
    root = str(tmp_path)
    log = MappedFileQueue(OsDisk(), f"{root}/log", 4096, reserve=True)
    queues = [ConsumeQueue(OsDisk(), f"{root}/{n}", "T", n, segment_size=2000) for n in range(10)]
    before = open_count()
    for queue in queues:
        queue.append(0, UNIT.pack(0, 10, 0), 10)
        queue.units(0, 1)
    with_queues = open_count()
    log.write(0, b"abc")
    log.read(0, 3)
    with_log = open_count()
    log.close()
    for queue in queues:
        queue.close()

    assert (10, 2) == (with_queues - before, with_log - with_queues)
    assert before == open_count()


def test_shares_fit_beside_each_other() -> None:
    """Connections, queues and the rest are never more than the process may open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    options = within_open_files(BrokerOptions(connections_max=hard, queues_max=hard))

    assert hard // 2 == options.connections_max
    assert hard - options.connections_max - OTHER_FILES == options.queues_max
