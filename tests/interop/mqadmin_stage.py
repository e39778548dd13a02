"""What RocketMQ's admin tool looks at: a broker, and a client that has sent and consumed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from pathlib import Path

import attrs

from interop.serving import Broker, serving
from interop.talking import Talking, talking

TOPIC = "AdminTopic"
GROUP = "AdminGroup"


@attrs.frozen
class Stage:
    """A broker, the tool, and a client that has sent and consumed ten messages."""

    broker: Broker
    admin: Talking
    member: Talking
    client_id: str

    def ask(self, command: str) -> str:
        """What the tool prints; ``BROKER`` stands for the broker's address."""
        return self.admin.ask(command.replace("BROKER", self.broker.listen))

    def rows(self, command: str) -> list[list[str]]:
        """The words of each line that the tool prints, without its heading."""
        lines = [line.split() for line in self.ask(command).splitlines()]
        return [words for words in lines if words and not words[0].startswith("#")]


@contextlib.contextmanager
def staged(folder: Path, java_client: Callable[..., list[str]]) -> Generator[Stage]:
    """Everything that the commands look at, on a topic that the tool made (17)."""
    with (
        serving(folder / "store") as broker,
        talking(java_client("MqAdmin", broker.namesrv)) as admin,
    ):
        command = f"updateTopic -b {broker.listen} -t {TOPIC} -r 2 -w 2 -a +message.type=DELAY"
        assert f"create topic to {broker.listen} success." in admin.ask(command)
        with talking(java_client("Member", broker.namesrv, TOPIC, GROUP)) as member:
            (client_id,) = member.hear("READY ")
            member.say("10 0 now")
            member.hear("SENT now", 10)
            member.hear("GOT now", 10)
            yield Stage(broker, admin, member, client_id)
