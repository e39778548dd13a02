"""A blocking connection: what is retried, and who is to blame for what is not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import attrs
import pytest

from timermq.pipeline.spark import SparkJobError
from timermq.pipeline.spark.errors import BulkRefusedError
from timermq.pipeline.spark.sink import SinkOptions
from timermq.pipeline.spark.sink.broker_link import BrokerLink, Patience
from timermq.remoting import Command, FrameConnection, ResponseCode, encode_frame

Answers = Iterator[Command | bytes | None]
ASKED = Command(9020)


def success(remark: str = "") -> Command:
    """An answer that says yes."""
    return Command(ResponseCode.SUCCESS, remark=remark)


@contextmanager
def peer(*answers: Command | bytes | None) -> Generator[str]:
    """A server that gives one answer to a request; None: it closes the connection in its place."""
    left = iter(answers)
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, left), daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def _serve(server: socket.socket, answers: Answers) -> None:
    while True:
        try:
            stream, _ = server.accept()
        except OSError:
            return
        with stream:
            _answer(stream, answers)


def _answer(stream: socket.socket, answers: Answers) -> None:
    frames = FrameConnection()
    while data := stream.recv(65_536):
        frames.receive_data(data)
        for request in frames.events():
            answer = next(answers)
            if answer is None:
                return
            if isinstance(answer, Command):
                answer = encode_frame(
                    attrs.evolve(
                        request.answer(answer.code), remark=answer.remark, body=answer.body
                    )
                )
            stream.sendall(answer)


@attrs.define
class Clock:
    """Time that only sleeping moves."""

    now: float = 0.0
    pauses: list[float] = attrs.Factory(list[float])

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass at once, and note the pause."""
        self.now += seconds
        self.pauses.append(seconds)


def patience(clock: Clock, seconds: float = 1.0) -> Patience:
    """Some, by a staged clock."""
    return Patience(seconds=seconds, now=lambda: clock.now, sleep=clock.sleep)


def refused(call: Callable[[], object]) -> str:
    """The error of a call."""
    with pytest.raises(SparkJobError) as raised:
        call()
    return str(raised.value)


def test_a_lost_answer_is_asked_for_again() -> None:
    """The connection breaks behind the first answer: the next request opens another one."""
    clock = Clock()
    with (
        peer(success("one"), None, None, success("two")) as address,
        BrokerLink(address, patience=patience(clock)) as link,
    ):
        assert ["one", "two"] == [link.call(ASKED).remark for _ in range(2)]
    assert [0.25, 0.25] == clock.pauses


def test_a_busy_broker_is_asked_again() -> None:
    """As long as the patience lasts; then its remark is told."""
    clock = Clock()
    busy = Command(ResponseCode.SYSTEM_BUSY, remark="BULK_DISK: full")
    with (
        peer(busy, success("done"), *[busy] * 9) as address,
        BrokerLink(address, patience=patience(clock)) as link,
    ):
        assert "done" == link.call(ASKED).remark
        with pytest.raises(BulkRefusedError) as raised:
            link.call(ASKED)
    assert "BULK_DISK" == raised.value.rule
    assert str(raised.value).endswith("request 9020 was refused: BULK_DISK: full")
    assert 5 == len(clock.pauses)


def test_a_refusal_is_final() -> None:
    """Nothing is gained by asking again."""
    clock = Clock()
    with (
        peer(Command(ResponseCode.INVALID_PARAMETER, remark="BULK_JOB: none")) as address,
        BrokerLink(address, patience=patience(clock)) as link,
        pytest.raises(BulkRefusedError, match="BULK_JOB: none"),
    ):
        link.call(ASKED)
    assert [] == clock.pauses


def test_a_broker_without_bulk_scheduling() -> None:
    """RocketMQ's brokers, and name servers, do not know these requests."""
    answer = Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="no such code")
    with peer(answer) as address, BrokerLink(address) as link:
        assert refused(lambda: link.call(ASKED)).endswith(
            "no such code; bulk scheduling is known to brokers of timermq, not to name servers"
        )


def test_no_broker_at_all() -> None:
    """Another server's bytes are no frame, and are not asked for again."""
    with peer(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address, BrokerLink(address) as link:
        text = refused(lambda: link.call(ASKED))

    assert text.startswith(f"broker {address}: expected a broker there, found something else: ")


def test_no_broker_there() -> None:
    """Who has never answered is not waited for."""
    clock = Clock()
    with peer() as address:
        pass
    text = refused(lambda: BrokerLink(address, patience=patience(clock)).call(ASKED))

    assert f"broker {address}: expected an answer to request 9020, found: connection refused; " in (
        text
    )
    assert [] == clock.pauses


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:0", "host:65536", "h:1x"])
def test_addresses(address: str) -> None:
    """What is no HOST:PORT is refused before anything is opened."""
    assert f"option broker: expected HOST:PORT, found {address!r}" == refused(
        lambda: BrokerLink(address)
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"h:1"}}}}', "h:1"),
        (b'{"brokerAddrTable":{"a":{"brokerAddrs":{"0":"h:1","1":"h:2"}}}}', "h:1"),
        (b'{"brokerAddrTable":{}}', "expected one broker, found 0"),
        (
            b'{"brokerAddrTable":{"a":{"brokerAddrs":{"0":"h:1"}},"b":{"brokerAddrs":{"0":"h:2"}}}}',
            "expected one broker, found 2 (h:1, h:2): choose by the option broker",
        ),
        (b"<html>", "expected a cluster info: "),
    ],
)
def test_brokers_of_a_name_server(body: bytes, text: str) -> None:
    """A job goes to one broker; of several somebody has to choose one."""
    with peer(attrs.evolve(success(), body=body)) as address:
        options = SinkOptions(namesrv=address, job="J")
        if text.startswith("h:"):
            assert text == BrokerLink.of(options).address
        else:
            assert text in refused(lambda: BrokerLink.of(options))
