"""A stopped store is opened for a rebuild, or refused before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden_stores import GoldenStores
from interop.golden_opened import STORE_OPTIONS, TIMER_OPTIONS
from timermq.pipeline.spark.rebuild.offline_store import open_stopped
from timermq.timerstore.errors import StoreKindError

pytestmark = pytest.mark.slow


def test_rocksdb_timers(golden_stores: GoldenStores, tmp_path: Path) -> None:
    """Their deliveries would count as pending: the message names what to do instead."""
    root = golden_stores.unpack_copy("g8", tmp_path)

    with (
        pytest.raises(StoreKindError, match=r"rocksdbstore: expected .*config/timercheck is moved"),
        open_stopped(root, STORE_OPTIONS, TIMER_OPTIONS, lambda: 0),
    ):
        pass
