"""Fixtures of the tests on files and clients of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest
import trio

from golden_stores import NAMES, GoldenStores
from interop.golden_opened import AFTERWARDS_MS, STORE_OPTIONS, TIMER_OPTIONS, Opened
from timermq.pipeline.timer_files import TimerFiles
from timermq.pipeline.timer_recovery import recover
from timermq.timerstore.message import NO_HOST
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk


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
