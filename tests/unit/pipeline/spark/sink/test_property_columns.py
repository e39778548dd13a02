"""Properties as columns say the same as properties as maps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timermq.pipeline.spark.sink.arrow_columns import values_of
from timermq.pipeline.spark.sink.property_columns import (
    narrow_batches,
    properties_size,
    property_columns,
)
from timermq.timerstore.properties import encode

from .rows import Row, batch_of, columns_of, map_of, row

_NAMES = st.sampled_from(["a", "b", "KEYS", "é"])
_MAPS = st.none() | st.dictionaries(_NAMES, st.none() | st.text("xyz", max_size=3))
_ROWS = st.lists(
    st.fixed_dictionaries({"properties": _MAPS, "key": st.none() | st.sampled_from(["k", ""])}),
    min_size=1,
    max_size=5,
)


def own_properties(one: Row) -> dict[str, str]:
    """The properties of a row that does not name one twice."""
    found = {name: value for name, value in map_of(one).items() if value}
    return found | ({"KEYS": str(one["key"])} if one["key"] else {})


@given(_ROWS, st.integers(0, 2))
def test_columns_are_the_maps(given_rows: list[dict[str, object]], first: int) -> None:
    """Every row has its own names and values, also in a slice; sizes are those of the text."""
    rows = [row(**one) for one in given_rows]
    batch = batch_of(rows).slice(min(first, len(rows) - 1))
    rows = rows[min(first, len(rows) - 1) :]

    columns, twice = property_columns(batch, columns_of(batch))
    sizes = properties_size(columns, len(rows)).tolist()

    values = {name: values_of(column) for name, column in columns.items()}
    for at, one in enumerate(rows):
        has_twice = one["key"] is not None and map_of(one).get("KEYS") is not None
        assert has_twice == twice[at]
        if not has_twice:
            found = {name: column[at] for name, column in values.items() if column[at]}
            assert own_properties(one) == found
            assert len(encode(found)) == sizes[at]


def test_many_names() -> None:
    """A block has 64 names at most: rows with more in all go in smaller runs."""
    rows = [row(properties={f"n{at}": "v"}) for at in range(200)]
    batch = batch_of(rows)

    runs = list(narrow_batches(batch, columns_of(batch)))

    assert 200 == sum(run.num_rows for run in runs)
    assert all(len(property_columns(run, columns_of(run))[0]) <= 62 for run in runs)
