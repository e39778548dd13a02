"""The rows of the quarantine beside a dictionary: what is added, ended, renewed and forgotten."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timermq.pipeline.quarantine.quarantine_record import State
from timermq.pipeline.quarantine.quarantine_table import Place, QuarantineTable

ORIGINS = st.integers(0, 40)
STEPS = st.one_of(
    st.tuples(st.just("add"), ORIGINS),
    st.tuples(st.just("end"), ORIGINS),
    st.tuples(st.just("forget"), st.integers(0, 60)),
)


@given(st.lists(STEPS, max_size=60))
def test_the_table_does_as_a_dictionary(steps: list[tuple[str, int]]) -> None:
    """The newest entry with an origin counts; done ones stay until the log has let go of them."""
    table = QuarantineTable()
    model: dict[int, tuple[int, State]] = {}
    for offset_py, (step, number) in enumerate(steps):
        if step == "add":
            table.add(number * 4_096, offset_py, 100 + number)
            model.pop(number, None)
            model[number] = (offset_py, State.ACTIVE)
        elif step == "end":
            table.end(number * 4_096, State.DROPPED)
            if number in model and model[number][1] is State.ACTIVE:
                model[number] = (model[number][0], State.DROPPED)
        else:
            table.forget_before(number)
            model = {
                origin: (at, state)
                for origin, (at, state) in model.items()
                if at >= number or state is State.ACTIVE
            }
        active = [origin for origin, (_, state) in model.items() if state is State.ACTIVE]

        assert [one.origin_py for one in table.places()] == [one * 4_096 for one in active]
        assert table.active == len(active)
        assert table.first_py() == min((model[one][0] for one in active), default=None)
    for origin in range(41):
        at, state = model.get(origin, (None, None))

        assert table.state(origin * 4_096) is state
        expected = None if at is None else Place(origin * 4_096, at, 100 + origin)
        assert table.place(origin * 4_096) == expected


def test_rows_are_found_after_their_places_were_made_anew() -> None:
    """Of many, some of them renewed and some forgotten; places wrap around and are shared."""
    table, count = QuarantineTable(), 20_000
    for number in range(count):
        table.add(number * 300, number, 1)
    for number in range(0, count, 3):
        table.add(number * 300, count + number, 1)
    for number in range(0, count, 2):
        table.end(number * 300, State.DROPPED)
    table.forget_before(count)

    for number in range(count):
        is_renewed, is_dropped = number % 3 == 0, number % 2 == 0
        kept = State.DROPPED if is_dropped else State.ACTIVE
        expected = None if is_dropped and not is_renewed else kept
        assert table.state(number * 300) is expected


def test_a_listing_goes_on_behind_a_position() -> None:
    """Only entries that stand behind it are given."""
    table = QuarantineTable()
    for number in range(5):
        table.add(number, 10 * number, 1)

    assert [one.origin_py for one in table.places(after_py=20)] == [3, 4]
