"""How the verbs that speak to brokers come in: name servers, an account, TLS.

The secret of an account is never an argument, where everybody on the machine could read it: it
stands in the environment (``TIMERMQ_ACCESS_KEY``, ``TIMERMQ_SECRET_KEY``), or in a file that
``--credentials`` names, in the form of RocketMQ's ``conf/tools.yml``.
"""

from __future__ import annotations

import argparse
import os
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import attrs
import trio

from timermq.client import (
    Consumer,
    Credentials,
    HistoryWriter,
    Producer,
    Watch,
    open_watch,
    over_tls,
)
from timermq.client.link import Links, OpenStream
from timermq.remoting import WatchView
from timermq.remoting.credentials import FILE_KEYS, FILE_SIZE_MAX, CredentialsError

from .arguments import UsageError, add_namesrv, complete_files

ACCESS_KEY_VARIABLE = "TIMERMQ_ACCESS_KEY"
SECRET_KEY_VARIABLE = "TIMERMQ_SECRET_KEY"  # noqa: S105 - the name of a variable
SECURITY_TOKEN_VARIABLE = "TIMERMQ_SECURITY_TOKEN"  # noqa: S105 - the name of a variable
VARIABLES = (ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE, SECURITY_TOKEN_VARIABLE)


@attrs.frozen(kw_only=True)
class ClientAccess:
    """Whom to ask, as whom, and over what."""

    namesrv: str
    credentials: Credentials | None = None
    tls: ssl.SSLContext | None = None
    open_tcp: OpenStream = trio.open_tcp_stream
    """Opens a TCP stream."""

    @classmethod
    def of(cls, args: argparse.Namespace) -> ClientAccess:
        """The access settings of the arguments and the environment.

        Args:
            args: Of a parser with `add_client_access`.

        Raises:
            UsageError: They do not go together, or a file is not what it should be.
            OSError: A file cannot be read.
        """
        return cls(
            namesrv=args.namesrv,
            credentials=_credentials(args.credentials, os.environ),
            tls=_tls(args),
        )

    def producer(self, history: HistoryWriter | None = None) -> Producer:
        """A producer that comes in so."""
        return Producer(
            self.namesrv,
            credentials=self.credentials,
            tls=self.tls,
            open_stream=self.open_tcp,
            history=history,
        )

    def consumer(
        self,
        *,
        group: str,
        topics: Mapping[str, str],
        start_from: Literal["first", "last"],
        history: HistoryWriter | None = None,
    ) -> Consumer:
        """A consumer that comes in so."""
        return Consumer(
            self.namesrv,
            group=group,
            topics=topics,
            start_from=start_from,
            credentials=self.credentials,
            tls=self.tls,
            open_stream=self.open_tcp,
            history=history,
        )

    def links(self, nursery: trio.Nursery) -> Links:
        """Connections that are made with this access, as long as the nursery runs."""
        return Links(
            nursery,
            lambda _address, _command: None,
            self.open_stream,
            credentials=self.credentials,
        )

    @asynccontextmanager
    async def watch(self, address: str, view: WatchView) -> AsyncGenerator[Watch]:
        """Watch a broker; see ``open_watch``."""
        async with open_watch(
            address, view, credentials=self.credentials, open_stream=self.open_stream
        ) as watch:
            yield watch

    @property
    def open_stream(self) -> OpenStream:
        """Opens connections, plain or over TLS."""
        return over_tls(self.open_tcp, self.tls)


def add_client_access(parser: argparse.ArgumentParser) -> None:
    """The flags of every verb that speaks to brokers."""
    add_namesrv(parser)
    parser.add_argument("--tls", action="store_true", help="speak TLS, and check who answers")
    for flag, text in (
        ("--ca", "trusted certificates, PEM (default: those of the system)"),
        ("--cert", "the certificate to show, PEM, with its key unless --cert-key is given"),
        ("--cert-key", "the key to --cert, PEM"),
        ("--credentials", "accessKey and secretKey, as in RocketMQ's tools.yml"),
    ):
        file = parser.add_argument(flag, metavar="FILE", help=text)
        complete_files(file)


def _credentials(path: str | None, environ: Mapping[str, str]) -> Credentials | None:
    if (
        path is None
        and not environ.get(ACCESS_KEY_VARIABLE)
        and not environ.get(SECRET_KEY_VARIABLE)
    ):
        return None
    where = f"{ACCESS_KEY_VARIABLE} and {SECRET_KEY_VARIABLE}" if path is None else path
    try:
        if path is None:
            values = (environ.get(name) for name in VARIABLES)
            return Credentials.of(dict(zip(FILE_KEYS, values, strict=True)))
        with Path(path).open("rb") as file:
            return Credentials.decode(file.read(FILE_SIZE_MAX))
    except CredentialsError as error:
        raise UsageError(f"{where}: {error}") from error


def _tls(args: argparse.Namespace) -> ssl.SSLContext | None:
    if not args.tls:
        for flag in ("ca", "cert", "cert_key"):
            if getattr(args, flag) is not None:
                raise UsageError(f"argument --{flag.replace('_', '-')}: expected with --tls")
        return None
    if args.cert_key is not None and args.cert is None:
        raise UsageError("argument --cert-key: expected with --cert")
    for path in (args.ca, args.cert, args.cert_key):
        if path is not None:
            Path(path).open("rb").close()  # the error of OpenSSL does not name the file
    try:
        context = ssl.create_default_context(cafile=args.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
    except ssl.SSLError:
        raise UsageError(f"argument --ca: {args.ca}: expected certificates, PEM") from None
    try:
        if args.cert is not None:
            # Without a password of its own OpenSSL would ask on the terminal.
            context.load_cert_chain(args.cert, args.cert_key, lambda: "")
    except ssl.SSLError:
        raise UsageError(
            f"argument --cert: {args.cert}: expected a certificate and its key without a password"
        ) from None
    return context
