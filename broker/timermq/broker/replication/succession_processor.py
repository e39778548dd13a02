"""Requests about the lead: from operators (9030, 9031), and from other replicas (1007, 1008, 9032).

Source: Java ``AdminBrokerProcessor.getBrokerEpochCache``, ``notifyBrokerRoleChanged``.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from timermq.remoting.codes import RequestCode, ResponseCode
from timermq.remoting.command import Command
from timermq.remoting.replica_header import (
    DemoteHeader,
    LogDigestHeader,
    PromoteHeader,
    RoleChangeHeader,
)

from ..deferred_answers import answer_later
from ..dispatcher import Handler
from ..refusal import RefusedError
from ..session import Session
from .log_digest import DIGEST_SIZE_MAX, log_digest
from .succession import Succession


@attrs.frozen(eq=False)
class SuccessionProcessor:
    """Answers requests about the lead of one broker."""

    succession: Succession

    def handlers(self) -> Mapping[int, Handler]:
        """Request code to the method that answers it."""
        return {
            RequestCode.GET_BROKER_EPOCH_CACHE: self.epochs,
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED: self.role_changed,
            RequestCode.LOG_DIGEST: self.digest,
            RequestCode.PROMOTE: self.promote,
            RequestCode.DEMOTE: self.demote,
        }

    def epochs(self, _session: Session, command: Command) -> Command:
        """The epochs of this broker, its log and its role (1007)."""
        return command.answer(ResponseCode.SUCCESS, body=self.succession.report().encode())

    def role_changed(self, _session: Session, command: Command) -> Command:
        """Another replica leads: this one does not any more, unless its epoch is higher (1008)."""
        header = RoleChangeHeader.of(command)
        self.succession.see(header.master_address, header.master_epoch)
        return command.answer(ResponseCode.SUCCESS)

    def digest(self, _session: Session, command: Command) -> Command:
        """The digest of bytes of the log, for a follower that compares its own (9032)."""
        header = LogDigestHeader.of(command)
        log = self.succession.store.commit_log
        digest = log_digest(log, header.offset, header.size)
        if digest is None:
            raise RefusedError(
                ResponseCode.INVALID_PARAMETER,
                "LOG_RANGE",
                f"expected 1 to {DIGEST_SIZE_MAX} bytes from {log.min_offset} to {log.max_offset}, "
                f"found {header.size} at {header.offset}",
            )
        return command.answer(ResponseCode.SUCCESS, ext={"digest": digest})

    def promote(self, session: Session, command: Command) -> None:
        """Lead from here on: the master is gone, or hands over (9030)."""
        header = PromoteHeader.of(command)
        offset, epoch, force = header.offset, header.epoch, header.force

        async def promote() -> Command:
            if offset is None:
                report = await self.succession.promote(force=force)
            else:
                report = await self.succession.take_over(offset, epoch)
            return command.answer(ResponseCode.SUCCESS, body=report.encode())

        answer_later(session, command, promote)

    def demote(self, session: Session, command: Command) -> None:
        """Hand the lead over to a follower, and follow it (9031)."""
        to = DemoteHeader.of(command).to

        async def demote() -> Command:
            report = await self.succession.demote(to)
            return command.answer(ResponseCode.SUCCESS, body=report.encode())

        answer_later(session, command, demote)
