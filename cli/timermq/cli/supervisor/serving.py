"""The process of ``timermq serve --brokers N``: the supervisor, its signals, and its HTTP port."""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import structlog
import trio

from timermq.broker.server import bind

from ..configuration import Configuration
from ..service_manager import ServiceManager
from ..stop_signals import SAME_SIGNAL, stop_signals
from .broker_plan import BrokerPlan, plan_brokers
from .supervised_process import BrokerProcess, serve_command
from .supervisor import Supervisor

log = structlog.get_logger("timermq.cli.supervisor.serving")


def run_brokers(args: argparse.Namespace, configuration: Configuration) -> int:
    """Serve with several brokers until a signal; returns the exit code.

    Args:
        args: The arguments of ``timermq serve``.
        configuration: The settings that they make, for one broker.

    Raises:
        ConfigurationError: The settings do not do for so many brokers.
        OSError: The port of the metrics cannot be had, or no process can be started.
    """
    plans = plan_brokers(configuration, args.brokers)
    given = [f"--set={one}" for one in args.set]
    if args.config is not None:
        given += ["--config", args.config]
    with tempfile.TemporaryDirectory(prefix="timermq-") as folder:
        return trio.run(_serve, configuration, plans, serve_command(given), folder)


async def _serve(
    configuration: Configuration, plans: list[BrokerPlan], command: list[str], folder: str
) -> int:
    manager = ServiceManager.of(os.environ)
    brokers = [
        BrokerProcess(plan, command, str(Path(folder) / f"{plan.number}.notices")) for plan in plans
    ]
    supervisor = Supervisor(brokers, manager)
    with trio.open_signal_receiver(*stop_signals()) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_on_signal, supervisor, signals, manager)
            metrics_listen = await _serve_metrics(configuration, supervisor, nursery)
            nursery.start_soon(_tell_when_ready, supervisor, manager, metrics_listen)
            code = await supervisor.run()
            nursery.cancel_scope.cancel()
    log.info("brokers stopped", exit_code=code)
    return code


async def _serve_metrics(
    configuration: Configuration, supervisor: Supervisor, nursery: trio.Nursery
) -> str | None:
    """Serve the metrics of all brokers, if that is wanted; returns the address.

    Raises:
        OSError: It cannot be listened on.
    """
    options = configuration.broker
    if not options.metrics_listen_enable:
        return None
    # Without metrics the process does not need what makes them.
    from timermq.broker.metrics.http_server import HttpServer

    from .joined_metrics import JoinedPages

    listener = await bind(options.metrics_listen_host, options.metrics_listen_port)
    pages = JoinedPages(supervisor, options.broker_cluster_name)
    server = HttpServer(
        pages, connections_max=options.metrics_connections_max, names=options.metrics_names
    )
    await nursery.start(server.run, [listener])
    host, port = listener.socket.getsockname()[:2]
    return f"{host}:{port}"


async def _tell_when_ready(
    supervisor: Supervisor, manager: ServiceManager, metrics_listen: str | None
) -> None:
    """Tell the service manager that all brokers are ready, and then that this process lives."""
    await supervisor.all_ready.wait()
    log.info(
        "brokers ready",
        brokers=[one.plan.name for one in supervisor.brokers],
        metrics_listen=metrics_listen,
    )
    manager.tell("READY=1")
    await manager.keep_watch()


async def _stop_on_signal(
    supervisor: Supervisor, signals: AsyncIterator[int], manager: ServiceManager
) -> None:
    async for _ in signals:
        manager.tell("STOPPING=1")
        supervisor.request_stop()
        break
    begun = trio.current_time()
    async for number in signals:
        if trio.current_time() < begun + SAME_SIGNAL:
            continue
        # A second signal: brokers are killed, and their next start recovers what is unfinished.
        supervisor.kill()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
