"""The brokers of one machine: what each has of its own, and what is refused."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from timermq.cli.configuration import Configuration, configure, flag_layer
from timermq.cli.settings import ConfigurationError
from timermq.cli.supervisor.broker_plan import plan_brokers, stores_in

OTHER_USER = 65_534


@contextmanager
def without_rights_of_root() -> Generator[None]:
    """The block runs as a user whom the rights of files hold for."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(OTHER_USER)
    try:
        yield
    finally:
        os.seteuid(own)


def configured(root: Path, **settings: str) -> Configuration:
    """The configuration of these settings as flags."""
    flags = {"store_path_root_dir": str(root), **settings}
    return configure([flag_layer({key: ("--set", value) for key, value in flags.items()})])


def test_names_stores_and_ports_count_on(tmp_path: Path) -> None:
    """Ten ports lie between two brokers; the first is the name server of the others."""
    plans = plan_brokers(configured(tmp_path, listen_port="11000", advertised_port="21000"), 3)

    assert ["broker-a-0", "broker-a-1", "broker-a-2"] == [one.name for one in plans]
    assert [str(tmp_path / f"broker-a-{number}") for number in range(3)] == [
        one.store for one in plans
    ]
    assert ["11000", "11010", "11020"] == [one.settings["listen_port"] for one in plans]
    assert ["21000", "21010", "21020"] == [one.settings["advertised_port"] for one in plans]
    assert ["true", "false", "false"] == [one.settings["namesrv_listen_enable"] for one in plans]
    assert [None, "127.0.0.1:9876", "127.0.0.1:9876"] == [
        one.settings.get("namesrv_addr") for one in plans
    ]
    assert plans[1].flags()[0] == "--set=broker_name=broker-a-1"


def test_each_has_a_port_for_its_followers(tmp_path: Path) -> None:
    """If the settings ask for one."""
    for settings, ports in (
        ({}, [None, None]),
        ({"ha_listen_port": "12000"}, ["12000", "12010"]),
        ({"broker_role": "SYNC_MASTER"}, ["10912", "10922"]),
    ):
        plans = plan_brokers(configured(tmp_path, **settings), 2)

        assert ports == [one.settings.get("ha_listen_port") for one in plans]


def test_a_name_server_on_all_addresses_is_reached_by_loopback(tmp_path: Path) -> None:
    """An address to listen on is not always one to connect to."""
    found = {
        host: plan_brokers(configured(tmp_path, namesrv_listen_host=host), 2)[1].settings[
            "namesrv_addr"
        ]
        for host in ("0.0.0.0", "::", "::1", "10.0.0.7")
    }

    assert ["127.0.0.1:9876", "[::1]:9876", "[::1]:9876", "10.0.0.7:9876"] == list(found.values())


def test_other_name_servers(tmp_path: Path) -> None:
    """With those that are named none is served here, and all brokers register with them."""
    plans = plan_brokers(configured(tmp_path, namesrv_addr="h:1;h:2"), 2)

    assert {"h:1;h:2"} == {one.settings["namesrv_addr"] for one in plans}
    assert {"false"} == {one.settings["namesrv_listen_enable"] for one in plans}


@pytest.mark.parametrize(
    ("settings", "count", "error"),
    [
        ({}, 65, "--brokers: expected at most 64, found 65"),
        ({"listen_port": "65530"}, 2, "listen_port: expected a port that leaves room"),
        ({"namesrv_listen_port": "0"}, 2, "namesrv_listen_port: expected a port"),
        ({"namesrv_listen_enable": "false"}, 2, "namesrv_addr: expected name servers"),
    ],
)
def test_settings_that_do_not_do(
    tmp_path: Path, settings: dict[str, str], count: int, error: str
) -> None:
    """What several brokers cannot have is refused before one of them starts."""
    with pytest.raises(ConfigurationError, match=error):
        plan_brokers(configured(tmp_path, **settings), count)


def test_no_store_is_left_out(tmp_path: Path) -> None:
    """Messages in a store that no broker serves would wait for ever: the start is refused."""
    (tmp_path / "broker-a-2" / "commitlog").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=r"broker-a-2 that none of them serves"):
        plan_brokers(configured(tmp_path), 2)
    assert 3 == len(plan_brokers(configured(tmp_path), 3))

    (tmp_path / "commitlog").mkdir()
    with pytest.raises(ConfigurationError, match="expected a directory of stores, found a store"):
        plan_brokers(configured(tmp_path), 3)


def test_a_directory_that_cannot_be_looked_into_is_no_store() -> None:
    """A new file system has one, ``lost+found``, and a store can be made beside it."""
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        (Path(root) / "broker-a-0" / "commitlog").mkdir(parents=True)
        (Path(root) / "lost+found").mkdir(mode=0o000)
        with without_rights_of_root():
            found = stores_in(root)

    assert [f"{root}/broker-a-0"] == found
