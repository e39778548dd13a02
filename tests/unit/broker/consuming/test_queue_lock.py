"""Tests of queue locks: one holder a queue, renewal, expiry, and the limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timermq.broker.config_fields import ConfigTableError
from timermq.broker.consuming.queue_lock import LOCK_SECONDS, QueueLockTable
from timermq.broker.refusal import RefusedError
from timermq.remoting.lock_body import MessageQueue


def queue(queue_id: int = 0, topic: str = "T") -> MessageQueue:
    """A queue of a topic at broker-a."""
    return MessageQueue(topic=topic, broker_name="broker-a", queue_id=queue_id)


class Locks:
    """A table with a clock that stands where it is put."""

    def __init__(self, locks_max: int = 100) -> None:
        self.now = 1000.0
        self.table = QueueLockTable(current_time=lambda: self.now, locks_max=locks_max)


def test_a_queue_has_one_holder() -> None:
    """Of two clients of a group the first has the queue; another group has locks of its own."""
    table = Locks().table

    assert table.lock("G", [queue(0), queue(1)], "a") == [queue(0), queue(1)]
    assert table.lock("G", [queue(1), queue(2)], "b") == [queue(2)]
    assert table.lock("H", [queue(1)], "b") == [queue(1)]


def test_a_lock_expires_60_seconds_after_its_last_renewal() -> None:
    """Renewed every 20 seconds it stays for ever; 60 seconds later it is another client's."""
    locks = Locks()
    for _ in range(10):
        assert locks.table.lock("G", [queue()], "a") == [queue()]
        locks.now += 20
    locks.now += LOCK_SECONDS - 20 - 0.001
    assert locks.table.lock("G", [queue()], "b") == []
    locks.now += 0.001
    assert locks.table.lock("G", [queue()], "b") == [queue()]
    assert locks.table.lock("G", [queue()], "a") == []


def test_a_lock_lasts_as_long_as_the_operator_says() -> None:
    """From a renewal on, and from the start of a broker that finds it in its file."""
    now = [0.0]
    before, after = (
        QueueLockTable(current_time=lambda: now[0], locks_max=9, live_seconds=35) for _ in range(2)
    )
    before.lock("G", [queue()], "a")
    now[0] = 34.0
    assert before.lock("G", [queue()], "b") == []
    after.load(before.to_json())
    now[0] = 35.0
    assert before.lock("G", [queue()], "b") == [queue()]
    assert after.lock("G", [queue()], "b") == []
    now[0] = 69.0
    assert after.lock("G", [queue()], "b") == [queue()]


def test_only_the_holder_unlocks() -> None:
    """A queue given back is free at once; what others hold is not touched."""
    table = Locks().table
    table.lock("G", [queue(0), queue(1)], "a")

    table.unlock("G", [queue(0), queue(1)], "b")
    assert table.lock("G", [queue(0), queue(1)], "b") == []
    table.unlock("G", [queue(0), queue(9)], "a")
    assert table.lock("G", [queue(0), queue(1)], "b") == [queue(0)]
    table.unlock("unknown", [queue(0)], "a")


def test_a_group_is_orderly_while_it_holds_a_lock() -> None:
    """Expired locks and those of other groups do not count."""
    locks = Locks()
    assert not locks.table.is_orderly("G")
    locks.table.lock("G", [queue(0), queue(1)], "a")
    assert locks.table.is_orderly("G")
    assert not locks.table.is_orderly("H")
    locks.now += LOCK_SECONDS
    assert not locks.table.is_orderly("G")


def test_a_full_table_forgets_expired_locks_first() -> None:
    """Beyond its limit a request is refused as a whole, and renewals still go through."""
    locks = Locks(locks_max=3)
    locks.table.lock("G", [queue(0), queue(1)], "a")
    locks.now += 30
    locks.table.lock("H", [queue(0)], "b")

    with pytest.raises(
        RefusedError, match=r"QUEUE_LOCKS_MAX: .*3 queues are locked, no room for 1"
    ):
        locks.table.lock("H", [queue(1)], "b")
    assert locks.table.lock("H", [queue(0)], "b") == [queue(0)]
    assert len(locks.table) == 3
    locks.now += 30
    assert locks.table.lock("H", [queue(1), queue(2)], "b") == [queue(1), queue(2)]
    assert len(locks.table) == 3


def test_what_is_loaded_lasts_as_if_renewed() -> None:
    """The locks of the process before are granted for another 60 seconds; expired ones are not."""
    before, after = Locks(), Locks()
    before.table.lock("G", [queue(1)], "gone")
    before.now += LOCK_SECONDS
    before.table.lock("G", [queue(0)], "a")
    before.table.lock("H", [queue(0, "U")], "b")
    after.table.load(before.table.to_json())

    assert before.table.to_json() == {
        "lockTable": {
            "G": {"a": [{"topic": "T", "brokerName": "broker-a", "queueId": 0}]},
            "H": {"b": [{"topic": "U", "brokerName": "broker-a", "queueId": 0}]},
        }
    }
    assert len(after.table) == 2
    assert after.table.lock("G", [queue(0), queue(1)], "c") == [queue(1)]
    after.now += LOCK_SECONDS
    assert after.table.lock("G", [queue(0)], "c") == [queue(0)]


def test_renewals_are_no_changes() -> None:
    """The file is written when a queue gets another holder or none, not every 20 seconds."""
    table = Locks().table
    told: list[int] = []
    table.on_change(lambda: told.append(table.changes))
    table.lock("G", [queue(0), queue(1)], "a")
    table.lock("G", [queue(0), queue(1)], "a")
    table.lock("G", [queue(0)], "b")
    table.unlock("G", [queue(0)], "b")
    table.unlock("G", [queue(0)], "a")

    assert told == [2, 3]


@pytest.mark.parametrize(
    "data", [[], {}, {"lockTable": {"G": {"c": [{"topic": "T"}]}}}, {"\udc8d": 1}]
)
def test_a_file_of_something_else(data: object) -> None:
    """It is an error that names the file."""
    with pytest.raises(ConfigTableError, match=r"^config/queueLocks\.json: "):
        Locks().table.load(data)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["lock", "unlock", "wait"]),
            st.sampled_from("GH"),
            st.sampled_from("abc"),
            st.lists(st.integers(0, 3), unique=True),
            st.sampled_from([10.0, 59.0, 60.0]),
        ),
        max_size=30,
    )
)
def test_no_queue_has_two_holders(steps: list[tuple[str, str, str, list[int], float]]) -> None:
    """Whatever is asked in whatever order, a table says yes as a plain list of leases does."""
    locks = Locks(locks_max=1000)
    leases: dict[tuple[str, int], tuple[str, float]] = {}
    for what, group, client, ids, seconds in steps:
        queues = [queue(one) for one in ids]
        if what == "wait":
            locks.now += seconds
        elif what == "unlock":
            locks.table.unlock(group, queues, client)
            for one in ids:
                if leases.get((group, one), ("", 0))[0] == client:
                    del leases[group, one]
        else:
            free = [
                one
                for one in ids
                if (lease := leases.get((group, one))) is None
                or lease[0] == client
                or lease[1] <= locks.now
            ]
            assert locks.table.lock(group, queues, client) == [queue(one) for one in free]
            leases.update({(group, one): (client, locks.now + LOCK_SECONDS) for one in free})
        assert len(locks.table) == len(leases)
        for name in "GH":
            ends = [end for (owner, _), (_, end) in leases.items() if owner == name]
            assert locks.table.is_orderly(name) == (max(ends, default=0) > locks.now)
