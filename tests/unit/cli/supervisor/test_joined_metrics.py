"""Pages of metrics as one."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from timermq.cli.supervisor.joined_metrics import join_pages


def page(node: str, *, has_other: bool) -> str:
    """A page with a counter, and perhaps a histogram behind it."""
    text = (
        "# HELP sent_total Messages\n# TYPE sent_total counter\n"
        f'sent_total{{node_id="{node}"}} 3.0\n'
    )
    if not has_other:
        return text
    return text + (
        "# HELP late Lateness\n# TYPE late histogram\n"
        f'late_bucket{{le="+Inf",node_id="{node}"}} 1.0\nlate_count{{node_id="{node}"}} 1.0\n'
        f'late_sum{{node_id="{node}"}} 0.5\n'
    )


def test_a_family_stands_once() -> None:
    """All series of a family follow its head, as Prometheus wants them."""
    joined = join_pages([page("a", has_other=False), page("b", has_other=True)])
    families = list(text_string_to_metric_families(joined))

    assert [("sent", "counter", 2), ("late", "histogram", 3)] == [
        (one.name, one.type, len(one.samples)) for one in families
    ]
    assert ["a", "b"] == [sample.labels["node_id"] for sample in families[0].samples]
    assert 1 == joined.count("# HELP sent_total")
    assert joined.endswith('late_sum{node_id="b"} 0.5\n')


def test_no_page() -> None:
    """Without a broker there is nothing to tell."""
    assert "" == join_pages([])
