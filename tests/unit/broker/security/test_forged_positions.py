"""Bodies that are shaped like records: no account reads, sends back or ends what is not its own."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from broker_rig import BROKER, Rig, send_ext
from signed import sign, write_rules
from timermq.remoting import Command
from timermq.timerstore.message import Message, pack_host
from timermq.timerstore.record import encode_record
from timermq.timerstore.record_layout import HEAD

RULES = """accounts:
- {accessKey: victimV, secretKey: hidden-secret, topicPerms: [V=PUB|SUB], groupPerms: [g=SUB]}
- {accessKey: accountA, secretKey: hidden-secret, topicPerms: [A=PUB|SUB], groupPerms: [g=SUB]}
- {accessKey: powerless, secretKey: hidden-secret}
"""
HOST = pack_host("127.0.0.1", 1)
TRACE = "RMQ_SYS_TRACE_TOPIC"
HALF = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01UU\x02"
COMMIT, ROLLBACK = "8", "12"


class Room:
    """A broker with access control, and where its log ends."""

    def __init__(self, directory: Path) -> None:
        path = write_rules(directory, RULES)
        self.rig = Rig(options=attrs.evolve(BROKER, acl_enable=True, acl_file=path))

    def ask(self, who: str, code: int, ext: dict[str, str], body: bytes = b"") -> Command:
        """The answer to a signed request."""
        answers = self.rig.handle(sign(self.rig.command(code, ext, body), who))
        (answer,) = (*answers, *self.rig.peer.sent)  # refusals come by the latter
        self.rig.peer.sent.clear()
        return answer

    @property
    def next_body_py(self) -> int:
        """Where the body of the next message will stand."""
        return self.rig.broker.store.commit_log.max_offset + HEAD.size

    def forged(self, message: Message, phy_offset: int, queue_offset: int) -> bytes:
        """A record as the broker would write it there."""
        return encode_record(
            message,
            queue_offset=queue_offset,
            phy_offset=phy_offset,
            store_ms=self.rig.clock.now_ms(),
            store_host=HOST,
        )


@pytest.mark.parametrize("queue_offset", [0, 1, 7])
async def test_a_record_in_ones_own_body_is_not_viewed(tmp_path: Path, queue_offset: int) -> None:
    """It states its position, and a place in the queue that may be there."""
    room = Room(tmp_path)
    at = room.next_body_py
    inner = room.forged(Message("A", 0, b"forged", b""), at, queue_offset)
    assert room.ask("accountA", 10, send_ext("A"), inner).code == 0

    assert room.ask("accountA", 33, {"offset": str(at)}).code == 16


async def test_a_head_that_spans_anothers_message_shows_nothing_of_it(tmp_path: Path) -> None:
    """Its end stands in the forger's next message."""
    room = Room(tmp_path)
    at = room.next_body_py
    whole = room.forged(Message("A", 0, bytes(2_000), b""), at, 99)
    room.ask("accountA", 10, send_ext("A"), whole[: HEAD.size])
    room.ask("victimV", 10, send_ext("V"), b"secret of V")
    ahead = at + HEAD.size + 2_000 - room.next_body_py
    room.ask("accountA", 10, send_ext("A"), bytes(ahead) + whole[HEAD.size + 2_000 :])
    answer = room.ask("accountA", 33, {"offset": str(at)})

    assert answer.code == 16
    assert b"secret" not in answer.body


async def test_a_record_in_ones_own_body_is_not_sent_back(tmp_path: Path) -> None:
    """Nothing that was never sent comes to a group."""
    room = Room(tmp_path)
    at = room.next_body_py
    room.ask("accountA", 10, send_ext("A"), room.forged(Message("A", 0, b"forged", b""), at, 3))
    answer = room.ask("accountA", 36, {"group": "g", "offset": str(at), "delayLevel": "-1"})

    assert answer.code == 1
    assert (answer.remark or "").startswith("MESSAGE_NOT_FOUND")
    assert room.rig.records("%DLQ%g") == []


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_a_half_message_in_a_trace_ends_nothing(tmp_path: Path, decision: str) -> None:
    """Its topic is the trace, which anybody may write; its name is that of another's."""
    room = Room(tmp_path)
    assert room.ask("victimV", 10, send_ext("V", HALF, sysFlag="4"), b"half").code == 0
    transactions = room.rig.broker.transactions
    (name,) = transactions.open.names()
    at = room.next_body_py
    own = HALF.encode() + b"REAL_TOPIC\x01%s\x02REAL_QID\x010\x02TIMERMQ_HALF\x01%d,%d\x02" % (
        TRACE.encode(),
        name,
        room.rig.clock.now_ms(),
    )
    inner = room.forged(Message("RMQ_SYS_TRANS_HALF_TOPIC", 0, b"x", own), at, 7)
    assert room.ask("powerless", 10, send_ext(TRACE), inner).code == 0
    names = {"msgId": "UU", "transactionId": "UU", "producerGroup": "P"}
    places = {"tranStateTableOffset": "7", "commitLogOffset": str(at)}
    answer = room.ask("powerless", 37, {**names, **places, "commitOrRollback": decision})

    assert answer.code == 16
    assert len(transactions.open) == 1
    assert room.rig.records("V") == []
