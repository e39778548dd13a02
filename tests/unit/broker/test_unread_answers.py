"""Tests of answers that peers have not read."""

from collections import Counter
from functools import partial

from hypothesis import example, given
from hypothesis import strategies as st

from timermq.broker.pool import Pool
from timermq.broker.unread_answers import FREE_SIZE, JOIN_SIZE_MAX, UnreadAnswers

PEERS = ["a", "a", "a", "b", "b"]
STEPS = ["add", "write", "write a part", "wait", "end"]


def write(output: UnreadAnswers, part: int = 1) -> None:
    """The peer takes what is next, or a part of it, as a connection lets it go."""
    if output:
        data = output.take()
        size = len(data) // part
        output.written(size, data[size:])
    output.tell_room()


@given(
    st.lists(
        st.tuples(st.integers(0, len(PEERS) - 1), st.sampled_from(STEPS), st.integers(1, 300_000)),
        max_size=40,
    )
)
@example([(0, "add", 100), (3, "add", 600_000), (1, "wait", 1), (0, "write", 1)])
def test_who_waits_for_room_is_told(steps: list[tuple[int, str, int]]) -> None:
    """Once, when there is room, by any reader, end or filler. Nothing stays in the pool."""
    pool = Pool(lambda: 500_000)
    outputs = [UnreadAnswers(pool, peer, 1 << 20) for peer in PEERS]
    waiting: set[int] = set()
    told: Counter[int] = Counter()

    def tell(at: int) -> None:
        assert outputs[at].has_room
        waiting.remove(at)
        told[at] += 1

    for at, step, size in steps:
        output = outputs[at]
        if step == "add":
            output.add(bytes(size))
            output.count()
        elif step == "wait" and not output.has_room and at not in waiting:
            waiting.add(at)
            output.when_room(partial(tell, at))
        elif step == "end":
            output.drop()
            waiting.discard(at)
        else:
            write(output, 2 if step == "write a part" else 1)
        assert pool.used == sum(one.size for one in outputs)
        assert all(not outputs[one].has_room for one in waiting)
    for output in outputs:
        while output:
            write(output)

    assert not waiting
    assert pool.used == 0


def test_small_frames_are_joined_and_large_ones_go_alone() -> None:
    """In order; so much at a time that nothing large is copied."""
    output = UnreadAnswers(Pool(lambda: 1 << 30), "a", 1 << 30)
    sizes = [10, 20, JOIN_SIZE_MAX + 1, 30]
    for size in sizes:
        assert output.add(bytes(size))
    taken: list[int] = []
    while output:
        data = output.take()
        taken.append(len(data))
        output.written(len(data))

    assert taken == [30, JOIN_SIZE_MAX + 1, 30]
    assert output.size == 0


def test_what_is_free_may_be_left_unread_in_a_full_pool() -> None:
    """Beyond it one frame more has no place."""
    pool = Pool(lambda: 1)
    output = UnreadAnswers(pool, "a", 1 << 30)
    for _ in range(2):
        assert output.add(bytes(FREE_SIZE))
        output.count()
    assert pool.is_full
    assert not output.add(b"x")
