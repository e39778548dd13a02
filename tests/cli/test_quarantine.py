"""`timermq quarantine`: what could not be delivered, of a running broker and of a stopped one."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import trio

from cli.program import SMALL_FILES, RunProgram
from interop.serving import Broker, start
from timermq.pipeline.records.system_topics import TIMER_TOPIC
from timermq.timerstore.message import NO_HOST, Message
from timermq.timerstore.message_store import MessageStore
from timermq.timerstore.os_disk import OsDisk
from timermq.timerstore.store_options import StoreOptions

pytestmark = pytest.mark.slow

OPTIONS = StoreOptions(
    mapped_file_size_commit_log=16_777_216, max_hash_slot_num=1_000, max_index_num=4_000
)
STORE_MS = 1_700_000_000_000


async def _put(root: Path, count: int) -> list[int]:
    store = MessageStore.open(
        OsDisk(), str(root), OPTIONS, now_ms=lambda: STORE_MS, store_host=NO_HOST
    )
    text = "UNIQ_KEY\x01P%d\x02REAL_QID\x010\x02"
    messages = [
        Message(TIMER_TOPIC, 0, b"poison %d" % number, (text % number).encode())
        for number in range(count)
    ]
    results = store.put(messages)
    await store.aclose()
    return [result.phy_offset for result in results]


def poisoned(root: Path, count: int) -> list[str]:
    """A store with messages in its timer topic that name no real topic; their ids."""
    return [str(one) for one in trio.run(_put, root, count)]


def wait_for_entries(timermq: RunProgram, broker: Broker, count: int) -> list[dict[str, object]]:
    """The list, as soon as it has so many."""
    rows: list[dict[str, object]] = []
    for _ in range(100):
        rows = timermq("quarantine", "list", "--namesrv", broker.namesrv, "--json").rows
        if len(rows) >= count:
            return rows
    raise AssertionError(f"expected {count} messages in quarantine, found {len(rows)}")


def test_list_show_retry_and_drop(timermq: RunProgram, tmp_path: Path) -> None:
    """What was poison comes to the topic that it is sent to; after a kill all is as it was said."""
    root = tmp_path / "store"
    first, second, third = poisoned(root, 3)
    broker = start(root, *SMALL_FILES)
    at = ("--namesrv", broker.namesrv)
    try:
        rows = wait_for_entries(timermq, broker, 3)
        assert [str(row["id"]) for row in rows] == [first, second, third]
        assert {row["reason"] for row in rows} == {"no_moment"}
        assert [row["unique_id"] for row in rows] == ["P0", "P1", "P2"]
        table = timermq("quarantine", "list", *at)
        assert "expected TIMER_OUT_MS, found none" in " ".join(table.out.split())

        (shown,) = timermq("quarantine", "show", first, *at, "--json").rows
        assert base64.b64decode(str(shown["body"])) == b"poison 0"
        assert shown["properties"] == {"UNIQ_KEY": "P0", "REAL_QID": "0"}

        kept = timermq("quarantine", "retry", first, *at)
        assert (kept.code, kept.out.partition(":")[0]) == (1, "kept")
        for end in ("\n", ": before; nothing was done now\n"):
            ran = timermq("quarantine", "retry", first, "--topic", "Repaired", *at)
            assert (ran.code, ran.out) == (0, f"retried{end}")
            ran = timermq("quarantine", "drop", second, *at)
            assert (ran.code, ran.out) == (0, f"dropped{end}")
        nameless = timermq("quarantine", "retry", third, "--topic", "", *at)
        assert (nameless.code, "topic: expected a name" in nameless.err) == (1, True)
        ran = timermq("quarantine", "drop", first, *at, "--json")
        assert (ran.code, ran.rows[0]["verdict"]) == (1, "retried")
        missing = timermq("quarantine", "show", "7", *at)
        assert (missing.code, missing.err) == (
            1,
            "timermq: not_found: no message 7 is in quarantine\n",
        )
        flags = ("--group", "G", "--count", "1", "--timeout", "20s", "--from", "first", "--json")
        (got,) = timermq("consume", "Repaired", *flags, *at).rows
        assert got["body"] == "poison 0"
        sent = timermq("send", TIMER_TOPIC, "poison", *at)
        assert (sent.code, "TOPIC_NOT_ALLOWED" in sent.err) == (1, True)
        once = timermq("top", "--once", *at)
        assert "! 1 in QUARANTINE, last no_moment" in once.out
    finally:
        broker.kill()

    rows = timermq("quarantine", "list", "--store", str(root), "--json").rows
    assert [str(row["id"]) for row in rows] == [third]
    (shown,) = timermq("quarantine", "show", third, "--store", str(root), "--json").rows
    assert base64.b64decode(str(shown["body"])) == b"poison 2"
    stats = timermq("store", "stats", str(root), "--json").rows
    assert [row["count"] for row in stats if row["part"] == "quarantine"] == [1]


def test_usage(timermq: RunProgram) -> None:
    """A name that is none is a usage error."""
    ran = timermq("quarantine", "drop", "x")

    assert ran.code == 2
    assert "expected the id of a message in quarantine, found 'x'" in ran.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("pending", "--set", "timer_precision_ms=100"), "--set: expected with --store"),
        (("quarantine", "list", "--config", "c.toml"), "--config: expected with --store"),
        (("quarantine", "show", "7", "--set", "a=b"), "--set: expected with --store"),
        (
            ("quarantine", "list", "--store", "d", "--broker", "127.0.0.1:1"),
            "--broker: not allowed with argument --store",
        ),
    ],
)
def test_what_would_be_passed_over(timermq: RunProgram, words: tuple[str, ...], text: str) -> None:
    """Settings are of a store, and addresses of brokers."""
    ran = timermq(*words)

    assert (2, 1) == (ran.code, len(ran.err.splitlines()))
    assert f"argument {text}" in ran.err
