"""The flags that name a store and its settings. They are read by `configuration`, if at all."""

from __future__ import annotations

import argparse

from .arguments import UsageError, complete_directories, complete_files


def add_configuration_flags(parser: argparse.ArgumentParser) -> None:
    """Add ``--config`` for a file and ``--set`` for single settings."""
    file = parser.add_argument(
        "--config", metavar="FILE", help="a TOML file, or a RocketMQ broker.conf as it is"
    )
    complete_files(file)
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="one setting; `timermq config show` lists them",
    )


def refuse_without_store(args: argparse.Namespace) -> None:
    """Refuse what a verb that looks into a store or at brokers would pass over.

    Args:
        args: Of a parser with ``add_configuration_flags``, ``--store`` and perhaps ``--broker``.

    Raises:
        UsageError: Settings of a store without one, or a broker's address beside a store.
    """
    if args.store is None:
        for flag, given in (("--config", args.config is not None), ("--set", bool(args.set))):
            if given:
                raise UsageError(f"argument {flag}: expected with --store")
    elif getattr(args, "broker", None) is not None:
        raise UsageError("argument --broker: not allowed with argument --store")


def add_store_arguments(
    parser: argparse.ArgumentParser, *, what: str = "the store's directory"
) -> None:
    """The directory, and how to name settings that its files do not tell."""
    directory = parser.add_argument("directory", metavar="DIR", help=what)
    complete_directories(directory)
    add_configuration_flags(parser)


def add_stopped_store(parser: argparse.ArgumentParser) -> None:
    """``--store``, for a verb that otherwise asks brokers, and how to name its settings."""
    store = parser.add_argument("--store", metavar="DIR", help="the store of a stopped broker")
    complete_directories(store)
    add_configuration_flags(parser)
