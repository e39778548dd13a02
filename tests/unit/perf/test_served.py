"""The sockets by which load programs ask a broker."""

from __future__ import annotations

import socket

import pytest
from served import answered

from timermq.remoting import Command, encode_frame


def test_a_broker_that_hangs_up_ends_the_wait() -> None:
    """A bench whose broker has ended says so, and does not read the end for ever."""
    ours, brokers = socket.socketpair()
    with ours, brokers:
        brokers.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionError, match="found the connection closed"):
            answered(ours, encode_frame(Command(10)))
