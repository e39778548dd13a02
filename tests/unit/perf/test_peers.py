"""The bench asks redis and beanstalkd, on a small scale, where these are installed."""

from __future__ import annotations

import shutil

import pytest
from peers import DURABILITIES, PEER_QUESTIONS, PEERS, TIMERMQ, Durability, ask_peers
from peers_table import side_by_side

from timermq.bench.question import Load


@pytest.mark.slow
@pytest.mark.parametrize("durability", DURABILITIES, ids=[one.name for one in DURABILITIES])
@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer != TIMERMQ])
def test_a_peer_answers(peer: str, durability: Durability) -> None:
    """A real server and sockets; every message arrives, or there were no figures."""
    if shutil.which(peer) is None:
        pytest.skip(f"{peer} is not installed")
    load, start = Load(count=300), durability.starts[peer]
    figures = {
        name: PEER_QUESTIONS[name](load, start, durability.load_rate)[0]
        for name in ("steady", "sync", "burst", "pending")
    }

    assert all(figures[name].facts["cpu_us"] for name in ("steady", "sync", "burst"))
    assert figures["pending"].unit == "bytes a pending message"


@pytest.mark.slow
@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer != TIMERMQ])
def test_a_peer_is_never_early(peer: str) -> None:
    """Lateness is measured from the moment that each promised; nothing comes before it."""
    if shutil.which(peer) is None:
        pytest.skip(f"{peer} is not installed")
    late, early = PEER_QUESTIONS["lateness"](Load(scale=0.01), DURABILITIES[0].starts[peer], 0)

    assert late.facts["messages"] == 6_000
    assert early.value == 0


@pytest.mark.slow
def test_without_peers_timermq_stands_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who is not installed is named on stderr and left out."""
    monkeypatch.setenv("PATH", "")
    asked = {figure.facts["peer"] for figure in ask_peers(Load(count=100), ["sync"])}
    told = capsys.readouterr().err

    assert asked == {TIMERMQ}
    assert "redis-server is left out: no such program on the path" in told
    assert "beanstalkd is left out: no such program on the path" in told


def test_cells_without_an_answer_are_empty() -> None:
    """A row needs one answer; a table shows all servers."""
    answers = [
        {"question": "sync", "durability": "disk", "peer": "beanstalkd", "per_second": 1234.4},
        {"question": "sync", "durability": "memory", "peer": "redis-server", "per_second": 9.0},
    ]

    assert side_by_side(answers, "disk") == [
        ("50 connections in turn: messages/s", ["", "", "1,234"])
    ]


def test_every_peer_has_settings_for_every_durability() -> None:
    """The table says what each was asked with, or that it cannot."""
    for durability in DURABILITIES:
        assert set(PEERS) == set(durability.settings)
        assert set(durability.starts) <= set(PEERS)
