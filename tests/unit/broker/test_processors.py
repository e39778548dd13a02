"""Tests of the table of request codes."""

from broker_rig import Rig
from timermq.broker.send_processor import SEND_CODES
from timermq.remoting import RequestCode


async def test_every_code_is_served_or_refused_by_name() -> None:
    """What is not served yet is a list of its own: a new code belongs to one or the other."""
    served = set(Rig().broker.processors.handlers()) | SEND_CODES
    later = {
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.END_TRANSACTION,
        RequestCode.GET_TIMER_CHECK_POINT,
        RequestCode.GET_TIMER_METRICS,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    }
    ours_to_send = {
        RequestCode.CHECK_TRANSACTION_STATE,
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
    }

    assert served.isdisjoint(later | ours_to_send)
    assert served | later | ours_to_send == set(RequestCode)
