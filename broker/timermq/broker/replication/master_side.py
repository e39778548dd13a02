"""A broker's side towards its followers: their links, and all that waits for what they have.

A broker that listens for no follower pays nothing for it: store and answers ask for no replica.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from timermq.timerstore.message_store import MessageStore

from ..options import BrokerOptions
from ..server import Listener
from ..sockets import Sockets
from .epochs import FIRST_EPOCHS, EpochList
from .followers import Followers
from .ha_service import HaService
from .link_security import master_context, read_secret
from .master_link import MasterIdentity
from .role import BrokerRole, Role


class MasterSide:
    """Feeds followers, and lets the store wait for them.

    Args:
        options: Settings of the link, and what is asked of followers.
        store: Its log is replicated.
        followers: Of this broker.
        sockets: Know who is at the other end of a link.
        wake_readers: Has held pulls run again.
        listens: Whether followers can link: there is a listener, or streams are brought.
        role: The role that this broker has now.

    Raises:
        SecretError: The file of the secret cannot be used.
        TlsError: The certificates of the link cannot be used.
    """

    def __init__(
        self,
        options: BrokerOptions,
        store: MessageStore,
        followers: Followers,
        sockets: Sockets,
        *,
        role: Role,
        listens: bool,
        wake_readers: Callable[[], None],
    ) -> None:
        self.epochs: Callable[[], EpochList] = lambda: FIRST_EPOCHS
        """The epochs of the log, one at least."""
        self.listens = listens
        self._options = options
        self._followers = followers
        self._store = store
        self.service = HaService(
            options,
            MasterIdentity(
                broker_name=options.broker_name,
                secret=read_secret(options.ha_secret_file),
                epochs=lambda: self.epochs(),
            ),
            store,
            followers,
            sockets,
            context=master_context(options),
            is_master=lambda: role.feeds_followers,
        )
        self._role = role
        self._wake_readers = wake_readers
        self._has_led: bool | None = None
        """Whether the role that was taken last is that of a master."""
        self._take_role()
        role.on_change(self._take_role)
        if not listens:
            return
        store.pins.add("followers", followers.needed_from)
        followers.on_change(self._note_confirmed)
        store.refuse_by(followers.refusal)
        if not followers.is_confirmed_alone:
            store.confirm_by(followers.confirm_offset)
            followers.on_change(lambda: _dispatch(store))

    def _note_confirmed(self) -> None:
        in_sync = self._followers.in_sync
        if in_sync.members:
            self._store.note_confirmed(in_sync.confirm_offset)

    def _take_role(self) -> None:
        """Let answers wait as the role says; a broker that follows has no followers."""
        followers, role = self._followers, self._role
        followers.is_sync = role.role is BrokerRole.SYNC_MASTER
        if self.listens and role.is_master is not self._has_led:
            self._has_led = role.is_master
            if role.is_master:
                # One that followed may have led before, and have written what no other has.
                followers.hold_reads(self._store.commit_log.max_offset, self._wake_readers)
            else:
                followers.hold_reads_of_copy(self._wake_readers)
        if not self._role.feeds_followers:
            self.service.end_links("this broker follows another one now")

    async def run(
        self,
        listener: Listener | None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve followers until cancelled; without a listener, those that are brought."""
        await self.service.run(listener, task_status=task_status)

    async def drain(self) -> None:
        """Wait until every linked follower has the whole log."""
        await self.service.drain()


def _dispatch(store: MessageStore) -> None:
    store.dispatch()
