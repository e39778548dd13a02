"""What the store does not take is tried again for ever, at growing pauses."""

from __future__ import annotations

from timermq.pipeline.state.backoff import PAUSE_MAX_MS, HeldUp


def test_pauses_double_up_to_a_limit() -> None:
    """And stay there, however often it was tried."""
    held_up = HeldUp()
    pauses: list[float] = []
    for number in range(200):
        held_up.again(3, 1_000 + number, "no space left")
        pauses.append(held_up.pause_s(500))

    assert pauses[:6] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert set(pauses[4:]) == {PAUSE_MAX_MS / 1000}
    assert (held_up.count, held_up.since_ms, held_up.tries) == (3, 1_000, 200)


def test_a_pause_before_any_try_is_the_first() -> None:
    """A ring without room waits so long as well; a first pause beyond the limit stays."""
    assert HeldUp().pause_s(500) == 0.5
    assert HeldUp().pause_s(9_000) == 9.0


def test_it_is_over() -> None:
    """The next time it begins anew."""
    held_up = HeldUp()
    held_up.again(1, 5, "x")
    assert held_up.is_news
    held_up.again(1, 6, "x")
    assert not held_up.is_news
    held_up.over()

    assert held_up == HeldUp()
