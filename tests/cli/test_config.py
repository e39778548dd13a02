"""`timermq config show`: every setting, its value and where it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.program import RunProgram


def test_sources(timermq: RunProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags beat the environment, which beats the file, which beats the defaults."""
    file = tmp_path / "timermq.toml"
    file.write_text("[timer]\ntimer_roll_window_slot = 20\ntimer_precision_ms = 500\n")
    monkeypatch.setenv("TIMERMQ_TIMER_PRECISION_MS", "200")
    monkeypatch.setenv("TIMERMQ_FLUSH_DISK_TYPE", "SYNC_FLUSH")
    ran = timermq(
        "config", "show", "--json", "--config", str(file), "--set", "flush_disk_type=ASYNC_FLUSH"
    )
    rows = {str(row["key"]): row for row in ran.rows}

    assert (0, "") == (ran.code, ran.err)
    assert rows["timer_roll_window_slot"] == {
        "section": "timer",
        "key": "timer_roll_window_slot",
        "value": 20,
        "source": "file",
        "where": f"{file}: [timer] timer_roll_window_slot",
    }
    assert rows["timer_precision_ms"] == {
        "section": "timer",
        "key": "timer_precision_ms",
        "value": 200,
        "source": "environment",
        "where": "TIMERMQ_TIMER_PRECISION_MS",
    }
    assert rows["flush_disk_type"] == {
        "section": "store",
        "key": "flush_disk_type",
        "value": "ASYNC_FLUSH",
        "source": "flag",
        "where": "--set flush_disk_type",
    }
    assert rows["timer_max_delay_sec"] == {
        "section": "timer",
        "key": "timer_max_delay_sec",
        "value": 259_200,
        "source": "default",
        "where": "",
    }


def test_table(timermq: RunProgram) -> None:
    """People get a table with the same columns."""
    ran = timermq("config", "show")
    lines = ran.out.splitlines()

    assert 0 == ran.code
    assert ["section", "key", "value", "source", "where"] == lines[0].split()
    assert any("timer_precision_ms" in line and "default" in line for line in lines)


def test_broker_conf(timermq: RunProgram, tmp_path: Path) -> None:
    """A broker.conf is taken as it is; what is not known here is listed once."""
    file = tmp_path / "broker.conf"
    file.write_text(
        "brokerClusterName=DefaultCluster\n"
        "brokerName=broker-b\n"
        "brokerId=0\n"
        "# addresses\n"
        "bindAddress=127.0.0.1\n"
        "brokerIP1=127.0.0.1\n"
        "listenPort=20911\n"
        "storePathRootDir=/tmp/elsewhere\n"
        "recallMessageEnable=true\n"
        "flushIntervalCommitLog=250\n"
        "fileReservedTime=24\n"
        "timerRollWindowSlot=20\n"
        "transactionTimeOut=5000\n"
        "transactionCheckInterval=10000\n"
        "transactionCheckMax=3\n"
        "slaveReadEnable=true\n"
        "useEpollNativeSelector=true\n"
        "brokerRole=ASYNC_MASTER\n"
        "timerRocksDBEnable=true\n"
        "timerWheelSnapshotFlush=true\n"
    )
    ran = timermq("config", "show", "--json", "--config", str(file))
    values = {row["key"]: row["value"] for row in ran.rows if row["source"] == "file"}

    assert 0 == ran.code
    assert "timermq: warning: broker.conf: not known here: useEpollNativeSelector\n" == ran.err
    assert values == {
        "broker_cluster_name": "DefaultCluster",
        "broker_name": "broker-b",
        "listen_host": "127.0.0.1",
        "advertised_host": "127.0.0.1",
        "listen_port": 20_911,
        "store_path_root_dir": "/tmp/elsewhere",
        "recall_message_enable": True,
        "flush_interval_commit_log_ms": 250,
        "file_reserved_time_hours": 24,
        "timer_roll_window_slot": 20,
        "transaction_time_out_ms": 5_000,
        "transaction_check_interval_ms": 10_000,
        "transaction_check_max": 3,
        "slave_read_enable": True,
        "broker_role": "ASYNC_MASTER",
        "broker_id": 0,
    }


def test_unknown_key(timermq: RunProgram, tmp_path: Path) -> None:
    """An unknown key is a usage error that names the nearest known one."""
    file = tmp_path / "timermq.toml"
    file.write_text("[timer]\ntimer_roll_windw_slot = 20\n")
    ran = timermq("config", "show", "--config", str(file))

    assert 2 == ran.code
    assert ran.err == (
        f"timermq: {file}: [timer] timer_roll_windw_slot is not a known setting; "
        "the nearest is timer_roll_window_slot\n"
    )


def test_file_that_is_missing(timermq: RunProgram, tmp_path: Path) -> None:
    """A file that cannot be read is a failure, not a usage error."""
    ran = timermq("config", "show", "--config", str(tmp_path / "none.toml"))

    assert (1, f"timermq: {tmp_path}/none.toml: no such file or directory\n") == (
        ran.code,
        ran.err,
    )
