"""Random requests: each is answered, or held, and none of them shows a mistake of ours."""

from __future__ import annotations

import functools
import json

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_rig import RecordingSession, Rig, pull_ext, send_ext
from timermq.broker.sending.send_processor import SEND_CODES
from timermq.remoting import RequestCode
from timermq.remoting.send_batch import SendItem, encode_items
from timermq.timerstore.batch import BatchPart, join_batch

COMPLETE = {
    **send_ext("T"),
    **pull_ext("T"),
    **dict(zip("abcdefghi", send_ext("T").values(), strict=True)),
    "offset": "0",
    "key": "K1",
    "maxNum": "32",
    "endTimestamp": "9999999999999",
    "beginTimestamp": "0",
    "_UNIQUE_KEY_QUERY": "false",
    "recallHandle": "djEgVCBicm9rZXItYSAxNzAwMDAwMDAyMDAxIEs=",
    "timestamp": "1700000000000",
    "boundaryType": "LOWER",
    "setZeroIfNotFound": "true",
    "cluster": "DefaultCluster",
    "reconsumeTimes": "0",
    "maxReconsumeTimes": "16",
    "batch": "false",
}
"""Every field of every request; each takes what it knows."""

texts = st.one_of(
    st.sampled_from(
        ["", "T", "G", "*", "TagA || TagB", "||", "TAG", "SQL92", "true", "0", "1", "-1", "6", "7"]
    ),
    st.sampled_from(["TBW102", "rmq_sys_wheel_timer", "%RETRY%G", "../T", "9" * 19, "9" * 25]),
    st.sampled_from(
        [
            "UNIQ_KEY\x01K\x02TAGS\x01TagA\x02KEYS\x01a b\x02",
            "TIMER_DELAY_MS\x011000\x02",
            "DELAY\x0199\x02",
            "TIMER_OUT_MS\x011\x02",
            "djEgVCBicm9rZXItYSAxNzAwMDAwMDAyMDAxIEs=",
        ]
    ),
    st.text(max_size=20),
    st.integers(-(2**65), 2**65).map(str),
)
small = st.binary(max_size=20)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "clientID",
                    "producerDataSet",
                    "consumerDataSet",
                    "groupName",
                    "subscriptionDataSet",
                    "subscriptionData",
                    "topic",
                    "subString",
                    "subVersion",
                    "messageModel",
                ]
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=12,
)
bodies = st.one_of(
    st.binary(max_size=60),
    json_values.map(lambda value: json.dumps(value).encode()),
    st.lists(st.builds(BatchPart, st.integers(0, 9), small, small), max_size=4).map(join_batch),
    st.lists(
        st.builds(SendItem, texts, st.integers(-2, 9), st.integers(0, 9), small, small), max_size=4
    ).map(encode_items),
)


@functools.cache
def shared_rig() -> Rig:
    """One broker for all examples: what earlier requests have left must not matter."""
    return Rig()


served = sorted(int(code) for code in set(RequestCode) | SEND_CODES)


@settings(deadline=None)
@given(
    requests=st.lists(
        st.tuples(
            st.sampled_from(served),
            st.dictionaries(st.sampled_from(sorted(COMPLETE)), texts, max_size=3),
            bodies,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_every_request_is_answered_or_held(
    requests: list[tuple[int, dict[str, str], bytes]],
) -> None:
    """Whatever its fields and body hold: an answer, or a held pull, and never a failure of ours."""

    async def handle_all() -> None:
        rig, peer = shared_rig(), RecordingSession()
        commands = [rig.command(code, {**COMPLETE, **ext}, body) for code, ext, body in requests]
        answers = rig.handle(*commands, peer=peer)
        held = peer.session.held_pulls
        rig.broker.dispatcher.close(peer.session)

        assert len(answers) + held == len(commands)
        assert not [one for one in answers if (one.remark or "").startswith("SYSTEM_ERROR")]
        for answer in answers:
            assert all(isinstance(value, str) for value in answer.ext.values())

    trio.run(handle_all)
