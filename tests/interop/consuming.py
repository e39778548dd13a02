"""Real clients as consumers that come and go on command, and what they printed.

The programs ``java/ConsumeClient.java``, ``go/consuming`` and ``cpp_consumer.py`` speak one
language of lines, which the first of them describes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import attrs

from timermq.client import OutgoingMessage, Producer
from waiting import wait_until

WAIT_SECONDS = 100.0
"""How long a test waits for what has to happen at once; a busy machine takes its time."""


@attrs.frozen
class Delivery:
    """One message as a consumer got it."""

    consumer: str
    body: str
    topic: str
    queue_id: int
    queue_offset: int
    tries: int
    received_ms: int
    stored_ms: int


@attrs.define(eq=False)
class Consumers:
    """A process with consumers in it."""

    process: subprocess.Popen[str]
    lines: list[str] = attrs.Factory(list[str])
    """What it printed so far, its logs included."""
    got: list[Delivery] = attrs.Factory(list[Delivery])
    """What its consumers got so far, in order."""

    def start(
        self, name: str, kind: str, group: str, topic: str, expression: str = "*", *options: str
    ) -> None:
        """Start a consumer and wait until it is ready."""
        self.tell("start", name, kind, group, topic, expression, *options)
        self.wait_for(f"READY {name}")

    def stop(self, name: str) -> None:
        """Stop a consumer and wait until it has left."""
        self.tell("stop", name)
        self.wait_for(f"STOPPED {name}")

    def tell(self, *words: str) -> None:
        """Give the process one command, its words divided by tabs."""
        assert self.process.stdin is not None
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()

    def wait_for(self, beginning: str) -> str:
        """Wait for a line that begins so; the line."""
        self.wait_until(lambda: any(line.startswith(beginning) for line in self.lines))
        return next(line for line in self.lines if line.startswith(beginning))

    def wait_until(self, holds: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
        """Wait until something is so."""
        wait_until(
            holds,
            seconds,
            told=lambda: "the clients said:\n" + "\n".join(self.lines[-40:]),
            is_over=lambda: self.process.poll() is not None,
            pause=0.02,
        )

    def deliveries(self, name: str = "") -> list[Delivery]:
        """What a consumer got, or all of them, in order."""
        return [one for one in list(self.got) if not name or one.consumer == name]

    def bodies(self, name: str = "") -> list[str]:
        """Bodies of what a consumer got, or all of them, in order."""
        return [one.body for one in self.deliveries(name)]

    def kill(self) -> None:
        """SIGKILL: no consumer says goodbye."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def consumers(command: Sequence[str], home: Path) -> Generator[Consumers]:
    """A process of consumers for the length of a block; they leave in order at its end.

    Args:
        command: Its command line.
        home: Stands in for the user's folder, where clients keep offsets and logs.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "HOME": str(home)},
    )
    running = Consumers(process)
    reader = threading.Thread(target=_read, args=(running,))
    reader.start()
    try:
        yield running
    finally:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
            raise
        finally:
            reader.join()


def _read(running: Consumers) -> None:
    assert running.process.stdout is not None
    with running.process.stdout as output:
        for line in output:
            words = line.split()
            if words[:1] == ["GOT"]:
                running.got.append(Delivery(words[1], words[2], words[3], *map(int, words[4:9])))
            running.lines.append(line.rstrip("\n"))


def messages(
    topic: str, *bodies: str, tag: str = "", queue_id: int | None = None, **properties: str
) -> list[OutgoingMessage]:
    """Messages with bodies; to one queue, or to all in turn."""
    return [
        OutgoingMessage(
            topic=topic, body=body.encode(), tag=tag, queue_id=queue_id, properties=properties
        )
        for body in bodies
    ]


async def send(namesrv: str, messages: Sequence[OutgoingMessage]) -> None:
    """Send messages with a producer of our own, one after the other."""
    async with Producer(namesrv, group="interop-producer") as producer:
        for message in messages:
            await producer.send_batch([message])
