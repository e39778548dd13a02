"""Tests of the bodies of locks."""

import json

from timermq.remoting.lock_body import LockBatch, MessageQueue, lock_answer

QUEUE = MessageQueue(topic="T", broker_name="broker-a", queue_id=3)


def test_reading_what_is_written() -> None:
    """A request comes back as it was; its fields have Java's names."""
    batch = LockBatch(client_id="c", consumer_group="G", mq_set=(QUEUE,))

    assert LockBatch.decode(batch.encode()) == batch
    assert json.loads(batch.encode()) == {
        "clientId": "c",
        "consumerGroup": "G",
        "mqSet": [{"topic": "T", "brokerName": "broker-a", "queueId": 3}],
    }


def test_tolerant_reading() -> None:
    """Unknown fields are passed over, a number may be text, a missing set is empty."""
    body = b'{"clientId":"c","consumerGroup":"G","onlyThisBroker":true,"mqSet":[%b]}'
    queue = b'{"topic":"T","brokerName":"broker-a","queueId":"3","x":1}'

    assert LockBatch.decode(body % queue).mq_set == (QUEUE,)
    assert LockBatch.decode(b'{"clientId":"c","consumerGroup":"G"}').mq_set == ()


def test_the_answer() -> None:
    """It has Java's one field."""
    assert json.loads(lock_answer([QUEUE])) == {
        "lockOKMQSet": [{"topic": "T", "brokerName": "broker-a", "queueId": 3}]
    }
