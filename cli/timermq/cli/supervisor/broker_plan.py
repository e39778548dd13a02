"""The brokers of one machine: names, stores and ports, derived from the settings of one broker.

Broker number ``i`` (from 0) of ``timermq serve --brokers N`` has the name ``NAME-i``, the store
``DIR/NAME-i`` and the port ``listen_port + 10 i``. Ports beside it belong to the broker too: its
VIP channel is two below, and by default its followers come to the one above. The first broker is
the name server of all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from timermq.broker.options import WILDCARD_HOSTS

from ..configuration import Configuration
from ..settings import ConfigurationError

BROKERS_MAX = 64
"""Brokers of one supervisor; more than the cores of a machine bring nothing."""
PORT_STEP = 10
"""Ports from one broker to the next."""
METRICS_NOTICE = "X_TIMERMQ_METRICS"
"""Name of the notice, in sd_notify's form, with the address of a supervised broker's metrics."""
METRICS_HOST = "127.0.0.1"
"""Address at which a broker serves its metrics to the supervisor alone."""


@attrs.frozen(kw_only=True)
class BrokerPlan:
    """One broker: its name, its store, and the settings in which it differs from those given."""

    number: int
    name: str
    store: str
    settings: Mapping[str, str]

    def flags(self) -> list[str]:
        """The settings as flags of ``timermq serve``, which take precedence over all others."""
        return [f"--set={key}={value}" for key, value in self.settings.items()]


def plan_brokers(configuration: Configuration, count: int) -> list[BrokerPlan]:
    """The brokers of a machine.

    Args:
        configuration: The settings of one broker.
        count: How many, 1 to `BROKERS_MAX`.

    Raises:
        ConfigurationError: The settings do not suit so many brokers, or a store in the directory
            would not be served.
    """
    if count > BROKERS_MAX:
        raise ConfigurationError(f"--brokers: expected at most {BROKERS_MAX}, found {count}")
    broker, root = configuration.broker, configuration.serve.store_path_root_dir
    if configuration.serve.store_path_commit_log is not None:
        raise ConfigurationError(
            "store_path_commit_log: expected none with --brokers, where each broker has a store of "
            f"its own, found {configuration.serve.store_path_commit_log!r}"
        )
    if count > 1 and not broker.serves_namesrv and broker.namesrv_addr is None:
        raise ConfigurationError(
            "namesrv_addr: expected name servers, or one of our own (namesrv_listen_enable), for "
            "several brokers, found neither"
        )
    if count > 1 and broker.serves_namesrv and not broker.namesrv_listen_port:
        raise ConfigurationError(
            "namesrv_listen_port: expected a port, by which the other brokers find their name "
            "server, found 0"
        )
    plans = [
        BrokerPlan(
            number=number,
            name=f"{broker.broker_name}-{number}",
            store=str(Path(root) / f"{broker.broker_name}-{number}"),
            settings=_settings(configuration, number),
        )
        for number in range(count)
    ]
    _refuse_stores_left_out(root, plans)
    return plans


def _settings(configuration: Configuration, number: int) -> dict[str, str]:
    """The settings that differ from one broker to the next."""
    broker = configuration.broker
    name = f"{broker.broker_name}-{number}"
    settings = {
        "broker_name": name,
        "store_path_root_dir": str(Path(configuration.serve.store_path_root_dir) / name),
        "listen_host": broker.listen_host,
        "listen_port": str(_counted_on("listen_port", broker.listen_port, number)),
        "namesrv_listen_enable": str(broker.serves_namesrv and not number).lower(),
        "namesrv_listen_host": broker.namesrv_listen_host,
        "namesrv_listen_port": str(broker.namesrv_listen_port),
        "metrics_listen_enable": str(broker.metrics_listen_enable).lower(),
        "metrics_listen_host": METRICS_HOST,
        "metrics_listen_port": "0",
    }
    if broker.advertised_port is not None:
        port = _counted_on("advertised_port", broker.advertised_port, number)
        settings["advertised_port"] = str(port)
    if broker.ha_port is not None:
        settings["ha_listen_port"] = str(_counted_on("ha_listen_port", broker.ha_port, number))
    namesrv = broker.namesrv_addr
    if namesrv is None and number and broker.serves_namesrv:
        namesrv = _reached(broker.namesrv_listen_host, broker.namesrv_listen_port)
    if namesrv is not None:
        settings["namesrv_addr"] = namesrv
    return settings


def _counted_on(key: str, first: int, number: int) -> int:
    """The port of a broker; 0, a free one, stays 0.

    Raises:
        ConfigurationError: It would be above 65,535.
    """
    port = first + PORT_STEP * number if first else 0
    if port > 65_535:
        raise ConfigurationError(
            f"{key}: expected a port that leaves room for {PORT_STEP} more each broker, "
            f"found {first} and broker {number}"
        )
    return port


def _reached(host: str, port: int) -> str:
    """The address at which a broker of this machine reaches the name server of another."""
    if host in WILDCARD_HOSTS:
        host = "::1" if host == "::" else "127.0.0.1"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _refuse_stores_left_out(root: str, plans: Sequence[BrokerPlan]) -> None:
    """Refuse a directory with a store that none of the brokers serves: its messages would wait.

    Raises:
        ConfigurationError: There is such a store, or the directory is a store itself.
    """
    if is_store(root):
        raise ConfigurationError(
            f"--brokers: {root}: expected a directory of stores, found a store: stop its broker, "
            f"and move what is in it to {plans[0].store}"
        )
    known = {plan.store for plan in plans}
    left_out = [one for one in stores_in(root) if one not in known]
    if left_out:
        raise ConfigurationError(
            f"--brokers: {root}: expected {', '.join(plan.name for plan in plans)}, found a store "
            f"in {left_out[0]} that none of them serves: start as many brokers as there are stores,"
            " under the same broker_name, or move it elsewhere"
        )


def is_store(directory: str) -> bool:
    """Whether a broker has kept messages, or topics, in a directory.

    One that this user may not look into, such as ``lost+found``, is none.
    """
    return any(os.path.exists(f"{directory}/{one}") for one in ("commitlog", "config"))  # noqa: PTH110


def stores_in(root: str) -> list[str]:
    """The stores right below a directory, by name."""
    try:
        paths = sorted(Path(root).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [str(path) for path in paths if is_store(str(path))]
