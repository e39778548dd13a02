"""The headers of sends, as C++ and Java were seen to write them."""

from __future__ import annotations

import pytest

from timermq.remoting.codes import RequestCode
from timermq.remoting.command import Command
from timermq.remoting.field import FieldError
from timermq.remoting.header import decode_header
from timermq.remoting.send_header import SendHeader

CPP_SEND = (
    b'{"code":10,"extFields":{"AccessKey":"","OnsChannel":"ALIYUN","Signature":"h4W02SH1",'
    b'"batch":"0","bornTimestamp":"1795224420632","defaultTopic":"TBW102",'
    b'"defaultTopicQueueNums":4,"flag":0,"producerGroup":"PID-X",'
    b'"properties":"DELAY\\u00013\\u0002KEYS\\u0001k1\\u0002TAGS\\u0001tagA\\u0002WAIT\\u0001true'
    b'\\u0002user\\u0001v1\\u0002","queueId":0,"reconsumeTimes":"0","sysFlag":0,'
    b'"topic":"TopicA","unitMode":"0"},"flag":0,"language":"CPP","opaque":1,"remark":"",'
    b'"version":63}'
)
CPP_HEADER = SendHeader(
    topic="TopicA",
    queue_id=0,
    producer_group="PID-X",
    born_ms=1795224420632,
    properties=b"DELAY\x013\x02KEYS\x01k1\x02TAGS\x01tagA\x02WAIT\x01true\x02user\x01v1\x02",
)
JAVA_SEND = (
    b'{"code":310,"extFields":{"a":"PID-J","b":"TopicA","c":"TBW102","d":"4","e":"0","f":"0",'
    b'"g":"1795226657300","h":"0","i":"TIMER_DELAY_MS\\u00013000\\u0002KEYS\\u0001k1\\u0002WAIT'
    b'\\u0001true\\u0002TAGS\\u0001tagA\\u0002","j":"0","k":"false","m":"false","n":"broker-a"},'
    b'"flag":0,"language":"JAVA","opaque":6,"serializeTypeCurrentRPC":"JSON","version":479}'
)
JAVA_HEADER = SendHeader(
    topic="TopicA",
    queue_id=0,
    producer_group="PID-J",
    born_ms=1795226657300,
    properties=b"TIMER_DELAY_MS\x013000\x02KEYS\x01k1\x02WAIT\x01true\x02TAGS\x01tagA\x02",
)


def test_cpp_send() -> None:
    """C++ sends long names, bare numbers and booleans as digits."""
    assert CPP_HEADER == SendHeader.from_v1(decode_header(0, CPP_SEND))


def test_java_send() -> None:
    """Java sends one-letter names and everything as text."""
    assert JAVA_HEADER == SendHeader.from_v2(decode_header(0, JAVA_SEND))


def test_java_send_is_written() -> None:
    """What we send is what Java sends, but for the broker's name."""
    expected = decode_header(0, JAVA_SEND).ext
    del expected["n"]

    assert expected == JAVA_HEADER.to_v2()


def test_cpp_batch() -> None:
    """C++ marks a batch with the digit 1."""
    ext = {"topic": "T", "queueId": "-1", "batch": "1"}

    expected = SendHeader(topic="T", queue_id=-1, batch=True)
    assert expected == SendHeader.from_v1(Command(code=10, ext=ext))


def test_every_field_comes_back() -> None:
    """All that a send says survives writing and reading."""
    header = SendHeader(
        topic="T",
        queue_id=-1,
        producer_group="G",
        default_topic="D",
        default_topic_queue_nums=8,
        sys_flag=-(2**31),
        born_ms=2**40,
        flag=2**31 - 1,
        properties="k\x01é\x02".encode(),
        reconsume_times=3,
        batch=True,
    )

    command = Command(code=RequestCode.SEND_MESSAGE_V2, ext=header.to_v2())
    assert header == SendHeader.from_v2(command)


def test_go_sends_a_limit_of_zero() -> None:
    """A limit of repeats that is there counts, even zero; Java leaves it out."""
    ext = {"b": "T", "e": "0", "l": "0"}
    limited = SendHeader.from_v2(Command(code=310, ext=ext))
    unlimited = SendHeader.from_v2(Command(code=310, ext=ext | {"l": ""}))

    assert 0 == limited.max_reconsume_times
    assert unlimited.max_reconsume_times is None


@pytest.mark.parametrize(
    ("ext", "remark"),
    [
        ({"e": "0"}, "b: expected a value, found none"),
        ({"b": "T"}, "e: expected a number, found none"),
        ({"b": "T", "e": "x"}, "e: expected a 64-bit number, found 'x'"),
        ({"b": "T", "e": "2147483648"}, "e: expected a 32-bit number, found 2147483648"),
        (
            {"b": "T", "e": "0", "h": "-2147483649"},
            "h: expected a 32-bit number, found -2147483649",
        ),
        ({"b": "T", "e": "0", "m": "2"}, "m: expected true, false, 1 or 0, found '2'"),
    ],
)
def test_refused_parameters(ext: dict[str, str], remark: str) -> None:
    """A wrong parameter is named, and what was expected of it."""
    with pytest.raises(FieldError) as caught:
        SendHeader.from_v2(Command(code=310, ext=ext))

    assert f"FIELD: request 310: {remark}" == caught.value.remark
