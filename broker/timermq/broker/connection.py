"""One client connection: bytes in, requests to the dispatcher, answers out.

From a socket the reactor receives, together with all others. Other streams are received from by a
task of the connection. Complete frames go to ``round_robin``, which has them worked on and queues
the answers. Another task sends those that did not go at once. Queuing is plain code: what a peer
leaves unread is bounded, and a peer that goes beyond is cut off. A peer that is only slow is not
read from meanwhile, nor is one whose requests wait for their turn, so it cannot cause more.

A peer that has closed its sending side still gets the answers that are under way, for a short time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog
import trio

from timermq.remoting.connection import DecodeSend, FrameConnection, Received, encode_frame
from timermq.remoting.send_run.send_v2 import decode_send_v2

from .dispatcher import Dispatcher
from .durable_answers import DurableAnswers
from .options import BrokerOptions
from .pool import Pools
from .reactor import Reactor
from .received_frames import ReceivedFrames
from .round_robin import RoundRobin
from .security.failed_logins import peer_of
from .security.tls import Tls
from .session import Answer, Session, pack_born_host
from .unread_answers import UnreadAnswers

READS_MAX = 8
"""Times that a ready socket is read in one round."""
LINGER = 5.0
"""Seconds that a peer has to take the last answers after it closed its sending side."""

log = structlog.get_logger("timermq.broker.connection")


class Connection:
    """A connection from its start to its end.

    Args:
        stream: The bytes.
        remote: Host and port of the peer.
        options: Limits.
        pools: What all connections share.
        dispatcher: Is told of the end.
        round_robin: Has the requests worked on.
        durable: Answers that wait for the disk; while there are too many, nothing is received.
        reactor: Receives from its sockets; from other streams the connection does.
        first_frame_size_max: Bytes of a frame before the first request that may be done.
        tls: Makes of the stream what its first byte says; None: it stays plain.
        decode_send: Reads the header of a send, with its signature where that is checked.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        remote: tuple[str, int],
        *,
        options: BrokerOptions,
        pools: Pools,
        dispatcher: Dispatcher,
        round_robin: RoundRobin,
        durable: DurableAnswers,
        reactor: Reactor,
        first_frame_size_max: int,
        decode_send: DecodeSend = decode_send_v2,
        tls: Tls | None = None,
    ) -> None:
        self._tls = tls
        self._stream = stream
        self._options = options
        self._dispatcher = dispatcher
        self._round_robin = round_robin
        self._durable = durable
        remote_address = f"{remote[0]}:{remote[1]}"
        peer = peer_of(remote_address)
        frames = FrameConnection(
            frame_size_max=min(first_frame_size_max, options.frame_size_max),
            decode_send=decode_send,
        )
        self._received = ReceivedFrames(frames, pools.frames, peer, remote_address)
        self._output = UnreadAnswers(pools.unread, peer, options.unread_output_size_max)
        self._output_added = trio.Event()
        self._progress = trio.Event()
        """Something was sent or worked on."""
        self._task_count = 0
        self._tasks: trio.Nursery | None = None
        self._is_sending = False
        self._sockets = reactor.sockets
        self._reactor = reactor
        self._file_number: int | None = None
        """The socket, while the reactor receives from it."""
        self._ended = trio.Event()
        self._rests = False
        """Nothing is received from this connection just now."""
        self._receiving = trio.CancelScope()
        self._whole = trio.CancelScope()
        self._reason = ""
        self.active_at = self._whole_at = trio.current_time()
        """trio's time of the last byte received or sent, and of the last whole request."""
        self.session = Session(
            remote_address=remote_address,
            born_host=pack_born_host(*remote),
            queue=self._queue,
            flush=self._flush,
            start_soon=self._start_soon,
            close=self.close,
            unread=lambda: self._output.size,
            has_room=lambda: self._output.has_room,
            when_room=self._output.when_room,
            peer=peer,
            opened_at=self.active_at,
            has_more=lambda: self._received.has_more,
            more=self._read_requests,
            waits=self._tell_progress,
        )

    async def run(self) -> None:
        """Serve the peer until it leaves, ``stop`` or ``close``; its mistakes stay in here."""
        try:
            with self._whole:
                async with trio.open_nursery() as nursery:
                    self._tasks = nursery
                    nursery.start_soon(self._send_output, name="connection output")
                    with self._receiving:
                        await self._receive_opened()
                    self._dispatcher.close(self.session)
                    with trio.move_on_after(LINGER):
                        await self._wait_sent()
                    nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            self._reason = self._reason or "connection lost"
        except* Exception:
            self._reason = self._reason or "failed"
            log.exception("connection failed", remote=self.session.remote_address)
        finally:
            self._dispatcher.close(self.session)
            self._round_robin.drop(self.session)
            self._file_number = None
            self._received.drop()
            self._output.drop()
            self.session.end()
            await trio.aclose_forcefully(self._stream)
            log.debug("closed", remote=self.session.remote_address, reason=self._reason)

    async def _receive_opened(self) -> None:
        """Receive what the peer sends, once it is known what it speaks."""
        if self._tls is not None:
            opened = await self._tls.open(self._stream, self.session.remote_address)
            if opened is None:
                self._reason = self._reason or "closed before the first request"
                return
            self._stream = opened
            self.active_at = trio.current_time()
        number = self._sockets.number_of(self._stream)
        if number is None:
            await self._receive()
        else:
            await self._receive_together(number)

    def stop(self) -> None:
        """Receive nothing more; answers under way are still sent, for a short time."""
        self._reason = self._reason or "broker stops"
        self._whole.deadline = trio.current_time() + LINGER
        self._receiving.cancel()

    def close(self, reason: str) -> None:
        """End the connection at once."""
        if not self._reason:
            self._reason = reason
            log.info("closing connection", remote=self.session.remote_address, reason=reason)
        self._whole.cancel()

    def receive_ready(self, size_max: int) -> tuple[Sequence[Received], int]:
        """Read the bytes that are there, for the reactor; an end or an error ends the connection.

        A busy producer's socket is read a few times: what a chunk costs is shared by more messages.

        Returns:
            The requests that are complete now, and the bytes read.
        """
        assert self._file_number is not None
        try:
            data = self._read_ready(self._file_number, size_max)
        except BlockingIOError:
            return (), 0
        except OSError:
            self._end("connection lost")
            return (), 0
        if not data:
            self._end("closed by peer")
            return (), 0
        self.active_at = trio.current_time()
        self._received.add(data)
        return self._read_requests(), len(data)

    def is_overdue(self, oldest: float) -> bool:
        """Whether nothing was received or sent since, or no request has become whole."""
        if self.active_at < oldest:
            return True
        return bool(self._received.size) and not self._rests and self._whole_at < oldest

    def _read_requests(self) -> Sequence[Received]:
        """The next requests that have come; bytes that are no frame end the connection."""
        received = self._received
        requests = received.requests(
            self._options.frame_size_max if self.session.is_known else None
        )
        if received.failure is not None:
            self._end(received.failure)
        if requests or not received.size:
            self._whole_at = self.active_at
        refusal = received.count()
        if refusal is not None:
            self.close(refusal)
        return requests

    def _read_ready(self, file_number: int, size_max: int) -> bytes:
        """At most ``READS_MAX`` reads and so many bytes, as long as each fills its buffer.

        Buffers stay small, because memory for large ones is mapped and unmapped each time.
        """
        size = min(self._options.receive_size, size_max)
        read = self._sockets.read
        data = read(file_number, size)
        if len(data) < size:
            return data
        parts = [data]
        # What ends the connection is met again in the next round, when this is answered.
        with contextlib.suppress(OSError):
            while len(data) == size and len(parts) < min(READS_MAX, size_max // size):
                data = read(file_number, size)
                parts.append(data)
        return b"".join(parts)

    async def _receive_together(self, file_number: int) -> None:
        """Let the reactor receive until the connection ends."""
        self._file_number = file_number
        self._reactor.add(file_number, self)
        try:
            await self._ended.wait()
        finally:
            self._reactor.remove(file_number)

    def _end(self, reason: str) -> None:
        """Receive no more; answers under way are still sent."""
        self._reason = self._reason or reason
        self._ended.set()

    async def _receive(self) -> None:
        receive_size = self._options.receive_size
        while not self._ended.is_set():
            data = await self._stream.receive_some(receive_size)
            if not data:
                self._end("closed by peer")
                return
            self.active_at = trio.current_time()
            self._received.add(bytes(data))
            self._round_robin.receive([(self.session, self._read_requests())])
            await self._durable.wait_room()
            self._tell_progress()
            while self._rests and not self._ended.is_set():
                await self._progress.wait()

    def _flush(self) -> None:
        """Send the queued frames: at once while the socket takes them, else by the output task."""
        if not self._output:
            return
        if self._file_number is None or self._is_sending:
            self._output.count()
            self._output_added.set()
        else:
            self._write_now(self._file_number)

    def _write_now(self, file_number: int) -> None:
        while self._output:
            data = self._output.take()
            try:
                size = self._sockets.write(file_number, data)
            except OSError:
                # It takes no more now, or never: the output task waits, or finds out.
                size = 0
            self._output.written(size, data[size:])
            if size < len(data):
                self._output_added.set()
                break
        self.active_at = trio.current_time()
        self._tell_progress()

    def _queue(self, answer: Answer) -> None:
        if self._whole.cancel_called:
            return
        try:
            data = answer if isinstance(answer, bytes) else encode_frame(answer)
        except Exception:
            # Any error: tasks of other connections send here too, and that of all connections;
            # they must not fail.
            log.exception("answer not encoded", remote=self.session.remote_address)
            self.close("an answer could not be encoded")
            return
        if not self._output.add(data):
            self.close(f"{self._output.size} bytes unread, no room for {len(data)} more")

    async def _send_output(self) -> None:
        while True:
            await self._output_added.wait()
            self._output_added = trio.Event()
            if not self._is_sending:
                await self._send_queued()

    async def _send_queued(self) -> None:
        self._is_sending = True
        while self._output:
            data = self._output.take()
            await self._stream.send_all(data)
            self._output.written(len(data))
            self.active_at = trio.current_time()
            self._tell_progress()
        self._is_sending = False

    def _tell_progress(self) -> None:
        """Something was sent or worked on: see what may go on."""
        self._progress.set()
        self._progress = trio.Event()
        has_room = self._output.has_room
        rests = bool(self.session.backlog) or self._received.has_more or not has_room
        if rests is not self._rests:
            self._rests = rests
            if self._file_number is not None:
                self._reactor.rest(self._file_number, rests=rests)
            if not rests:
                # It could not send the rest of a frame meanwhile.
                self._whole_at = trio.current_time()
        self._output.tell_room()
        if not has_room:
            # It may be others of its address who have to read: then nothing else tells of it.
            self._output.when_room(self._tell_progress)

    async def _wait_sent(self) -> None:
        """Wait for the answers under way: queued, awaiting their flush, or being worked out."""
        session = self.session
        self._output_added.set()
        while (
            self._output.size
            or session.unflushed
            or self._task_count
            or session.backlog
            or self._received.has_more
        ):
            await self._progress.wait()

    def _start_soon(self, work: Callable[[], Awaitable[None]]) -> bool:
        if self._tasks is None or self._task_count >= self._options.connection_tasks_max:
            return False
        self._task_count += 1
        self._tasks.start_soon(partial(self._run_task, work))
        return True

    async def _run_task(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        finally:
            self._task_count -= 1
            self._tell_progress()
