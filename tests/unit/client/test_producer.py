"""The producer against scripted servers: what goes wrong, and what is said about it."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from scripted_server import (
    BROKER,
    Handler,
    Network,
    always,
    joined_routes,
    name_server,
    route,
    silent,
)
from timermq.client import (
    BrokerRefusedError,
    ClientError,
    ConnectionLostError,
    MalformedAnswerError,
    NoAnswerError,
    NoRouteError,
    OutgoingMessage,
    Producer,
    RequestTimeoutError,
    SendReceipt,
    Verdict,
)
from timermq.client.send_frames import BATCH_COUNT_MAX
from timermq.pipeline.admission.recall_handle import encode_handle
from timermq.remoting import Coding, Command
from timermq.remoting.send_batch import SendItem, SendItemResult, decode_items, encode_results

NAMESRV = "ns:9876"
OTHER_BROKER = "b:10911"


def result(item: SendItem, offset: int) -> SendItemResult:
    """What a broker says about one message: a body that begins with ``bad`` is refused."""
    is_bad = item.body.startswith(b"bad")
    return SendItemResult(
        code=13 if is_bad else 0,
        remark="BODY_SIZE: too large" if is_bad else None,
        msg_id="" if is_bad else f"OFFSET{offset}",
        queue_id=item.queue_id,
        queue_offset=offset,
        deliver_ms=5 if b"TIMER" in item.properties else None,
        recall_handle="H" if b"TIMER" in item.properties else None,
    )


async def take(command: Command) -> Command:
    """A broker that stores what is not bad."""
    await trio.lowlevel.checkpoint()
    items = decode_items(command.body)
    body = encode_results([result(item, offset) for offset, item in enumerate(items)])
    return command.answer(0, body=body)


def network_of(nursery: trio.Nursery, handler: Handler = take) -> Network:
    """A name server that knows T and may make topics, and one broker."""
    network = Network(nursery)
    name_server(network, {"T": route(queues=2), "TBW102": route(queues=8, perm=7)})
    network.server(BROKER, {9001: handler})
    return network


def producer_of(network: Network, *, request_timeout: float = 5.0) -> Producer:
    """A producer in a network."""
    return Producer(
        NAMESRV,
        open_stream=network.open_stream,
        clock_ms=lambda: 1,
        request_timeout=request_timeout,
    )


def messages(*bodies: bytes, topic: str = "T") -> list[OutgoingMessage]:
    """Messages with these bodies to one topic."""
    return [OutgoingMessage(topic=topic, body=body) for body in bodies]


async def test_a_message_and_its_receipt(nursery: trio.Nursery) -> None:
    """The receipt has what the broker said, and the id that went with the message."""
    network = network_of(nursery)
    async with producer_of(network) as producer:
        receipt = await producer.send("T", b"x", at=5, key="k1", keys=["k2"], tag="t", queue_id=1)
    (command,) = network.servers[BROKER].requests(9001)
    (item,) = decode_items(command.body)

    assert Coding.CBOR is command.coding
    assert ("T", 1, b"x") == (item.topic, item.queue_id, item.body)
    pairs = "KEYS\x01k1 k2\x02TAGS\x01t\x02TIMER_DELIVER_MS\x015\x02UNIQ_KEY\x01"
    assert f"{pairs}{receipt.message_id}\x02".encode() == item.properties
    assert (
        SendReceipt(
            message_id=receipt.message_id,
            offset_message_id="OFFSET0",
            queue_id=1,
            queue_offset=0,
            deliver_ms=5,
            recall_handle="H",
        )
        == receipt
    )


@pytest.mark.parametrize("code", [10, 11, 12])
async def test_a_batch_that_is_stored_and_not_yet_durable(nursery: trio.Nursery, code: int) -> None:
    """The code is of the whole answer: what it holds was not refused, so nothing is sent again."""
    network = network_of(nursery)
    stored = network.servers[BROKER].handlers[9001]

    async def answer(command: Command) -> Command | None:
        found = await stored(command)
        assert found is not None
        return command.answer(code, remark="too few followers", body=found.body)

    network.servers[BROKER].handlers[9001] = answer
    async with producer_of(network) as producer:
        receipt = await producer.send("T", b"x")

    assert not receipt.is_durable


async def test_queues_take_turns(nursery: trio.Nursery) -> None:
    """Without a queue of its own a message goes to the next one."""
    network = network_of(nursery)
    async with producer_of(network) as producer:
        receipts = await producer.send_batch(messages(*[b"x"] * 4))

    assert [0, 1, 0, 1] == [one.queue_id for one in receipts]


async def test_an_unknown_topic_is_looked_up_once(nursery: trio.Nursery) -> None:
    """A batch to a topic that is not there asks for it and for the template, not once a message."""
    network = network_of(nursery)
    async with producer_of(network) as producer:
        await producer.send_batch(messages(*[b"x"] * 50, topic="New"))

    asked = [one.ext["topic"] for one in network.servers[NAMESRV].received]
    assert ["New", "TBW102"] == asked


async def test_concurrent_sends_share_a_connection(nursery: trio.Nursery) -> None:
    """Sends do not wait for each other's answers."""
    waiting = 0
    everybody = trio.Event()

    async def together(command: Command) -> Command:
        nonlocal waiting
        waiting += 1
        if waiting == 10:
            everybody.set()
        await everybody.wait()
        return await take(command)

    network = network_of(nursery, together)
    ids: list[str] = []

    async def send(producer: Producer) -> None:
        ids.append((await producer.send("T", b"x")).message_id)

    async with producer_of(network) as producer, trio.open_nursery() as sending:
        for _ in range(10):
            sending.start_soon(send, producer)

    assert 10 == len(set(ids))
    assert 1 == len(network.servers[BROKER].connections)


async def test_a_refused_message_is_named(nursery: trio.Nursery) -> None:
    """Each message of a batch is stored or refused on its own, and the error says which."""
    network = network_of(nursery)
    async with producer_of(network) as producer:
        with pytest.raises(BrokerRefusedError) as caught:
            await producer.send_batch(messages(b"a", b"bad1", b"b", b"bad2"))

    assert ("BODY_SIZE", 13) == (caught.value.rule, caught.value.code)
    kinds = [type(one) for one in caught.value.outcomes]
    assert [SendReceipt, BrokerRefusedError, SendReceipt, BrokerRefusedError] == kinds
    assert caught.value is caught.value.outcomes[1]


async def test_after_a_frame_without_answer_no_other_is_sent(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """The outcomes tell stored, doubtful and unsent messages apart."""
    count = 0

    async def once(command: Command) -> Command | None:
        nonlocal count
        count += 1
        return await take(command) if count == 1 else None

    network = network_of(nursery, once)
    async with producer_of(network) as producer:
        with pytest.raises(RequestTimeoutError) as caught:
            await producer.send_batch(messages(*[b"x"] * (2 * BATCH_COUNT_MAX + 1)))
    outcomes = caught.value.outcomes

    assert caught.value.may_have_arrived
    assert {SendReceipt} == {type(one) for one in outcomes[:BATCH_COUNT_MAX]}
    assert {caught.value} == set(outcomes[BATCH_COUNT_MAX:-1])
    assert outcomes[-1] is None
    assert 2 == count


async def test_what_may_have_arrived_is_not_sent_again(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """A second send could double the message: that is for the caller to decide."""
    network = network_of(nursery)
    server = network.servers[BROKER]

    async def hang_up(_command: Command) -> None:
        await server.connections[-1].stream.aclose()

    server.handlers[9001] = hang_up
    async with producer_of(network) as producer:
        with pytest.raises(ConnectionLostError) as caught:
            await producer.send("T", b"x")

    assert caught.value.may_have_arrived
    assert 1 == len(server.received)


async def test_what_has_not_left_is_tried_again(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """While no connection can be made nothing is doubled; the message keeps its id."""
    network = network_of(nursery)
    server = network.servers[BROKER]
    server.refuses = True

    async def open_stream(host: str, port: int) -> trio.abc.Stream:
        server.refuses = len([one for one, _ in network.opened if one == BROKER]) < 2
        return await network.open_stream(host, port)

    async with Producer(NAMESRV, open_stream=open_stream) as producer:
        receipt = await producer.send("T", b"x")
    (item,) = decode_items(server.received[0].body)

    assert receipt.message_id.encode() in item.properties
    assert [BROKER] * 3 == [one for one, _ in network.opened if one == BROKER]


async def test_attempts_are_bounded(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """After three attempts the caller hears of it, with the promise that nothing was sent."""
    network = network_of(nursery)
    network.servers[BROKER].refuses = True
    async with producer_of(network) as producer:
        with pytest.raises(ConnectionLostError, match="a:10911: cannot connect") as caught:
            await producer.send("T", b"x")

    assert not caught.value.may_have_arrived
    assert [BROKER] * 3 == [one for one, _ in network.opened if one == BROKER]


async def test_a_silent_broker(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """The deadline of a request is the caller's."""
    async with producer_of(network_of(nursery, silent), request_timeout=2.5) as producer:
        with pytest.raises(NoAnswerError, match=r"no answer within 2\.5 s"):
            await producer.send("T", b"x")

    assert 2.5 == trio.current_time()


@pytest.mark.parametrize(
    ("handler", "kind", "message"),
    [
        (always(14, remark="SERVICE_NOT_AVAILABLE: disk full"), BrokerRefusedError, "disk full"),
        (always(body=b"\x00"), MalformedAnswerError, "^answer to a batch: BATCH: expected"),
        (always(body=b"\x81\x01"), MalformedAnswerError, "result 0 is not one"),
        (
            always(body=encode_results([result(SendItem("T", 0, 0, b"", b""), 0)] * 2)),
            MalformedAnswerError,
            "^answer to a batch: expected 1 results, found 2$",
        ),
    ],
)
async def test_answers_that_are_none(
    handler: Handler, kind: type[ClientError], message: str, nursery: trio.Nursery
) -> None:
    """Whatever a broker answers, the error is one of the client's."""
    async with producer_of(network_of(nursery, handler)) as producer:
        with pytest.raises(kind, match=message):
            await producer.send("T", b"x")


@pytest.mark.parametrize(
    "message",
    [
        OutgoingMessage(topic="T", body=b"", queue_id=9),
        OutgoingMessage(topic="T", body=b"", properties={"a": "\x01"}),
        OutgoingMessage(topic="T", body=bytes(16 << 20)),
    ],
    ids=["queue", "property", "size"],
)
async def test_nothing_is_sent_of_a_batch_that_cannot_be(
    message: OutgoingMessage, nursery: trio.Nursery
) -> None:
    """The caller's mistakes are found before the first frame leaves."""
    network = network_of(nursery)
    async with producer_of(network) as producer:
        with pytest.raises(ValueError, match=r"T has no queue 9|expected no 0x01|expected at most"):
            await producer.send_batch([*messages(b"fine"), message])

    assert [] == network.servers[BROKER].received


async def test_no_route(nursery: trio.Nursery) -> None:
    """The error comes out as it is, through the producer's own block."""
    network = Network(nursery)
    name_server(network, {})
    with pytest.raises(NoRouteError, match=r"^topic T: no such topic$"):
        async with producer_of(network) as producer:
            await producer.send("T", b"x")


async def test_an_empty_batch(nursery: trio.Nursery) -> None:
    """Nothing to send is nothing sent."""
    async with producer_of(network_of(nursery)) as producer:
        assert [] == await producer.send_batch([])


@pytest.mark.parametrize(
    ("broker_name", "address"),
    [("broker-a", BROKER), ("broker-b", OTHER_BROKER), ("broker-z", BROKER)],
)
async def test_a_recall_goes_to_the_broker_of_its_handle(
    broker_name: str, address: str, nursery: trio.Nursery
) -> None:
    """Only that one has the message; what names no broker of the topic goes to the first."""
    two = {"T": two_brokers()}
    network = Network(nursery)
    name_server(network, two)
    for one in (BROKER, OTHER_BROKER):
        network.server(one, {370: always()})
    handle = encode_handle("T", broker_name, 1, "K")
    async with producer_of(network) as producer:
        verdict = await producer.cancel("T", handle)
    (request,) = network.servers[address].received

    assert Verdict.CANCELLED is verdict
    assert {
        "producerGroup": "timermq-producer",
        "topic": "T",
        "recallHandle": handle,
    } == request.ext


@pytest.mark.parametrize("is_first", [True, False])
async def test_of_several_errors_the_one_that_may_have_been_carried_out_is_raised(
    autojump_clock: trio.testing.MockClock, is_first: bool, nursery: trio.Nursery
) -> None:
    """A caller who hears of the refusal alone would take the message for not cancelled."""
    network = Network(nursery)
    name_server(network, {"T": two_brokers()})
    handlers = [silent, always(16, remark="RECALL_DISABLED: not here")]
    for address, handler in zip(
        (BROKER, OTHER_BROKER), handlers if is_first else reversed(handlers), strict=True
    ):
        network.server(address, {9005: handler})
    async with producer_of(network) as producer:
        with pytest.raises(RequestTimeoutError) as caught:
            await producer.cancel("T", key="k")
    asked = [len(network.servers[one].requests(9005)) for one in (BROKER, OTHER_BROKER)]

    assert caught.value.may_have_arrived
    assert [1, 1] == asked


async def test_sends_fail_when_the_producer_ends(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """A send of another task that is under way at the end says so."""
    network = network_of(nursery, silent)
    errors: list[str] = []

    async def send(producer: Producer) -> None:
        with pytest.raises(ConnectionLostError) as caught:
            await producer.send("T", b"x")
        errors.append(str(caught.value))

    async with trio.open_nursery() as sending, producer_of(network) as producer:
        sending.start_soon(send, producer)
        await trio.sleep(1)

    assert ["a:10911: the client stops (request 9001)"] == errors


def two_brokers() -> bytes:
    """The route of a topic that two brokers have, with one queue each."""
    return joined_routes(route(), route(address=OTHER_BROKER, broker_name="broker-b"))
