"""One client connection: bytes in, requests to the dispatcher, answers out.

From a socket the reactor receives, together with all others. Other streams are received from by a
task of the connection: it takes all complete frames of what came, hands them to the dispatcher
together and sends the answers, joined. A second task sends what is queued from elsewhere (held
pulls, flushed sends, notifications) and what a socket did not take at once. Only one of them sends
at a time, and whoever does takes what the other has queued along. Queuing is plain code: what a
peer leaves unread is bounded, and a peer that goes beyond is cut off. A peer that is only slow is
not read from meanwhile, so it cannot cause more.

A peer that has closed its sending side still gets the answers that are under way, for a short time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog
import trio

from timermq.remoting.connection import DecodeSend, FrameConnection, Received
from timermq.remoting.errors import RemoteProtocolError
from timermq.remoting.plain_send import decode_plain_send

from .answers import Answer
from .dispatcher import Dispatcher
from .durable_answers import DurableAnswers
from .options import BrokerOptions
from .reactor import Reactor
from .security.tls import Tls
from .session import Session, pack_born_host

READS_MAX = 8
"""Times that a ready socket is read in one round."""

JOIN_SIZE_MAX = 131_072
"""Bytes of small answers joined for one write; above, allocating costs more than it saves."""
LINGER = 5.0
"""Seconds that a peer has to take the last answers after it closed its sending side."""
REST_DIVISOR = 16
"""A connection rests when its peer leaves this part of the limit unread."""

log = structlog.get_logger("timermq.broker.connection")


class Connection:
    """A connection from its start to its end.

    Args:
        stream: The bytes.
        remote: Host and port of the peer.
        options: Limits.
        dispatcher: Does the work.
        durable: Answers that wait for the disk; while there are too many, nothing is received.
        reactor: Receives from its sockets; from other streams the connection does.
        tls: Makes of the stream what its first byte says; None: it stays plain.
        decode_send: Reads the header of a plain send, with its signature where that is checked.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        remote: tuple[str, int],
        *,
        options: BrokerOptions,
        dispatcher: Dispatcher,
        durable: DurableAnswers,
        reactor: Reactor,
        decode_send: DecodeSend = decode_plain_send,
        tls: Tls | None = None,
    ) -> None:
        self._tls = tls
        self._stream = stream
        self._options = options
        self._dispatcher = dispatcher
        self._durable = durable
        self._frames = FrameConnection(
            frame_size_max=options.frame_size_max, decode_send=decode_send
        )
        self._output: list[bytes] = []
        self._output_size = 0
        self._output_added = trio.Event()
        self._output_sent = trio.Event()
        self._task_count = 0
        self._tasks: trio.Nursery | None = None
        self._is_sending = False
        self._is_stopping = False
        self._sockets = reactor.sockets
        self._reactor = reactor
        self._file_number: int | None = None
        """The socket, while the reactor receives from it."""
        self._ended = trio.Event()
        self._rests = False
        """The reactor does not receive from this connection just now."""
        self._rest_size = options.unread_output_size_max // REST_DIVISOR
        self._sends_itself = False
        """The receiving task is sending: to cancel it now would cut a frame in two."""
        self._receiving = trio.CancelScope()
        self._whole = trio.CancelScope()
        self._reason = ""
        self.active_at = trio.current_time()
        """trio's time of the last byte received or sent."""
        self.session = Session(
            remote_address=f"{remote[0]}:{remote[1]}",
            born_host=pack_born_host(*remote),
            queue=self._queue,
            flush=self._flush,
            start_soon=self._start_soon,
            close=self.close,
            unread=lambda: self._output_size,
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
            self._file_number = None
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
        """Receive nothing more; what is under way is still sent, for a short time."""
        self._reason = self._reason or "broker stops"
        self._is_stopping = True
        self._whole.deadline = trio.current_time() + LINGER
        if not self._sends_itself:
            self._receiving.cancel()

    def close(self, reason: str) -> None:
        """End the connection at once."""
        if not self._reason:
            self._reason = reason
            log.info("closing connection", remote=self.session.remote_address, reason=reason)
        self._whole.cancel()

    def receive_ready(self) -> tuple[Sequence[Received], int]:
        """Read what is there, for the reactor; an end or an error ends the connection.

        A busy producer's socket is read a few times: what a chunk costs is shared by more messages.

        Returns:
            The requests that are complete now, and the bytes read.
        """
        assert self._file_number is not None
        try:
            data = self._read_ready(self._file_number)
        except BlockingIOError:
            return (), 0
        except OSError:
            self._end("connection lost")
            return (), 0
        if not data:
            self._end("closed by peer")
            return (), 0
        self.active_at = trio.current_time()
        requests: Sequence[Received] = ()
        if self._frames.failure is None:
            self._frames.receive_data(data)
            requests = self._read_requests()
        failure = self._frames.failure
        if failure is not None:
            log.warning("broken frame", remote=self.session.remote_address, reason=failure.remark)
            self._end(failure.remark)
        return requests, len(data)

    def _read_requests(self) -> Sequence[Received]:
        """What has come as requests. The task that reads this connection reads all others, too.

        So a mistake of ours in reading ends the connection alone.
        """
        try:
            return self._frames.requests()
        except RemoteProtocolError:
            return ()
        except Exception:
            log.exception("connection failed", remote=self.session.remote_address)
            self._end("failed")
            return ()

    def _read_ready(self, file_number: int) -> bytes:
        """At most ``READS_MAX`` reads, as long as each fills its buffer.

        Buffers stay small, because memory for large ones is mapped and unmapped each time.
        """
        size = self._options.receive_size
        read = self._sockets.read
        data = read(file_number, size)
        if len(data) < size:
            return data
        parts = [data]
        # What ends the connection is met again in the next round, when this is answered.
        with contextlib.suppress(OSError):
            while len(data) == size and len(parts) < READS_MAX:
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
        rest_size = self._rest_size
        while not self._is_stopping:
            data = await self._stream.receive_some(receive_size)
            if not data:
                self._reason = self._reason or "closed by peer"
                return
            self.active_at = trio.current_time()
            try:
                self._frames.receive_data(bytes(data))
                # Once more after the last frame: what follows it may be broken.
                while requests := self._frames.requests():
                    for answer in self._dispatcher.handle(self.session, requests):
                        self._queue(answer)
            except RemoteProtocolError as error:
                self._reason = error.remark
                log.warning("broken frame", remote=self.session.remote_address, reason=error.remark)
                return
            if self._output and not self._is_sending:
                self._sends_itself = True
                await self._send_queued()
                self._sends_itself = False
            await self._durable.wait_room()
            while self._output_size > rest_size:
                await self._output_sent.wait()

    def _flush(self) -> None:
        """Let go what is queued: at once as far as the socket takes it, else by the output task."""
        if self._is_sending or not self._output:
            return
        if self._file_number is None:
            self._output_added.set()
        else:
            self._write_now(self._file_number)

    def _write_now(self, file_number: int) -> None:
        while self._output:
            data = self._take_output()
            try:
                size = self._sockets.write(file_number, data)
            except OSError:
                # It takes no more now, or never: the output task waits, or finds out.
                size = 0
            self._output_size -= size
            if size < len(data):
                self._output.insert(0, data[size:])
                self._output_added.set()
                break
        self.active_at = trio.current_time()
        self._tell_sent()

    def _queue(self, answer: Answer) -> None:
        if self._whole.cancel_called:
            return
        try:
            data = answer if isinstance(answer, bytes) else self._frames.encode(answer)
        except Exception:
            # Whatever it is: who sends from another connection's task, or from that of all
            # connections, must not fall over it.
            log.exception("answer not encoded", remote=self.session.remote_address)
            self.close("an answer could not be encoded")
            return
        if self._output_size >= self._options.unread_output_size_max:
            self.close(f"{self._output_size} bytes unread, no room for {len(data)} more")
            return
        self._output.append(data)
        self._output_size += len(data)

    async def _send_output(self) -> None:
        while True:
            await self._output_added.wait()
            self._output_added = trio.Event()
            if not self._is_sending:
                await self._send_queued()

    async def _send_queued(self) -> None:
        self._is_sending = True
        while self._output:
            data = self._take_output()
            await self._stream.send_all(data)
            self._output_size -= len(data)
            self.active_at = trio.current_time()
            self._tell_sent()
        self._is_sending = False

    def _tell_sent(self) -> None:
        self._output_sent.set()
        self._output_sent = trio.Event()
        rests = self._output_size > self._rest_size
        if rests is not self._rests and self._file_number is not None:
            self._rests = rests
            self._reactor.rest(self._file_number, rests=rests)

    def _take_output(self) -> bytes:
        """The next answers, joined; a large one goes alone."""
        size = 0
        for count, data in enumerate(self._output):
            size += len(data)
            if size > JOIN_SIZE_MAX:
                taken = max(count, 1)
                break
        else:
            taken = len(self._output)
        first, self._output = self._output[:taken], self._output[taken:]
        return first[0] if taken == 1 else b"".join(first)

    async def _wait_sent(self) -> None:
        """Wait for the answers under way: queued, awaiting their flush, or being worked out."""
        self._output_added.set()
        while self._output_size or self.session.unflushed or self._task_count:
            await self._output_sent.wait()

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
            self._tell_sent()
