"""The links of a master's followers: accepted, read, fed with the log, closed.

Two tasks a link: one takes the follower's reports, the other sends what the log has grown by.
Errors of a link, and its peer's mistakes, end that link alone; refusals are told once a minute for
each rule.

Source: Java ``DefaultHAService``, ``DefaultHAConnection``.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import partial

import structlog
import trio

from timermq.pipeline.state.signal import Signal
from timermq.timerstore.message_store import MessageStore

from ..security.log_limit import LogLimit
from ..server import Listener
from ..sockets import Sockets
from .followers import FollowerRow, Followers
from .link_refusal import LinkRefusedError
from .link_security import plain_refusal
from .master_link import Frame, MasterIdentity, MasterLink
from .replication_options import ReplicationOptions

RECEIVE_SIZE = 65_536
"""Bytes read from a link at a time; a report has eight or twelve."""

JOINED_SIZE = 16_384
"""A frame of fewer bytes is copied behind its head and sent in one piece."""

NEED_SIZE = 8 << 20
"""Bytes of the log that are announced to the disk at a time, for followers that are behind."""

CONFIRM_PAUSE = 0.1
"""Seconds without a frame after which a new confirm offset is sent in a heartbeat."""

CLOSE_TIMEOUT = 1.0
"""Seconds for the refusal to reach a peer."""

TLS_TIMEOUT = 10.0
"""Seconds from the first byte to the end of the handshake of TLS, and for the first byte."""

LOOK_INTERVAL = 1.0
"""Seconds between two looks at who is in sync."""

LinkWork = Callable[[MasterLink, trio.abc.Stream, Signal], Awaitable[None]]
"""One of a link's two tasks."""

_TLS_BYTE = b"\x16"
"""The first byte of TLS. A report that began so would be of a log of an exbibyte and a half."""

log = structlog.get_logger("timermq.broker.replication.ha_service")


class HaService:
    """All links of one master.

    Args:
        options: Limits and intervals.
        identity: What the master says of itself.
        store: Its log is sent.
        followers: Told of all that happens.
        sockets: Know who is at the other end.
        context: TLS with followers; None: it is not spoken.
        is_master: Whether this broker leads now; while it does not, peers may read at most.
    """

    def __init__(
        self,
        options: ReplicationOptions,
        identity: MasterIdentity,
        store: MessageStore,
        followers: Followers,
        sockets: Sockets,
        *,
        context: ssl.SSLContext | None = None,
        is_master: Callable[[], bool] = lambda: True,
    ) -> None:
        self.followers = followers
        self.refused = 0
        """Links that were refused, so far."""
        self._options = options
        self._identity = identity
        self._store = store
        self._sockets = sockets
        self._context = context
        self._is_master = is_master
        self._links: dict[Signal, Callable[[str], None]] = {}
        """What wakes the sender of a link, and what ends the link."""
        self._log_limits: dict[str, LogLimit] = {}
        self._changed = trio.lowlevel.ParkingLot()
        followers.on_change(self._note_change)

    def rows(self) -> list[FollowerRow]:
        """The followers, as operators see them."""
        return self.followers.rows()

    async def run(
        self,
        listener: Listener | None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept and feed followers until cancelled; links and listener are closed then.

        Args:
            listener: Bound; without one, streams come through ``serve`` alone.
            task_status: Started when links are accepted.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_log, name="followed log")
            nursery.start_soon(self._watch_set, name="replicas in sync")
            if listener is not None:
                accept = partial(
                    trio.serve_listeners,
                    self._serve_accepted,
                    [listener],
                    handler_nursery=nursery,
                )
                await nursery.start(accept)
            task_status.started()

    def end_links(self, reason: str) -> None:
        """End all links: this broker leads no more."""
        for end in list(self._links.values()):
            end(reason)

    async def drain(self) -> None:
        """Wait until every follower that is linked has the whole log.

        Cancellation: nothing has changed.
        """
        while (had := self.followers.acknowledged_by_all()) is not None:
            if had >= self._store.commit_log.max_offset:
                break
            await self._changed.park()
        await trio.lowlevel.checkpoint()

    def _note_change(self) -> None:
        if self._changed:
            self._changed.unpark_all()

    async def _watch_log(self) -> None:
        """Wake the senders whenever the log has grown."""
        while True:
            await self._store.wait_appended()
            for wake in self._links:
                wake.set()

    async def _watch_set(self) -> None:
        """Look who is in sync, as time passes too."""
        followers = self.followers
        while True:
            with trio.move_on_after(LOOK_INTERVAL):
                while followers.guard is None or not followers.is_agreement_due:
                    await self._changed.park()
            followers.update()
            if followers.is_agreement_due:
                await followers.agree()

    # -- one link -----------------------------------------------------------------------------

    async def _serve_accepted(self, stream: trio.abc.Stream) -> None:
        try:
            host, port = self._sockets.peer_of(stream)
        except OSError:  # reset before it was accepted
            await trio.aclose_forcefully(stream)
        else:
            await self.serve(stream, (host, port))

    async def serve(self, stream: trio.abc.Stream, remote: tuple[str, int]) -> None:
        """Serve one link until it ends; its errors end no other one.

        Args:
            stream: The bytes; closed at the end.
            remote: Host and port of the peer.
        """
        address = f"{remote[0]}:{remote[1]}"
        wake = Signal()
        reason = "closed by the follower"
        try:
            limit = self._options.ha_followers_max
            if len(self._links) >= limit:
                raise LinkRefusedError(
                    "HA_FOLLOWERS_MAX", f"expected {limit} links at most (ha_followers_max)"
                )
            self._links[wake] = _nothing
            secure = await self._open(stream)
            if secure is not None:
                reason = await self._serve_opened(secure, remote, wake)
        except LinkRefusedError as error:
            self._tell_refusal(error, address)
            return
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            reason = f"link lost: {str(error) or type(error).__name__}"
        except Exception as error:
            reason = f"failed: {error!r}"
            log.exception("link failed", remote=address)
        finally:
            self._links.pop(wake, None)
            await trio.aclose_forcefully(stream)
        log.info("link of a follower ended", remote=address, reason=reason)

    async def _open(self, stream: trio.abc.Stream) -> trio.abc.Stream | None:
        """Wait for the first byte, and speak TLS if it begins one; None at the end."""
        seconds = self._options.ha_housekeeping_interval_ms / 1000
        with trio.move_on_after(seconds) as waiting:
            first = await self._sockets.first_byte(stream)
            if first != _TLS_BYTE:
                return stream if first != b"" else None
        if waiting.cancelled_caught:
            return None
        if self._context is None:
            raise LinkRefusedError(
                "HA_TLS", "expected no TLS without ha_tls_cert_path, found the beginning of TLS"
            )
        secure = trio.SSLStream(stream, self._context, server_side=True, https_compatible=True)
        try:
            with trio.fail_after(TLS_TIMEOUT):
                await secure.do_handshake()
        except trio.TooSlowError:
            raise LinkRefusedError("HA_TLS", "handshake not finished in time") from None
        except trio.BrokenResourceError as error:
            cause = error.__cause__
            said = cause.reason if isinstance(cause, ssl.SSLError) else "closed"
            raise LinkRefusedError("HA_TLS", f"handshake failed: {said}") from None
        return secure

    async def _serve_opened(
        self, stream: trio.abc.Stream, remote: tuple[str, int], wake: Signal
    ) -> str:
        """Feed a follower until the link ends; gives the reason.

        Raises:
            LinkRefusedError: It cannot follow, and was told so if it understands that.
        """
        address, reasons = f"{remote[0]}:{remote[1]}", list[str]()
        refused: LinkRefusedError | None = None
        async with trio.open_nursery() as nursery:

            def end(reason: str) -> None:
                reasons.append(reason)
                nursery.cancel_scope.cancel()

            self._links[wake] = end
            is_plain = not isinstance(stream, trio.SSLStream)
            link = MasterLink(
                self._identity,
                self._store.commit_log,
                self.followers,
                address,
                end,
                plain_refusal(self._options, remote[0]) if is_plain else None,
                self._bar(),
            )

            async def until_refused(work: LinkWork) -> None:
                nonlocal refused
                try:
                    await work(link, stream, wake)
                    end("closed by the follower")
                except LinkRefusedError as error:
                    refused = error
                    end(error.name)
                except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    end(f"link lost: {str(error) or type(error).__name__}")

            nursery.start_soon(until_refused, self._send)
            try:
                await until_refused(self._receive)
            finally:
                link.ended()
        if refused is not None:
            told = link.refusal(refused)
            with trio.move_on_after(CLOSE_TIMEOUT):
                if told:
                    await stream.send_all(told)
            raise refused
        return reasons[0] if reasons else "closed"

    def _bar(self) -> LinkRefusedError | None:
        if self._is_master():
            return None
        return LinkRefusedError(
            "HA_NOT_MASTER", "this broker follows another one itself: follow that one"
        )

    async def _receive(self, link: MasterLink, stream: trio.abc.Stream, wake: Signal) -> None:
        """Take reports until the peer ends the link."""
        while True:
            seconds = self._options.ha_housekeeping_interval_ms / 1000
            data: bytes | None = None
            with trio.move_on_after(seconds):
                data = bytes(await stream.receive_some(RECEIVE_SIZE))
            if data is None:
                raise LinkRefusedError(
                    "HA_SILENT", f"expected a report within {seconds:g} s, found none"
                )
            if not data:
                return
            follows = link.follower is not None
            link.receive(data)
            if link.follower is not None and not follows:
                log.info(
                    "the log is read" if link.is_learner else "a follower is linked",
                    remote=link.follower.address,
                    broker_id=link.follower.broker_id,
                    begins_at=link.follower.begun_from,
                    log_end=self._store.commit_log.max_offset,
                )
            if link.replies or not follows or link.has_news:
                wake.set()

    async def _send(self, link: MasterLink, stream: trio.abc.Stream, wake: Signal) -> None:
        """Send what the log grows by, and heartbeats."""
        options = self._options
        sent_at = trio.current_time()
        announced = 0
        while True:
            link.is_sending = True
            while link.replies:
                await stream.send_all(link.replies.pop(0))
            link.is_sending = False
            frame = link.next_frame(options.ha_transfer_batch_size)
            if frame is None:
                pause = sent_at + options.ha_send_heartbeat_interval_ms / 1000
                pause -= trio.current_time()
                if link.has_news:
                    pause = min(pause, CONFIRM_PAUSE)
                if pause > 0 and await wake.wait_at_most(pause):
                    continue
                sent_at = trio.current_time()
                frame = link.heartbeat()
                if frame is None:
                    continue
            elif frame.offset + frame.size > announced:
                announced = self._announce(frame)
            # Noted before it has gone: its acknowledgement may come while the rest of it goes.
            link.sent(frame)
            link.is_sending = True
            await self._send_frame(stream, frame)
            link.is_sending = False
            sent_at = trio.current_time()

    def _announce(self, frame: Frame) -> int:
        """Have the disk read on behind a frame, if there is more to come; up to where that is."""
        commit_log = self._store.commit_log
        size = min(NEED_SIZE, commit_log.max_offset - frame.offset)
        if size > frame.size:
            commit_log.will_need([(frame.offset, size)])
        return frame.offset + size

    async def _send_frame(self, stream: trio.abc.Stream, frame: Frame) -> None:
        segment = self._store.commit_log.segment_at(frame.offset)
        if not frame.size or segment is None:
            await stream.send_all(frame.head)
            return
        # Read, not mapped: the first touch of each page of a map takes longer than to copy it.
        body = segment.file.read(frame.offset - segment.start, frame.size)
        if frame.size < JOINED_SIZE:
            await stream.send_all(frame.head + body)
        else:
            await stream.send_all(frame.head)
            await stream.send_all(body)

    def _tell_refusal(self, error: LinkRefusedError, address: str) -> None:
        self.refused += 1
        limit = self._log_limits.setdefault(error.name, LogLimit())
        if count := limit.take():
            log.warning(
                "follower refused", rule=error.name, reason=error.text, remote=address, count=count
            )


def _nothing(_reason: str) -> None:
    """Nothing to end yet: the peer has not said a byte."""
