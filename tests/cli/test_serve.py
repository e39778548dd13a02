"""`timermq serve`: from the first log line to a clean stop, as a process of its own."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from cli.program import SMALL_FILES, RunProgram
from interop.serving import StartBroker, serving

pytestmark = pytest.mark.slow


def test_graceful_stop(timermq: RunProgram, tmp_path: Path, start: StartBroker) -> None:
    """SIGTERM ends the broker within ten seconds, with exit code 0 and a clean store."""
    broker = start(tmp_path / "store", *SMALL_FILES)
    timermq("send", "T", "x", "--at", "in 1h", "--namesrv", broker.namesrv)
    begun = time.monotonic()
    code = broker.stop()
    took = time.monotonic() - begun

    assert 0 == code
    assert took < 10
    assert not (tmp_path / "store" / "abort").exists()
    assert 0 == timermq("store", "check", str(tmp_path / "store")).code


@contextlib.contextmanager
def hang_up(action: signal.Handlers) -> Generator[None]:
    """What a process that is started meanwhile does when its terminal is closed."""
    before = signal.signal(signal.SIGHUP, action)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_interrupt_stops_too(tmp_path: Path, start: StartBroker, number: signal.Signals) -> None:
    """Control-C and a terminal that is closed are as good as SIGTERM."""
    with hang_up(signal.SIG_DFL):
        broker = start(tmp_path / "store", *SMALL_FILES)
    broker.process.send_signal(number)

    assert 0 == broker.process.wait(timeout=15)
    assert not (tmp_path / "store" / "abort").exists()


def test_nohup_outlives_the_terminal(tmp_path: Path, start: StartBroker) -> None:
    """Who starts it so wants that."""
    with hang_up(signal.SIG_IGN):
        broker = start(tmp_path / "store", *SMALL_FILES)
    broker.process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        broker.process.wait(timeout=1)

    assert 0 == broker.stop()


def test_a_signal_that_comes_twice_is_one(tmp_path: Path, start: StartBroker) -> None:
    """`timeout` signals its child and the group that the child is in: the stop stays graceful."""
    broker = start(tmp_path / "store", *SMALL_FILES)
    for _ in range(3):
        broker.process.send_signal(signal.SIGTERM)
        time.sleep(0.005)

    assert 0 == broker.process.wait(timeout=15)
    assert not (tmp_path / "store" / "abort").exists()


def test_log_says_where_it_listens(tmp_path: Path) -> None:
    """The line `broker ready` has the addresses, also of ports that the system chose."""
    with serving(tmp_path / "store", *SMALL_FILES) as broker:
        lines = [json.loads(line) for line in broker.log.read_text().splitlines()]
    ready = next(line for line in lines if line["event"] == "broker ready")

    assert (broker.listen, broker.namesrv, str(broker.store)) == (
        ready["listen"],
        ready["namesrv_listen"],
        ready["store"],
    )


def test_timers_survive_a_restart(timermq: RunProgram, tmp_path: Path) -> None:
    """What waits when the broker is stopped is pending afterwards, offline and live."""
    store = tmp_path / "store"
    with serving(store, *SMALL_FILES) as broker:
        sent = timermq(
            *("send", "T", "x", "--at", "in 1h", "--json", "--namesrv", broker.namesrv)
        ).rows[0]
    offline = timermq("pending", "--store", str(store), "--json").rows
    with serving(store, *SMALL_FILES) as broker:
        live = timermq("pending", "--json", "--namesrv", broker.namesrv).rows

    assert [sent["message_id"]] == [row["unique_id"] for row in offline]
    assert [{**row, "broker": broker.listen} for row in offline] == live


def test_store_that_is_served(tmp_path: Path) -> None:
    """A second broker on the same store fails in one line and leaves the first alone."""
    store = tmp_path / "store"
    with serving(store, *SMALL_FILES) as broker:
        second = subprocess.run(
            [
                *(sys.executable, "-m", "timermq.cli", "serve", "--store", str(store)),
                *("--listen", "127.0.0.1:0", "--namesrv-listen", "127.0.0.1:0", *SMALL_FILES),
            ],
            capture_output=True,
            text=True,
            check=False,
        )

        assert 1 == second.returncode
        assert second.stderr.splitlines()[-1].startswith("timermq: ")
        assert broker.process.poll() is None


def test_address_in_use(timermq: RunProgram, tmp_path: Path) -> None:
    """A port that is taken is told before the store is touched."""
    with serving(tmp_path / "store", *SMALL_FILES) as broker:
        ran = timermq("serve", "--store", str(tmp_path / "other"), "--listen", broker.listen)

    assert 1 == ran.code
    assert "address already in use" in ran.err.lower()
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (
            ("--listen", "127.0.0.1"),
            "serve: argument --listen: expected HOST:PORT, found '127.0.0.1'",
        ),
        (
            ("--listen", "127.0.0.1:99999"),
            "serve: argument --listen: expected HOST:PORT, found '127.0.0.1:99999'",
        ),
        (("--listen", "0.0.0.0:0"), "section broker: advertised_host: expected an address"),
        (("--set", "advertised_host=192.0.2.1"), "section broker: listen_host (bindAddress): "),
        (("--namesrv", "192.0.2.9:9876"), "section broker: advertised_host (brokerIP1): "),
        (("--set", "nothing=1"), "--set: nothing is not a known setting"),
        (("--set", "timer_precision_ms=7"), "--set timer_precision_ms: expected 100, 200"),
    ],
)
def test_settings_that_are_refused(
    timermq: RunProgram, tmp_path: Path, flags: tuple[str, ...], reason: str
) -> None:
    """A bad setting is a usage error; no store is made."""
    ran = timermq("serve", "--store", str(tmp_path / "store"), *flags)

    assert 2 == ran.code
    assert ran.err.startswith(f"timermq: {reason}")
    assert not (tmp_path / "store").exists()
