"""The master's side of a link: what it makes of a peer's bytes, and what it sends of the log."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication_rig import SEGMENT, Scene, scene
from timermq.broker.replication.epochs import FIRST_EPOCHS, EpochList
from timermq.broker.replication.greeting import (
    FOLLOWER_SIDE,
    MASTER_SIDE,
    Greeting,
    GreetingReader,
    Proof,
    Refusal,
    encode_greeting,
    is_proof,
    proof_of,
)
from timermq.broker.replication.ha_frames import (
    Epoch,
    Epochs,
    EpochTransfer,
    EpochTransferReader,
    Handshake,
    Transfer,
    TransferReader,
    encode_epoch_report,
    encode_handshake,
    encode_report,
)
from timermq.broker.replication.link_refusal import LinkRefusedError
from timermq.broker.replication.master_link import MasterIdentity, MasterLink

GREETING = Greeting(broker_name="broker-a", broker_id=3, segment_size=SEGMENT, nonce="ab")


class Wire:
    """A link, and what it has sent."""

    def __init__(
        self,
        stage: Scene,
        *,
        secret: bytes | None = None,
        epochs: EpochList = FIRST_EPOCHS,
        barred: LinkRefusedError | None = None,
    ) -> None:
        self.stage = stage
        identity = MasterIdentity(broker_name="broker-a", secret=secret, epochs=lambda: epochs)
        self.link = MasterLink(identity, stage.log, stage.followers, "h:1", lambda _: None, barred)

    def receive(self, *parts: bytes) -> bytes:
        """Bring bytes; what the master answers at once."""
        for part in parts:
            self.link.receive(part)
        replies, self.link.replies[:] = b"".join(self.link.replies), []
        return replies

    def send(self, size_max: int = 1 << 20) -> bytes:
        """The next frame with what follows its head; nothing while there is none."""
        frame = self.link.next_frame(size_max)
        if frame is None:
            return b""
        self.link.sent(frame)
        return frame.head + self.stage.log.read(frame.offset, frame.size)

    def greet(self) -> Greeting:
        """Greet as a follower of ours; the master's greeting."""
        heard = GreetingReader().feed(self.receive(encode_greeting(GREETING)))
        assert isinstance(heard, Greeting)
        return heard


def test_nothing_is_sent_before_a_report() -> None:
    """Not even a heartbeat: where to begin is not known."""
    stage = Scene()
    stage.grow(100)
    wire = Wire(stage)
    wire.receive(b"\0" * 7)

    assert wire.send() == b""
    assert wire.link.heartbeat() is None
    wire.receive(b"\x28")
    assert wire.send() == bytes.fromhex("0000000000000028 0000003c") + stage.log.read(40, 60)
    assert wire.send() == b""
    beat = wire.link.heartbeat()
    assert beat is not None
    assert beat.head == bytes.fromhex("0000000000000064 00000000")


def test_a_frame_ends_with_its_segment() -> None:
    """A slave writes it into one file."""
    stage = Scene()
    stage.grow(2_500)
    wire = Wire(stage)
    wire.receive(encode_report(800))
    sent = [(one.offset, len(one.body)) for one in TransferReader().feed(wire.send() + wire.send())]

    assert sent == [(800, 200), (1_000, 1_000)]


def test_a_frame_ends_with_its_epoch() -> None:
    """A follower writes down where the next one begins."""
    stage = Scene()
    stage.grow(300)
    starts = EpochList((Epoch(1, 0), Epoch(4, 120)))
    wire = Wire(stage, epochs=starts)
    wire.greet()
    told = wire.receive(encode_handshake(Handshake(3)), encode_epoch_report(0))
    (epochs, *frames) = EpochTransferReader().feed(told + wire.send() + wire.send())

    assert epochs == Epochs(300, 4, starts.entries)
    assert frames == [
        EpochTransfer(0, 1, 0, 300, stage.log.read(0, 120)),
        EpochTransfer(120, 4, 120, 300, stage.log.read(120, 180)),
    ]


def test_a_follower_is_told_what_is_confirmed() -> None:
    """In each frame, and in a heartbeat when only that has changed."""
    stage = scene(min_in_sync_replicas=2)
    stage.grow(100)
    wire = Wire(stage)
    wire.greet()
    wire.receive(encode_epoch_report(0))
    wire.send()
    wire.receive(encode_epoch_report(100))
    stage.grow(50)
    (frame,) = EpochTransferReader().feed(wire.send())
    assert isinstance(frame, EpochTransfer)
    assert frame.confirm_offset == 100
    assert not wire.link.has_news
    wire.receive(encode_epoch_report(150))

    assert wire.link.has_news
    beat = wire.link.heartbeat()
    assert beat is not None
    (told,) = EpochTransferReader().feed(beat.head)
    assert isinstance(told, EpochTransfer)
    assert (told.offset, told.confirm_offset, told.body) == (150, 150, b"")
    assert not wire.link.has_news


@pytest.mark.parametrize(
    ("change", "rule", "found"),
    [
        ({"broker_name": "b"}, "HA_BROKER_NAME", "found 'b'"),
        ({"segment_size": 7}, "HA_SEGMENT_SIZE", "found 7"),
        ({"broker_id": 0}, "HA_BROKER_ID", "found 0"),
    ],
)
def test_a_follower_of_another_master_is_refused(
    change: dict[str, object], rule: str, found: str
) -> None:
    """By name, and it is told."""
    wire = Wire(Scene())
    greeting = attrs.evolve(GREETING, **change)  # type: ignore[arg-type]
    with pytest.raises(LinkRefusedError, match=f"{rule}: expected .*{found}") as refused:
        wire.receive(encode_greeting(greeting))
    told = GreetingReader().feed(wire.link.refusal(refused.value))

    assert told == Refusal(rule, refused.value.text)


def test_both_sides_prove_the_secret() -> None:
    """The follower in a frame of its own, so that it proves something new."""
    wire = Wire(Scene(), secret=b"secret")
    heard = wire.greet()
    assert is_proof(heard.proof, b"secret", MASTER_SIDE, GREETING.nonce, heard.nonce)
    proof = proof_of(b"secret", FOLLOWER_SIDE, GREETING.nonce, heard.nonce)
    wire.receive(encode_greeting(Proof(proof)) + encode_epoch_report(0))

    assert wire.link.follower is not None
    assert wire.link.follower.broker_id == 3


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        (encode_greeting(Proof("0")), "HA_SECRET"),
        (encode_greeting(GREETING), "HA_GREETING"),
        (encode_epoch_report(0), "HA_FRAME"),
    ],
)
def test_without_the_secret_there_is_no_link(said: bytes, rule: str) -> None:
    """Nothing of the log was sent."""
    stage = Scene()
    stage.grow(10)
    wire = Wire(stage, secret=b"secret")
    wire.greet()

    with pytest.raises(LinkRefusedError, match=rule):
        wire.receive(said)
    assert wire.send() == b""


def test_slaves_of_rocketmq_know_no_secret() -> None:
    """They are refused where there is one, and told nothing: they would not understand."""
    wire = Wire(Scene(), secret=b"secret")
    with pytest.raises(LinkRefusedError, match="HA_SECRET: expected a greeting") as refused:
        wire.receive(encode_report(0))

    assert wire.link.refusal(refused.value) == b""


@pytest.mark.parametrize("said", [encode_report(0), encode_greeting(GREETING)])
def test_a_barred_peer_is_refused_whatever_it_says(said: bytes) -> None:
    """A follower of ours is told why, at its first byte."""
    reason = LinkRefusedError("HA_PLAIN", "expected TLS")
    wire = Wire(Scene(), barred=reason)

    with pytest.raises(LinkRefusedError, match="HA_PLAIN: expected TLS"):
        wire.receive(said[:1])
    assert wire.link.follower is None


@pytest.mark.parametrize("garbage", [b"\xff" * 8, b"\xffTIMERMQ\xff\xff\xff\xff", b"\xffT\0"])
def test_garbage_ends_the_link(garbage: bytes) -> None:
    """It is no greeting, and no report can be negative."""
    with pytest.raises(LinkRefusedError, match="HA_FRAME"):
        Wire(Scene()).receive(garbage)


def test_one_slower_than_cleaning_is_told_so() -> None:
    """Its next byte is gone."""
    stage = Scene()
    stage.grow(1_500)
    wire = Wire(stage)
    wire.receive(encode_report(10))
    stage.log.delete_before(SEGMENT)

    with pytest.raises(LinkRefusedError, match="HA_CLEANED: the follower is at 10"):
        wire.send()


@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(1, 400)), min_size=1, max_size=20),
    st.booleans(),
    st.integers(1, 50),
    st.integers(0, 700),
)
def test_a_follower_gets_the_log(
    story: list[tuple[int, int]], is_ours: bool, cut: int, had: int
) -> None:
    """Byte for byte, whatever the pieces in which both sides' bytes arrive."""
    stage = Scene()
    stage.grow(had + 1)
    wire = Wire(stage, epochs=EpochList((Epoch(1, 0), Epoch(2, 350))))
    copy = bytearray(stage.log.read(0, had))
    reader = EpochTransferReader() if is_ours else TransferReader()
    report = encode_epoch_report if is_ours else encode_report
    if is_ours:
        wire.greet()

    def say(data: bytes) -> None:
        for at in range(0, len(data), cut):
            wire.receive(data[at : at + cut])

    say(report(had))
    for grown, size_max in story:
        stage.grow(grown)
        while sent := wire.send(size_max):
            for at in range(0, len(sent), cut):
                for frame in reader.feed(sent[at : at + cut]):
                    assert isinstance(frame, Transfer | EpochTransfer)
                    # A first report of 0 is that of an empty slave: it has the log's begin, too.
                    assert frame.offset == len(copy)
                    copy += frame.body
        say(report(len(copy)))

    end = stage.log.max_offset
    assert len(copy) == end
    assert all(byte == at % 251 for at, byte in enumerate(copy))
    assert stage.followers.acknowledged_by_all() == end
