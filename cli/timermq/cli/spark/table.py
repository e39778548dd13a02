"""Print rows of one of the store's tables, or write the table as Parquet.

The tables and their columns stand in docs/pipeline.md; every option of a table is a flag here.
"""

from __future__ import annotations

import argparse

from ..arguments import OneLineParser, UsageError, count, moment
from ..output import print_json, print_table
from .session import add_out, add_session_flags, add_stores, session_for

TABLES = ("commitlog", "consumequeue", "delivered", "pending", "timerlog", "wheel")
SHOWN_ROWS = 20
"""Rows that are printed unless more are asked for."""


def prepare_parser(parser: OneLineParser) -> None:
    """The table and what of it."""
    parser.add_argument("table", choices=TABLES)
    add_stores(parser)
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the table, such as topics=orders or columns=topic,deliver_ms",
    )
    parser.add_argument("--where", metavar="SQL", help="only rows for which this is true")
    parser.add_argument(
        "--limit", type=count, default=SHOWN_ROWS, help=f"rows to print (default: {SHOWN_ROWS})"
    )
    add_out(parser, "the table as Parquet")
    add_session_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Print rows of the table, or write all of it with ``--out``."""
    options: dict[str, str] = {}
    for text in args.option:
        name, mark, value = str(text).partition("=")
        if not mark:
            raise UsageError(f"spark table: --option: expected NAME=VALUE, found {text!r}")
        options[name] = value
    with session_for(args, f"table {args.table}") as spark:
        from timermq.pipeline.spark import read_table
        from timermq.pipeline.spark.options import MOMENTS
        from timermq.pipeline.spark.tables.written_table import write_mode, write_table

        # Relative ones count from here on, and not from where each process reads them.
        options |= {name: _moment(name, options[name]) for name in MOMENTS if name in options}
        if args.out:
            write_mode(args.out, store=args.store)  # refused before anything is read
        frame = read_table(spark, f"timermq.{args.table}", args.store, **options)
        if args.where:
            frame = frame.where(args.where)
        if args.out:
            write_table(frame, args.out, store=args.store)
            return 0
        rows = [_printable(row.asDict()) for row in frame.limit(args.limit).collect()]
        if args.json:
            print_json(rows)
        else:
            print_table(rows, frame.columns)
    return 0


def _moment(name: str, text: str) -> str:
    """A moment as other verbs take it, in epoch milliseconds."""
    try:
        return str(moment(text))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"spark table: --option {name}: {error}") from None


def _printable(row: dict[str, object]) -> dict[str, object]:
    """Bytes as text; what is none is marked."""
    return {
        name: bytes(value).decode("utf-8", "backslashreplace")
        if isinstance(value, bytes | bytearray)
        else value
        for name, value in row.items()
    }
