"""Another copy of a store's log, as ``--from`` names it: a backup or a replica."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from timermq.repair.log_source import LogSource
from timermq.timerstore.disk import Disk

from ..arguments import address
from ..configuration import directory_flag, load_configuration


def is_replica(text: str) -> bool:
    """Whether ``--from`` names a broker: ``HOST:PORT``, and no directory of that name."""
    with suppress(argparse.ArgumentTypeError):
        address(text)
        return "/" not in text and not Path(text).is_dir()
    return False


@asynccontextmanager
async def opened_copy(args: argparse.Namespace, disk: Disk) -> AsyncGenerator[LogSource]:
    """The copy that ``args.source`` names, for the length of a block.

    Args:
        args: Of a parser with the configuration's flags.
        disk: Of a backup in a directory.

    Raises:
        UsageError: An object store was named, and the extra is not installed.
        ConfigurationError: A setting is unknown or refused.
        StoreError: The backup cannot be read, or the replica does not answer.
    """
    if not is_replica(args.source):
        from timermq.backup.backup_log import BackupLog
        from timermq.backup.backup_objects import BackupObjects

        from ..backup_target import named_target

        yield BackupLog(await BackupObjects.load(named_target(args.source, disk)))
        return
    from timermq.broker.namesrv.name_server_link import open_tcp
    from timermq.broker.replication.link_security import follower_context, read_secret
    from timermq.broker.replication.peer_log import opened_peer_log

    options = load_configuration(args, directory_flag(args.directory)).broker
    async with opened_peer_log(
        args.source,
        open_tcp,
        ha_address=options.ha_master_address,
        secret=read_secret(options.ha_secret_file),
        tls=follower_context(options),
    ) as peer:
        yield peer
