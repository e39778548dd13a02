"""What consumers see stands on enough disks, and on those of all that may lead next."""

from __future__ import annotations

from collections import Counter
from random import Random

import attrs

from timermq.simulator.disks.memory_disk import MemoryDisk
from timermq.simulator.process import ROOT
from timermq.simulator.replicas.replica_lines import ReplicaLines
from timermq.simulator.replicas.replica_plan import draw_replicas
from timermq.simulator.replicas.replica_process import ReplicaNode
from timermq.simulator.replicas.shown_records import ShownRecords
from timermq.simulator.staged.staged_clock import StagedClock
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.record import encode_record

SEGMENT_SIZE = 4_096
FIRST = f"{ROOT}/commitlog/{0:020d}"


def record(number: int, position: int) -> bytes:
    """A message as it stands in the log."""
    return encode_record(
        Message("T", 0, f"M{number:06d}".encode()),
        queue_offset=number,
        phy_offset=position,
        store_ms=5,
        store_host=pack_host("127.0.0.1", 10_911),
    )


@attrs.define(eq=False)
class Trio:
    """Three brokers that do not run, and their disks."""

    faults: list[str] = attrs.field(factory=list[str])
    nodes: list[ReplicaNode] = attrs.field(init=False)
    rule: ShownRecords = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        scenario = draw_replicas(1, brokers=3, days=0.005)
        lines = ReplicaLines(3, Random(1), scenario.network, Counter())
        self.nodes = [
            ReplicaNode(
                scenario=scenario,
                ports=ports,
                lines=lines,
                clock=StagedClock(),
                disk=MemoryDisk(),
                tell=lambda _event: None,
                complain=self.faults.append,
                follow=None,
            )
            for ports in lines.ports
        ]
        self.rule = ShownRecords(self.nodes, lambda _node: [], SEGMENT_SIZE)
        for node in self.nodes:
            node.before_loss = self.rule.note_before_loss

    def write(self, data: bytes, *numbers: int) -> None:
        """Give these brokers a log."""
        for number in numbers:
            disk = self.nodes[number].disk
            disk.make_dirs(f"{ROOT}/commitlog")
            disk.open(FIRST, create=True).write(0, data.ljust(SEGMENT_SIZE, b"\0"))


def test_what_two_have_may_be_shown() -> None:
    """The neighbours in one answer are judged one by one, each once."""
    trio_of, first = Trio(), record(0, 0)
    both = first + record(1, len(first))
    trio_of.write(both, 0, 1)

    trio_of.rule.look(trio_of.nodes[0], [both])
    trio_of.rule.look(trio_of.nodes[1], [both])

    assert [] == trio_of.faults
    assert 2 == trio_of.rule.judged


def test_what_one_has_alone_may_not() -> None:
    """The fault names the broker, the message, and its place."""
    trio_of, first = Trio(), record(0, 0)
    second = record(1, len(first))
    trio_of.write(first + second, 0)
    trio_of.write(first, 1, 2)

    trio_of.rule.look(trio_of.nodes[0], [first + second])

    assert [
        f"consumers see what is not replicated: broker-0 shows ['M000001'] at {len(first)}, "
        "on ['broker-0'] alone"
    ] == trio_of.faults


def test_what_is_lost_later_was_shown_rightly() -> None:
    """A disk that goes takes a copy of what consumers may have seen, and see again."""
    trio_of, first = Trio(), record(0, 0)
    trio_of.write(first, 0, 1)
    trio_of.nodes[1].lose_disk()

    trio_of.rule.look(trio_of.nodes[0], [first])

    assert [] == trio_of.faults
