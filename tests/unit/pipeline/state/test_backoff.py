"""What the store does not take is retried without limit, at growing pauses."""

from __future__ import annotations

from timermq.pipeline.state.backoff import PAUSE_MAX_MS, Backoff


def test_pauses_double_up_to_a_limit() -> None:
    """And stay there, however often it was tried."""
    backoff = Backoff()
    pauses: list[float] = []
    for number in range(200):
        backoff.again(3, 1_000 + number, "no space left")
        pauses.append(backoff.pause_s(500))

    assert pauses[:6] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert set(pauses[4:]) == {PAUSE_MAX_MS / 1000}
    assert (backoff.count, backoff.since_ms, backoff.tries) == (3, 1_000, 200)


def test_a_pause_before_any_try_is_the_first() -> None:
    """A ring without room waits so long as well; a first pause beyond the limit stays."""
    assert Backoff().pause_s(500) == 0.5
    assert Backoff().pause_s(9_000) == 9.0


def test_it_is_over() -> None:
    """The next time it begins anew."""
    backoff = Backoff()
    backoff.again(1, 5, "x")
    assert backoff.is_news
    backoff.again(1, 6, "x")
    assert not backoff.is_news
    backoff.over()

    assert backoff == Backoff()
