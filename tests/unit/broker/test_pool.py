"""Tests of pools: owners take from one limit, and none gets more than is left."""

from hypothesis import given
from hypothesis import strategies as st

from timermq.broker.pool import Pool


def take_all(pool: Pool, owner: str) -> int:
    """Take one by one until there is no more for this owner."""
    count = 0
    while pool.take(owner):
        count += 1
    return count


def test_no_owner_gets_more_than_is_left() -> None:
    """One gets half, the next a half of the rest; what is given back may be taken again."""
    pool = Pool(lambda: 100)

    assert [take_all(pool, owner) for owner in "abcd"] == [50, 25, 13, 6]
    assert (pool.used, pool.refused) == (94, 4)
    pool.give_back("a", 50)
    assert take_all(pool, "b") == 16
    assert pool.of("a") == 0


def test_a_small_pool_is_of_use() -> None:
    """One may take the only one."""
    assert Pool(lambda: 1).take("a")


def test_the_size_may_change() -> None:
    """Nothing is taken from anybody; who has more than is left gets no more."""
    size = 10
    pool = Pool(lambda: size)
    assert take_all(pool, "a") == 5
    size = 5
    assert pool.is_full
    assert not pool.has_room("b")
    size = 20
    assert take_all(pool, "a") == 5


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 5)), max_size=60))
def test_it_never_gives_more_than_there_is(steps: list[tuple[str, int]]) -> None:
    """Whatever is taken and given back: the sum is right, and a newcomer finds room."""
    pool, taken = Pool(lambda: 20), dict.fromkeys("abc", 0)
    for owner, count in steps:
        if count > 0 and pool.take(owner, count):
            taken[owner] += count
        elif count < 0 and taken[owner] >= -count:
            pool.give_back(owner, -count)
            taken[owner] += count

        assert {owner: pool.of(owner) for owner in taken} == taken
        assert pool.used == sum(taken.values()) <= 20
