"""The files for systemd and containers, and what a service manager is told."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.program import SMALL_FILES
from interop.serving import Broker, StartBroker, serving
from timermq.broker.options import VIP_DISTANCE
from timermq.cli.configuration import configure, environment_layer
from timermq.cli.main import build_parser

DEPLOYMENT = Path(__file__).parents[2] / "docs" / "deployment"
UNIT, CONTAINER = DEPLOYMENT / "timermq.service", DEPLOYMENT / "Containerfile"


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket of a service manager that wants a sign of life every 0.4 s."""
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        listener.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        monkeypatch.setenv("WATCHDOG_USEC", "400000")
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        yield listener


@pytest.mark.slow
def test_a_service_manager_is_told(
    tmp_path: Path, manager: socket.socket, start: StartBroker
) -> None:
    """Ready when requests are taken, signs of life from then on, and that it stops."""
    broker = start(tmp_path / "store", *SMALL_FILES)
    told = [manager.recv(100) for _ in range(3)]
    broker.process.send_signal(signal.SIGTERM)
    while told[-1] != b"STOPPING=1":
        told.append(manager.recv(100))

    assert 0 == broker.process.wait(timeout=15)
    assert told[:3] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]


@pytest.mark.slow
def test_metrics_and_health_over_http(tmp_path: Path) -> None:
    """The flag opens the port; without it there is none."""
    with serving(tmp_path / "store", *SMALL_FILES, "--metrics-listen=127.0.0.1:0") as broker:
        address = metrics_listen(broker)
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
            assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert b"timermq_early_total{" in page.read()
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=10) as page:
            assert page.read() == b"ready\n"
    with serving(tmp_path / "other", *SMALL_FILES) as broker:
        assert metrics_listen(broker) is None


def metrics_listen(broker: Broker) -> str | None:
    """Where the line `broker ready` says that the metrics are."""
    lines = [json.loads(line) for line in broker.log.read_text().splitlines()]
    address = next(line["metrics_listen"] for line in lines if line["event"] == "broker ready")
    return None if address is None else str(address)


def test_unit_starts_the_program_as_it_is() -> None:
    """Its command line is one that the program takes, and it waits for the notification."""
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign] # as the documentation of configparser does it
    unit.read_string(UNIT.read_text())
    service = unit["Service"]
    program, *words = shlex.split(service["ExecStart"])

    assert program.endswith("/timermq")
    assert build_parser().parse_args(words).store == "/var/lib/timermq/store"
    assert (service["Type"], service["TimeoutStartSec"]) == ("notify", "infinity")


def test_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    """The real systemd reads it without a word."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed here")
    unit = tmp_path / UNIT.name
    text = UNIT.read_text().replace("/opt/timermq/bin/timermq", sys.executable)
    unit.write_text(text)
    done = subprocess.run(
        [analyze, "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)


def test_container_names_settings_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment is a configuration, once the address for clients is given as it says."""
    for variable in [name for name in os.environ if name.startswith("TIMERMQ_")]:
        monkeypatch.delenv(variable)
    text = CONTAINER.read_text()
    environ = dict(re.findall(r"(TIMERMQ_[A-Z_]+)=([^ \\\n]+)", text))
    configuration = configure([environment_layer(environ)])

    assert "TIMERMQ_ADVERTISED_HOST" in environ
    assert configuration.broker.metrics_listen_enable
    ports = {
        configuration.broker.listen_port,
        configuration.broker.listen_port - VIP_DISTANCE,
        configuration.broker.namesrv_listen_port,
        configuration.broker.metrics_listen_port,
    }
    exposed = re.search(r"^EXPOSE (.*)$", text, re.MULTILINE)
    assert exposed is not None
    assert ports == set(map(int, exposed[1].split()))


def test_container_is_made_of_what_the_package_is_made_of() -> None:
    """Every component, and nothing else of a checkout: its environment alone has a gigabyte."""
    project = tomllib.loads((DEPLOYMENT.parents[1] / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    copies = [
        line.split()[1:-1] for line in CONTAINER.read_text().splitlines() if line[:5] == "COPY "
    ]
    copied = {name for names in copies for name in names if not names[0].startswith("--from=")}

    assert {
        "LICENSE",
        "pyproject.toml",
        "README.md",
        *(name.split("/")[0] for name in packages),
    } == copied
