"""Half messages and their endings, as producers send them to a broker for tests."""

from __future__ import annotations

from broker_rig import RecordingSession, Rig
from timermq.broker.broker import Broker
from timermq.broker.client_registry import ClientRegistry
from timermq.broker.speaker import UNLIMITED, Speaker
from timermq.remoting import Command
from timermq.timerstore.record import Record, decode_record

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
DISCARD_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
COMMIT = 8
ROLLBACK = 12
UNKNOWN = 0
END_TRANSACTION = 37
CHECK_TRANSACTION_STATE = 39
GROUP = "P"


def half_properties(key: str, **more: str) -> str:
    """What Java's producer gives a transactional message."""
    pairs = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": key, "WAIT": "true", **more}
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())


def send_half(rig: Rig, key: str, **more: str) -> Command:
    """The answer to a half message for queue 0 of topic T."""
    answer = rig.send("T", key.encode(), half_properties(key, **more), sysFlag="4")
    assert answer.code == 0, answer.remark
    return answer


def end_ext(answer: Command, decision: int, **more: str) -> dict[str, str]:
    """The parameters that Java's producer makes of the answer to its half message."""
    return {
        "producerGroup": GROUP,
        "tranStateTableOffset": answer.ext["queueOffset"],
        "commitLogOffset": str(int(answer.ext["msgId"][16:], 16)),
        "commitOrRollback": str(decision),
        "fromTransactionCheck": "false",
        "msgId": answer.ext["transactionId"],
        "transactionId": answer.ext["transactionId"],
        **more,
    }


def end(rig: Rig, answer: Command, decision: int, **more: str) -> Command:
    """The answer to an ending that is not one-way."""
    return rig.call(END_TRANSACTION, end_ext(answer, decision, **more))


def reply_ext(check: Command, decision: int) -> dict[str, str]:
    """The parameters that Java's producer makes of a check."""
    return {
        "producerGroup": GROUP,
        "tranStateTableOffset": check.ext["tranStateTableOffset"],
        "commitLogOffset": check.ext["commitLogOffset"],
        "commitOrRollback": str(decision),
        "fromTransactionCheck": "true",
        "msgId": check.ext["msgId"],
        "transactionId": check.ext["transactionId"],
    }


def joined(
    clients: ClientRegistry, *, group: str = GROUP, speaker: Speaker = UNLIMITED
) -> RecordingSession:
    """A producer whose heartbeat has come."""
    peer = RecordingSession()
    peer.session.speaker = speaker
    clients.register_producer(peer.session, "client", group)
    return peer


def checks(peer: RecordingSession) -> list[Command]:
    """The checks that a producer was sent; they are forgotten."""
    found = [one for one in peer.sent if one.code == CHECK_TRANSACTION_STATE]
    peer.sent.clear()
    return found


def bodies(broker: Broker, topic: str = "T") -> list[str]:
    """Bodies of all records of a topic, in the order of the log."""
    return [one.body.decode() for one in log_records(broker) if one.topic == topic]


def log_records(broker: Broker) -> list[Record]:
    """Every record of the log."""
    log = broker.store.commit_log
    return [
        decode_record(log.read(phy_offset, size))
        for phy_offset, size in log.scan(log.min_offset, check_crc=True)
    ]


def marked(broker: Broker) -> list[str]:
    """What the op messages say."""
    return bodies(broker, OP_TOPIC)
