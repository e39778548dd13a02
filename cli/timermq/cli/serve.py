"""Serve: the broker with a name server of its own, on a store that is made if it is not there."""

from __future__ import annotations

import argparse
import functools
import gc
import os
import signal
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import attrs
import structlog
import trio

from timermq.broker.broker import Broker
from timermq.broker.consuming.sql_grammar import prepare_sql
from timermq.broker.namesrv.name_server_link import open_tcp
from timermq.broker.open_files import within_open_files
from timermq.broker.options import BrokerOptions
from timermq.broker.refusal import RefusedError
from timermq.broker.replication.replica_calls import ReplicaCalls
from timermq.broker.replication.start_role import prepare_start
from timermq.broker.security.outward_access import OutwardAccess
from timermq.pipeline.clock.clock import SystemClock, boot_time_ms
from timermq.pipeline.state.backoff import Backoff
from timermq.timerstore.disk import is_full
from timermq.timerstore.os_disk import OsDisk

from .arguments import OneLineParser, address, complete_directories, count
from .configuration import Configuration, load_configuration
from .log_output import configure_logs, logs_in_background
from .service_manager import ServiceManager
from .settings import ConfigurationError
from .stop_signals import SAME_SIGNAL, stop_signals
from .store_flags import add_configuration_flags
from .supervisor.broker_plan import METRICS_NOTICE, is_store, stores_in

log = structlog.get_logger("timermq.cli.serve")

COLLECT_THRESHOLDS = (2_000, 4, 1_000)
"""New objects between two collections, and how many of these between two of what they left. A batch
makes some thousands and drops them again without a cycle; Python's 700 would look through them ten
times a batch, for a fifth of the broker's time. With 10,000 one look takes up to 30 ms where all of
them stay, as the parts of a long filter do. With Python's 10 for the others, the collector looks
through half a million at once, for tenths of a second, when thousands of connections come or go.
What is old is hardly looked through: what comes and goes leaves no cycles.
"""

PROMOTE_SIGNAL = signal.SIGUSR1
"""A follower that gets it leads, as by `timermq promote`."""

FIRST_PAUSE_MS = 500
"""Between the first two tries to open a store on a full disk; then twice as long, up to a limit."""


def prepare_parser(parser: OneLineParser) -> None:
    """Add the flags for the store's place and the address; `config show` lists the settings."""
    store = parser.add_argument("--store", metavar="DIR", help="the store's directory")
    complete_directories(store)
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=address,
        help="the broker (default: 127.0.0.1:10911)",
    )
    parser.add_argument(
        "--namesrv-listen",
        metavar="HOST:PORT",
        type=address,
        help="the name server of its own (default: 127.0.0.1:9876)",
    )
    parser.add_argument(
        "--metrics-listen",
        metavar="HOST:PORT",
        type=address,
        help="HTTP with /metrics, /healthz and /readyz (default: none)",
    )
    parser.add_argument(
        "--namesrv",
        metavar="HOST:PORT;…",
        help="name servers to register with, in place of the one of its own",
    )
    parser.add_argument(
        "--follow",
        metavar="HOST:PORT",
        type=address,
        help="be the follower of the master at this address",
    )
    parser.add_argument(
        "--lease",
        metavar="URL",
        help="etcd://HOST:PORT/NAME?ttl=SECONDS: lead while this broker holds it, else follow",
    )
    parser.add_argument(
        "--brokers",
        metavar="N",
        type=count,
        help="so many brokers, a process and a store below DIR each, behind one name server",
    )
    # For a supervisor alone: it holds the other end of standard input.
    parser.add_argument("--supervised", action="store_true", help=argparse.SUPPRESS)
    add_configuration_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal; one that comes later cuts the graceful stop off."""
    configuration = load_configuration(args, _flags(args))
    fault = configuration.broker.address_fault()
    if fault is not None:
        raise ConfigurationError(f"section broker: {fault}")
    configure_logs(configuration.serve.log_format)
    if configuration.ignored:
        log.warning("broker.conf has keys that are not known here", keys=configuration.ignored)
    if args.brokers is not None:
        if not configuration.broker.first_role.is_master:
            raise ConfigurationError(
                "--brokers: expected masters, found brokers that follow one (broker_role, follow): "
                "start a follower for each master"
            )
        from .supervisor.serving import run_brokers

        return run_brokers(args, configuration)
    _refuse_stores_below(configuration.serve.store_path_root_dir)
    if args.supervised:
        structlog.contextvars.bind_contextvars(broker=configuration.broker.broker_name)
    tell_of_others(configuration.serve.store_path_root_dir, configuration.broker)
    broker = within_open_files(configuration.broker)
    with logs_in_background():
        return trio.run(
            functools.partial(
                serve,
                attrs.evolve(configuration, broker=broker),
                is_supervised=args.supervised,
            )
        )


def _refuse_stores_below(root: str) -> None:
    """Refuse a directory of stores: a new store would be made in it, and their messages would wait.

    Raises:
        ConfigurationError: The directory is one.
    """
    below = [] if is_store(root) else stores_in(root)
    if below:
        raise ConfigurationError(
            f"{root}: expected a store, found a directory of stores, such as {below[0]}: serve it "
            "with --brokers N"
        )


def tell_of_others(root: str, options: BrokerOptions) -> None:
    """Say who may look into the store beside its operator: other users, and the network.

    Args:
        root: The store's directory.
        options: Of the broker.
    """
    if _is_open_to_others(root):
        log.warning("store is open to others", path=root, remedy=f"timermq store protect {root}")
    rules = options.acl_file
    if options.acl_enable and rules is not None and _is_open_to_others(rules):
        log.warning("file of accounts is open to others", path=rules, remedy=f"chmod o= {rules}")
    secret = options.ha_secret_file
    if secret is not None and _is_open_to_others(secret):
        log.warning(
            "secret of replicas is open to others", path=secret, remedy=f"chmod o= {secret}"
        )
    account = options.credentials_file
    if account is not None and _is_open_to_others(account):
        log.warning(
            "account of this broker is open to others", path=account, remedy=f"chmod o= {account}"
        )
    for key in (
        options.tls_server_key_path,
        options.tls_client_key_path,
        options.ha_tls_key_path or options.ha_tls_cert_path,
    ):
        if key is not None and _is_open_to_others(key):
            log.warning(
                "key of a certificate is open to others", path=key, remedy=f"chmod o= {key}"
            )
    if addresses := options.open_addresses():
        log.error(
            "open to all: no access control", addresses=addresses, remedy="acl_enable, acl_file"
        )


def _is_open_to_others(path: str) -> bool:
    try:
        return Path(path).stat().st_mode & stat.S_IRWXO != 0
    except OSError:
        return False


async def serve(configuration: Configuration, *, is_supervised: bool = False) -> int:
    """Serve until SIGTERM, SIGINT or the end of the terminal; returns the exit code.

    Args:
        configuration: All settings.
        is_supervised: A supervisor holds the other end of standard input, and its end is a stop.

    Raises:
        StoreError: The store cannot be opened, or failed.
        OSError: An address cannot be listened on.
    """
    manager = ServiceManager.of(os.environ)
    with (
        trio.open_signal_receiver(*stop_signals()) as signals,
        trio.open_signal_receiver(PROMOTE_SIGNAL) as promotions,
    ):
        while True:
            broker = await open_with_room(functools.partial(_open, configuration), signals)
            if broker is None:
                return 0
            if configuration.broker.enable_property_filter:
                prepare_sql()
            _calm_collector()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_stop_on_signal, broker, signals, manager)
                nursery.start_soon(_promote_on_signal, broker, promotions)
                async with trio.open_nursery() as serving:
                    endpoint = await serving.start(broker.run)
                    ready = "READY=1"
                    if is_supervised:
                        nursery.start_soon(_stop_with_supervisor, broker)
                        if endpoint.metrics_listen is not None:
                            ready += f"\n{METRICS_NOTICE}={endpoint.metrics_listen}"
                    manager.tell(ready)
                    nursery.start_soon(manager.keep_watch)
                nursery.cancel_scope.cancel()
            if broker.next_life is None:
                return 0
            broker.abandon()
            log.warning("goes on as a follower", master=broker.next_life.master)


async def _open(configuration: Configuration) -> Broker:
    disk, root = OsDisk(), configuration.serve.store_path_root_dir
    calls = ReplicaCalls.of(OutwardAccess(configuration.broker, open_tcp))
    options = await prepare_start(disk, root, configuration.broker, configuration.store, calls)
    return await Broker.open(
        disk=disk,
        root=root,
        options=options,
        store_options=configuration.store,
        timer_options=configuration.timer,
        clock=SystemClock(),
        steady_ms=boot_time_ms,
        stop_timeout_ms=configuration.serve.stop_timeout_ms,
    )


async def open_with_room(
    open_broker: Callable[[], Awaitable[Broker]], signals: AsyncIterator[int]
) -> Broker | None:
    """Open the broker; on a full disk again and again, until what recovery has to write has room.

    Nothing is listened on between two tries: clients see a broker that is not there.

    Args:
        open_broker: Opens it, or leaves the store as it was found.
        signals: Any one of them ends the waiting.

    Returns:
        None after a signal.

    Raises:
        OSError: The disk refused for another reason.
    """
    backoff = Backoff()
    while True:
        try:
            return await open_broker()
        except OSError as error:
            if not is_full(error):
                raise
            backoff.again(0, 0, str(error))
        if backoff.is_news:
            log.warning("start held up: no room on the disk", error=backoff.error)
        with trio.move_on_after(backoff.pause_s(FIRST_PAUSE_MS)):
            async for _ in signals:
                return None


def _calm_collector() -> None:
    """Collect cycles rarely, and never look at what was made while starting."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_THRESHOLDS)


async def _stop_with_supervisor(broker: Broker) -> None:
    """Stop in order when the supervisor is gone: otherwise the store would stay locked."""
    await trio.lowlevel.wait_readable(0)  # nothing is ever written to it
    broker.request_stop()


async def _promote_on_signal(broker: Broker, signals: AsyncIterator[int]) -> None:
    """Let a follower lead, as `timermq promote` does."""
    async for _ in signals:
        try:
            await broker.succession.promote()
        except RefusedError as error:
            log.error("not promoted", reason=error.remark)


async def _stop_on_signal(
    broker: Broker, signals: AsyncIterator[int], manager: ServiceManager
) -> None:
    async for _ in signals:
        manager.tell("STOPPING=1")
        broker.request_stop()
        break
    begun = trio.current_time()
    async for number in signals:
        if trio.current_time() < begun + SAME_SIGNAL:
            continue
        # Patience has ended: the next start recovers what is not finished.
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)


def _flags(args: argparse.Namespace) -> Mapping[str, tuple[str, str | None]]:
    nowhere = (None, None)
    listen, namesrv_listen = args.listen or nowhere, args.namesrv_listen or nowhere
    metrics_listen = args.metrics_listen or nowhere
    follow = None
    if args.follow is not None:
        host, port = args.follow
        follow = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return {
        "follow": ("--follow", follow),
        "broker_role": ("--follow", None if follow is None else "SLAVE"),
        "store_path_root_dir": ("--store", args.store),
        "listen_host": ("--listen", listen[0]),
        "listen_port": ("--listen", listen[1]),
        "namesrv_addr": ("--namesrv", args.namesrv),
        "lease": ("--lease", args.lease),
        "namesrv_listen_enable": (
            "--namesrv-listen",
            None if args.namesrv_listen is None else "true",
        ),
        "namesrv_listen_host": ("--namesrv-listen", namesrv_listen[0]),
        "namesrv_listen_port": ("--namesrv-listen", namesrv_listen[1]),
        "metrics_listen_enable": ("--metrics-listen", "true" if args.metrics_listen else None),
        "metrics_listen_host": ("--metrics-listen", metrics_listen[0]),
        "metrics_listen_port": ("--metrics-listen", metrics_listen[1]),
    }
