"""Several brokers of one supervisor, as a user runs them."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Generator, Sequence
from pathlib import Path

import attrs
import psutil
import trio

from interop.serving import READY_SECONDS, starting
from timermq.cli.broker_link import known_brokers
from timermq.client.link import Links
from timermq.remoting import Command, RequestCode
from timermq.remoting.bodies import QueueRoute, decode_topic_route
from waiting import wait_until

BASE_TRIES = 50


@attrs.frozen
class Several:
    """A supervisor, its brokers, and how they are reached."""

    process: subprocess.Popen[bytes]
    store: Path
    log: Path
    namesrv: str
    addresses: Sequence[str]

    @property
    def lines(self) -> list[dict[str, object]]:
        """The lines of the log so far that are JSON."""
        return [
            json.loads(line)
            for line in self.log.read_text().splitlines()
            if line.startswith("{") and line.endswith("}")
        ]

    def told(self, event: str) -> list[dict[str, object]]:
        """The lines of the log of an event."""
        return [line for line in self.lines if line["event"] == event]

    def broker_process(self, number: int) -> psutil.Process:
        """The process of a broker."""
        name = f"--set=broker_name=broker-a-{number}"
        children = psutil.Process(self.process.pid).children()
        return next(one for one in children if name in one.cmdline())

    def make_topic(self, topic: str, queues: int = 2) -> None:
        """Make a topic on all brokers, as operators do."""
        trio.run(_make_topic, self.addresses, topic, queues, self.namesrv)

    def wait_registered(self) -> None:
        """Wait until the name server knows all brokers."""
        wait_until(
            lambda: (
                trio.run(known_names, self.namesrv)
                == [f"broker-a-{number}" for number in range(len(self.addresses))]
            ),
            READY_SECONDS,
            told=self.log.read_text,
        )


@contextlib.contextmanager
def serving_several(store: Path, count: int, *flags: str) -> Generator[Several]:
    """So many brokers for the length of a block; stopped by SIGTERM at its end."""
    ports = free_ports(count)
    with starting() as start_one:
        one = start_one(store, f"--brokers={count}", *flags, listen=f"127.0.0.1:{ports[0]}")
        addresses = [f"127.0.0.1:{port}" for port in ports]
        several = Several(one.process, store, one.log, one.namesrv, addresses)
        wait_until(
            lambda: bool(several.told("brokers ready")),
            READY_SECONDS,
            told=one.log.read_text,
            is_over=lambda: one.process.poll() is not None,
        )
        several.wait_registered()
        try:
            yield several
        finally:
            if one.process.poll() is None:
                one.process.terminate()
                one.process.wait(timeout=READY_SECONDS)


def free_ports(count: int) -> list[int]:
    """Ports ten apart that nothing listens on at this moment."""
    for _ in range(BASE_TRIES):
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            ports = [int(first.getsockname()[1]) + 10 * number for number in range(count)]
            try:
                for port in ports[1:]:
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except (OSError, OverflowError):
                continue
            return ports
    raise AssertionError("no free ports ten apart")


async def _make_topic(addresses: Sequence[str], topic: str, queues: int, namesrv: str) -> None:
    numbers = {"readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6"}
    async with trio.open_nursery() as nursery:
        links = Links(nursery, lambda _address, _command: None)
        for address in addresses:
            command = Command(
                RequestCode.UPDATE_AND_CREATE_TOPIC,
                ext={"topic": topic, "defaultTopic": "TBW102", **numbers},
            )
            assert (await links.call(address, command)).code == 0
        with trio.fail_after(READY_SECONDS):
            while len(await _route(links, namesrv, topic)) < len(addresses):  # noqa: ASYNC110 - asked
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()


async def _route(links: Links, namesrv: str, topic: str) -> list[QueueRoute]:
    command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": topic})
    answer = await links.call(namesrv, command)
    return [] if answer.code else decode_topic_route(answer.body)


async def known_names(namesrv: str) -> list[str]:
    """Names of the brokers that a name server knows."""
    async with trio.open_nursery() as nursery:
        links = Links(nursery, lambda _address, _command: None)
        answer = await links.call(namesrv, Command(RequestCode.GET_BROKER_CLUSTER_INFO))
        nursery.cancel_scope.cancel()
    return [one.name for one in known_brokers(answer.body)]
