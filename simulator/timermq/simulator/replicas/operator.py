"""The operator of replicas: looks who leads, promotes a follower, has a master hand over."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio

from timermq.broker.replication.epochs import EpochFile
from timermq.remoting import Command, FrameConnection, RequestCode, ResponseCode
from timermq.remoting.replica_header import DemoteHeader, PromoteHeader
from timermq.remoting.request_header import RequestHeader

from ..process import ROOT
from .replica_process import ReplicaNode

ANSWER_SECONDS = 60.0
"""A handover takes half of it at most."""
LOOK_SECONDS = 0.5
TRIES_MAX = 200
"""Looks until a follower has to be there, or has to lead."""


@attrs.frozen(eq=False)
class Operator:
    """The operator of one cluster, who reaches every broker that serves."""

    nodes: Sequence[ReplicaNode]

    def leaders(self) -> list[ReplicaNode]:
        """The brokers that lead, the one of the highest epoch first."""
        found = [one for one in self.nodes if one.broker is not None and _leads(one)]
        return sorted(found, key=lambda one: _place(one)[0], reverse=True)

    def leader(self) -> ReplicaNode | None:
        """The one of the highest epoch; None where none leads."""
        return next(iter(self.leaders()), None)

    def in_sync(self, leader: ReplicaNode) -> list[ReplicaNode]:
        """The followers that `timermq cluster status` shows as in sync, with anything in them.

        One with an empty log has no epoch in common with its master: led by it that cannot follow.
        A lease does not ask for that.
        """
        broker = leader.broker
        if broker is None or broker.tables.followers.is_short_handed:
            return []
        ids = {one.broker_id for one in broker.tables.followers.rows() if one.is_in_sync}
        return [
            one
            for one in self.nodes
            if one is not leader
            and one.broker is not None
            and not _leads(one)
            and one.broker.options.follower_id in ids
            and (one.broker.store.commit_log.max_offset or broker.lease is not None)
        ]

    async def promote(self, nodes: Sequence[ReplicaNode]) -> ReplicaNode | None:
        """Promote the follower that has most: its log ends last, in the newest epoch.

        It is promoted by force where it does not know that it has all: the caller knows it.

        Args:
            nodes: Those that may lead.

        Returns:
            The one that leads; None when that takes too long.
        """
        for _ in range(TRIES_MAX):
            served = [one for one in nodes if one.broker is not None]
            if len(served) < len(nodes):
                await trio.sleep(LOOK_SECONDS)
                continue
            best = max(served, key=_place)
            if _leads(best):
                return best
            for force in (False, True):
                answer = await self.ask(best, RequestCode.PROMOTE, PromoteHeader(force=force))
                if answer is None or answer.code == ResponseCode.SUCCESS:
                    break
            await trio.sleep(LOOK_SECONDS)
        return None

    def lead_began(self, node: ReplicaNode) -> int:
        """The position at which the newest epoch of a broker begins, as its disk has it."""
        last = EpochFile(node.disk, ROOT).epochs.last
        return 0 if last is None else last.start

    async def demote(self, node: ReplicaNode, to: ReplicaNode) -> None:
        """Have a master hand over; it may refuse."""
        await self.ask(node, RequestCode.DEMOTE, DemoteHeader(to=to.ports.address))

    async def ask(
        self, node: ReplicaNode, code: RequestCode, header: RequestHeader
    ) -> Command | None:
        """Ask a broker; None without an answer."""
        frames = FrameConnection()
        with trio.move_on_after(ANSWER_SECONDS):
            try:
                async with await node.ports.main.connect() as stream:
                    await stream.send_all(
                        frames.encode(Command(code, opaque=1, ext=header.to_ext()))
                    )
                    while data := await stream.receive_some():
                        frames.receive_data(data)
                        for answer in frames.events():
                            if answer.is_response:
                                return answer
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                return None
        return None


def _leads(node: ReplicaNode) -> bool:
    return node.broker is not None and node.broker.role.is_master


def _place(node: ReplicaNode) -> tuple[int, int]:
    """How far a broker is: its newest epoch, and the end of its log."""
    assert node.broker is not None
    return (
        node.broker.succession.epochs.epochs.last_number,
        node.broker.store.commit_log.max_offset,
    )
