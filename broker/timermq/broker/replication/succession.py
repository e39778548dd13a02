"""Succession: which replica leads. A follower is promoted, a master hands over, or is fenced.

=================  =================================================================================
promotion          the follower copies no more, notes that it leads, begins an epoch at the end of
                   its log, and leads in the same step
planned switch     the master finishes what is under way and parks; the follower gets what is
                   missing and is promoted; the master follows it
fence              a master that learns of a higher epoch writes nothing more, notes who leads, and
                   ends: the next life of the broker follows, cut to what the new master has
=================  =================================================================================

The note is written before the role changes, so a process that ends in between goes on as it was
told to. A master that has come to lead tells the replicas that it knows, until each has heard it.

Source: Java ``ReplicasManager.changeBrokerRole``, ``AutoSwitchHAService.changeToMaster``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import attrs
import structlog
import trio

from timermq.pipeline.state.signal import Signal
from timermq.remoting.codes import ResponseCode
from timermq.remoting.epoch_report import EpochReport
from timermq.timerstore.message_store import MessageStore

from ..refusal import RefusedError
from ..security.log_limit import LogLimit
from .epochs import FIRST_EPOCHS, EpochFile, EpochList
from .ha_frames import FIRST_EPOCH, Epoch
from .next_life import CopyLink, EndLife, NextLife
from .replica_calls import NoReplicaError, ReplicaCalls, ReplicaRefusedError
from .role import BrokerRole, Role
from .role_note import RoleNote

BEHIND_MAX = 16 << 20
"""Bytes that a follower may be behind when its master hands over: it gets them while senders
wait."""
HANDOVER_WAIT = 10.0
"""Seconds that a follower waits for what is missing, before it refuses to lead."""
LOG_LOOK_INTERVAL = 0.005
"""Seconds between two looks at the end of the log meanwhile."""
ASK_INTERVAL = 0.2
"""Seconds between two questions to a follower that may lead by now."""
HANDOVER_ASK_MAX = 30.0
"""Seconds for which it is asked."""
TELL_INTERVAL = 1.0
"""Seconds before a replica that has not heard who leads is told again."""
TOLD_INTERVAL = 10.0
"""Seconds before one that has heard it is told again: it may have been started otherwise since."""

log = structlog.get_logger("timermq.broker.replication.succession")


@attrs.define(eq=False, kw_only=True)
class Succession:
    """The lead of one broker, and its changes."""

    cluster_name: str
    broker_name: str
    address: str
    """``host:port`` at which clients and other replicas reach this broker."""
    store: MessageStore
    role: Role
    epochs: EpochFile
    calls: ReplicaCalls
    link: Callable[[], CopyLink]
    """Gives the link to the master, of a follower."""
    lead: Callable[[BrokerRole, Callable[[], None]], Awaitable[None]]
    """Leads; the function is called in the step in which the role changes, before any write."""
    follow: Callable[[], Awaitable[None]]
    """Parks; returns when what was under way is written."""
    reign: Callable[[int], None]
    """Makes an epoch the state version of the tables."""
    end: EndLife
    """Ends this life of the broker."""
    followers: Callable[[], Sequence[str]]
    """Addresses of the followers that the broker's own name server knows."""
    stand_alone: Callable[[], None]
    """Lets answers wait for the fewest followers, or none, until there are as many as asked for."""
    promoted_role: BrokerRole = BrokerRole.ASYNC_MASTER
    """The role of a follower that was promoted."""
    note: RoleNote | None = None
    """As on the disk."""
    seen_epoch: int = attrs.field(default=-1, init=False)
    """The newest epoch that a master has told of."""
    claim: Callable[[bool], Awaitable[None]] | None = None
    """Waits until this broker leads by its lease, by force or not; None: there is no lease."""
    _turn: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Held while the role changes."""
    _suspects: set[str] = attrs.field(factory=set[str], init=False)
    _suspected: Signal = attrs.field(factory=Signal, init=False)
    _is_over: bool = attrs.field(default=False, init=False)
    """It has been fenced, or goes to another master."""
    _refusals: LogLimit = attrs.field(factory=LogLimit, init=False)

    def begin(self) -> None:
        """Go on as the note says, at the start; no record of its own is written before.

        A process that ended in the middle of a promotion has noted it: its epoch begins now.

        Raises:
            OSError: The disk refused.
        """
        note = self.note
        if note is not None and self.role.is_master:
            if self.epochs.epochs.last_number < note.epoch:
                self.epochs.begin(Epoch(note.epoch, self.store.commit_log.max_offset))
            self.reign(note.epoch)
            self.stand_alone()

    def begin_first(self) -> None:
        """Begin the first epoch of a master that others may follow; not where there is one.

        Raises:
            OSError: The disk refused.
        """
        if self.role.is_master and self.epochs.epochs.last is None:
            self.epochs.begin(FIRST_EPOCH)

    def told_epochs(self) -> EpochList:
        """The epochs of the log as followers are told of them: one at least."""
        return self.epochs.epochs if self.epochs.epochs.entries else FIRST_EPOCHS

    def report(self) -> EpochReport:
        """What other replicas are told of this one."""
        commit_log = self.store.commit_log
        return EpochReport(
            cluster_name=self.cluster_name,
            broker_name=self.broker_name,
            broker_id=self.role.broker_id,
            epochs=tuple((one.number, one.start) for one in self.epochs.epochs),
            min_offset=commit_log.min_offset,
            max_offset=commit_log.max_offset,
            master_address=self.role.master_address,
            follower_id=self._follower_id(),
        )

    def _follower_id(self) -> int | None:
        """Its id as a follower, of a master the one that it has left; None: it had none."""
        if not self.role.is_master:
            return self.role.follower_id
        return None if self.note is None else self.note.broker_id

    # -- to the lead ----------------------------------------------------------------------------

    async def promote(self, *, force: bool = False) -> EpochReport:
        """Let this follower lead: its master is gone.

        Args:
            force: Also where messages are known to be missing, or the master answers.

        Raises:
            RefusedError: It does not follow; or bytes are missing, or the master answers (604).

        Cancellation: it may lead, or not.
        """
        if self.claim is not None:
            self._check_follows()
            await self.claim(force)
            return self.report()
        async with self._turn:
            self._check_follows()
            if not force:
                await self._check_master_gone()
                self._check_complete()
            missing, begun = self.link().behind(), trio.current_time()
            # The first epoch is the master's, also where nothing was heard of it.
            await self._take_lead(FIRST_EPOCH.number)
            took_ms = round(1000 * (trio.current_time() - begun))
            number = self.epochs.epochs.last_number
            log.warning("promoted", epoch=number, missing_bytes=missing, took_ms=took_ms)
        return self.report()

    async def take_over(self, offset: int, epoch: int) -> EpochReport:
        """Let this follower lead: its master hands over, and writes nothing more.

        Args:
            offset: End of the master's log.
            epoch: The master's.

        Raises:
            RefusedError: It does not follow, or has not got there in time (604).

        Cancellation: as of ``promote``.
        """
        self._check_no_lease()
        async with self._turn:
            self._check_follows()
            commit_log = self.store.commit_log
            with trio.move_on_after(HANDOVER_WAIT):
                while commit_log.max_offset < offset:  # noqa: ASYNC110 - few times in its life
                    await trio.sleep(LOG_LOOK_INTERVAL)
            if commit_log.max_offset != offset:
                raise _refused(
                    "BEHIND",
                    f"expected a log up to {offset} within {HANDOVER_WAIT:.0f} s, found it up to "
                    f"{commit_log.max_offset}",
                )
            await self._take_lead(epoch)
            log.info("lead taken over", epoch=self.epochs.epochs.last_number)
        return self.report()

    async def lead_in(self, epoch: int) -> None:
        """Let this follower lead by its lease.

        Args:
            epoch: Above all that is known, or the last again, if no other broker led since.

        Cancellation: it leads all the same, soon.
        """
        async with self._turn:
            if epoch > self.epochs.epochs.last_number:
                await self._take_lead(epoch - 1)
                return
            await self.link().stop()
            await self.lead(self.promoted_role, lambda: None)

    def _check_no_lease(self) -> None:
        if self.claim is not None:
            raise _refused(
                "LEASE",
                f"{self.broker_name} at {self.address} leads and follows by a lease: a follower "
                "that is in sync takes the lead when the master is stopped",
            )

    def _check_follows(self) -> None:
        if self.role.is_master:
            raise _refused("NOT_A_FOLLOWER", f"{self.broker_name} at {self.address} leads already")

    async def _check_master_gone(self) -> None:
        master = self.role.master_address
        if master is None:
            return
        try:
            found = await self.calls.epochs(master)
        except NoReplicaError:
            return
        except ReplicaRefusedError:
            found = None
        if found is None or found.is_master:
            raise _refused(
                "MASTER_ANSWERS",
                f"the master at {master} answers: let it hand over (timermq demote {master}), or "
                "promote by force",
            )

    def _check_complete(self) -> None:
        if self.store.log_copy.is_empty:
            text = "nothing was copied: by force it leads without a message, and is not followed"
            raise _refused("EMPTY", f"{text} by the old master")
        missing = self.link().behind()
        if missing is None or missing > 0:
            size = "an unknown number of" if missing is None else f"{missing}"
            raise _refused(
                "BEHIND",
                f"{size} bytes of the master's log are missing here: wait, or promote by force "
                "and lose the messages in them",
            )

    async def _take_lead(self, seen_epoch: int) -> None:
        """Lead, in an epoch above all that is known."""
        number = max(self.epochs.epochs.last_number, self.seen_epoch, seen_epoch, 0) + 1
        master = self.role.master_address
        self._save(self._note(self.promoted_role, number, self.role.follower_id).with_peer(master))
        await self.link().stop()

        def begin() -> None:
            self.epochs.begin(Epoch(number, self.store.commit_log.max_offset))
            self.role.master_address = None
            self.stand_alone()
            # Before the role: name servers are told of both together.
            self.reign(number)

        await self.lead(self.promoted_role, begin)

    # -- from the lead --------------------------------------------------------------------------

    async def demote(self, to: str | None = None) -> EpochReport:
        """Hand the lead over to a follower, and follow it; clients are refused for a moment.

        Args:
            to: ``host:port`` of the follower; None: the only one that is known.

        Returns:
            What the new master says of itself.

        Raises:
            RefusedError: It does not lead; there is no such follower, or it is far behind, or
                refuses. Then this broker leads on (604).

        Cancellation: the follower may lead, or not.
        """
        self._check_no_lease()
        async with self._turn:
            if not self.role.is_master:
                raise _refused("NOT_A_MASTER", f"{self.broker_name} at {self.address} follows")
            to = self._follower() if to is None else to
            left_id = (await self._check_follower(to)).broker_id
            role, number = self.role.role, self.epochs.epochs.last_number
            self.role.is_handing_over = True
            try:
                await self.follow()
                offset = self.store.commit_log.max_offset
                found = await self._hand_over(to, offset, number)
            except ReplicaRefusedError as error:
                await self.lead(role, lambda: None)
                raise _refused("FOLLOWER_REFUSES", str(error)) from error
            except NoReplicaError as error:
                self._go_behind(to, number, left_id)
                raise _refused(
                    "HANDOVER",
                    f"{error}: it may lead or not, so this broker follows it: when it does not "
                    "lead, let this one lead again (timermq promote --force)",
                ) from error
            finally:
                self.role.is_handing_over = False
            self._go_behind(to, found.last_epoch, left_id)
            log.warning("handed over", to=to, epoch=found.last_epoch)
            return found

    def _go_behind(self, master: str, epoch: int, broker_id: int) -> None:
        """Follow a master, which has the whole log, in the next life, by the id that it leaves."""
        note = self._note(BrokerRole.SLAVE, epoch, broker_id, master)
        self._save(note.with_peer(master))
        self.role.master_address = master
        self._is_over = True
        self.end(NextLife(master=master, epoch=epoch), at_once=False)

    def _follower(self) -> str:
        found = self.followers()
        if len(found) != 1:
            raise _refused(
                "FOLLOWER",
                f"expected one follower, found {len(found)}: name the one that is to lead",
            )
        return found[0]

    async def _check_follower(self, to: str) -> EpochReport:
        try:
            found = await self.calls.epochs(to)
        except (NoReplicaError, ReplicaRefusedError) as error:
            raise _refused("FOLLOWER", str(error)) from error
        if found.is_master or found.broker_name != self.broker_name:
            raise _refused(
                "FOLLOWER",
                f"{to}: expected a follower of {self.broker_name}, found {found.broker_name} with "
                f"id {found.broker_id}",
            )
        behind = self.store.commit_log.max_offset - found.max_offset
        if behind > BEHIND_MAX:
            raise _refused(
                "BEHIND",
                f"{to}: expected at most {BEHIND_MAX} bytes to be missing there, found {behind}: "
                "wait until it has them",
            )
        return found

    async def _hand_over(self, to: str, offset: int, number: int) -> EpochReport:
        """Promote a follower; this broker stays parked as long as that may lead or not.

        Raises:
            ReplicaRefusedError: It does not lead.
            NoReplicaError: It does not answer any more.
        """
        try:
            return await self.calls.promote(to, offset=offset, epoch=number)
        except (NoReplicaError, ReplicaRefusedError) as error:
            log.warning("follower does not take the lead", to=to, error=str(error))
            failure = error
        with trio.move_on_after(HANDOVER_ASK_MAX):
            while True:
                try:
                    found = await self.calls.epochs(to)
                except NoReplicaError:
                    await trio.sleep(ASK_INTERVAL)
                    continue
                if found.is_master and found.last_epoch > number:
                    return found
                raise ReplicaRefusedError(to, ResponseCode.ILLEGAL_OPERATION, str(failure))
        raise NoReplicaError(f"{to}: {failure}")

    # -- fenced ---------------------------------------------------------------------------------

    def see(self, master: str, epoch: int) -> None:
        """Learn that a replica leads in an epoch; a higher one than this broker's ends its lead.

        A follower goes to that master if it follows another one.

        Raises:
            RefusedError: This broker knows a higher epoch, or leads in the same one (604).
        """
        own = self.epochs.epochs.last_number
        if master == self.address or self._is_over:
            return
        if epoch < own or (epoch == own and self.role.is_master):
            leader = self.address if self.role.is_master else self.role.master_address
            raise _refused(
                "LOWER_EPOCH",
                f"{master} says that it leads in epoch {epoch}: expected above {own}, in which "
                f"{leader or 'another one'} leads",
            )
        if not self.role.is_master and self.role.master_address == master:
            return
        # The id of a fenced master is found when it begins again (``start_role``).
        broker_id = None if self.role.is_master else self.role.follower_id
        note = self._note(BrokerRole.SLAVE, epoch, broker_id, master)
        self._save(note.with_peer(master))
        self._is_over = True
        log.error(
            "fenced: another replica leads" if self.role.is_master else "another master leads",
            master=master,
            epoch=epoch,
            own_epoch=own,
        )
        self.end(NextLife(master=master, epoch=epoch), at_once=True)

    def follow_again(self, master: str, epoch: int) -> None:
        """End this life of a follower: its log is to be cut before it goes on behind its master."""
        if not (self._is_over or self.role.is_master):
            self._is_over = True
            log.warning("the log is cut to what the master has", master=master, epoch=epoch)
            self.end(NextLife(master=master, epoch=epoch), at_once=True)

    async def look(self, address: str) -> None:
        """Ask a replica that may lead, and believe it if its epoch is higher."""
        try:
            found = await self.calls.epochs(address)
        except (NoReplicaError, ReplicaRefusedError):
            return
        is_higher = found.last_epoch > self.epochs.epochs.last_number
        if found.broker_name == self.broker_name and found.is_master and is_higher:
            self.see(address, found.last_epoch)

    def suspect(self, address: str) -> None:
        """Have a broker asked that a name server calls the master of this name."""
        self._suspects.add(address)
        self._suspected.set()

    async def run(self) -> None:
        """Tell other replicas that this one leads, while it does, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look_at_suspects)
            await self.role.run_while(is_master=True, work=self._tell_peers)

    async def _look_at_suspects(self) -> None:
        while True:
            await self._suspected.wait()
            while self._suspects:
                await self.look(self._suspects.pop())
            await trio.sleep(ASK_INTERVAL)

    async def _tell_peers(self) -> None:
        async with trio.open_nursery() as nursery:
            for peer in {*self._peers()} - {self.address}:
                nursery.start_soon(self._tell, peer)
            await trio.sleep_forever()

    async def _tell(self, peer: str) -> None:
        """Tell one replica, again and again."""
        while True:
            epoch, pause = self.epochs.epochs.last_number, TELL_INTERVAL
            try:
                await self.calls.tell(peer, master=self.address, epoch=epoch)
                pause = TOLD_INTERVAL
            except ReplicaRefusedError as error:
                await self.look(peer)
                is_ours = error.code in (ResponseCode.ILLEGAL_OPERATION, ResponseCode.NO_PERMISSION)
                if is_ours and not self._is_over and self._refusals.take():
                    log.error("a replica does not follow this master", reason=str(error))
            except NoReplicaError:
                pass
            await trio.sleep(pause)

    def replicas(self) -> list[str]:
        """Addresses of other replicas, as far as this one knows; some may come twice."""
        known = (self.role.master_address, *self.followers(), *self._peers())
        return [one for one in known if one is not None]

    def _note(
        self, role: BrokerRole, epoch: int, broker_id: int | None, master: str | None = None
    ) -> RoleNote:
        return RoleNote(
            role=role, epoch=epoch, master=master, peers=self._peers(), broker_id=broker_id
        )

    def _peers(self) -> tuple[str, ...]:
        return () if self.note is None else self.note.peers

    def _save(self, note: RoleNote) -> None:
        note.save(self.store.disk, self.store.root)
        self.note = note


def _refused(rule: str, text: str) -> RefusedError:
    return RefusedError(ResponseCode.ILLEGAL_OPERATION, rule, text)
