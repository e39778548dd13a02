"""Tests of the table of open transactions."""

from timermq.broker.transactions.open_transactions import OpenTransactions


def test_the_oldest_half_message_is_the_first() -> None:
    """A renewal goes to the end; the window ends behind the newest half message."""
    table = OpenTransactions(0)
    begin = table.first_offset
    table.put(100, 0)
    table.put(200, 1)
    table.put(100, 2)
    middle = table.first_offset
    table.end(200)
    table.end(200)
    end = table.first_offset
    table.end(100)

    assert (begin, middle, end, table.first_offset) == (0, 1, 2, 3)
    assert (len(table), table.names(), table.offset_of(100)) == (0, [], None)
