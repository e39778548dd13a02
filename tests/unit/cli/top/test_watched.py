"""The brokers of a screen, and what is said of those that do not answer."""

from __future__ import annotations

from datetime import UTC

import attrs

from timermq.cli.top.view import View
from timermq.cli.top.watched import Watched
from top_samples import IDLE

ONE = attrs.evolve(IDLE, broker="a", pending=3)
OTHER = attrs.evolve(IDLE, broker="b", pending=9)
BOTH = {"h:1": ONE, "h:2": OTHER}


def test_a_broker_that_is_gone_is_told() -> None:
    """Its last numbers stay in the sum, and the screen says that they are old, until it is back."""
    watched = Watched(addresses=("h:1", "h:2"))
    view = View(address=watched.name, zone=UTC)
    for address, snapshot in BOTH.items():
        watched = watched.with_snapshot(address, snapshot)
        view = watched.shown_by(view, is_picture=True)
    assert view.trouble is None
    watched = watched.with_trouble("h:2", "h:2: closed by the server").with_silence("h:1")
    told = watched.shown_by(view, is_picture=True)
    watched = watched.with_snapshot("h:1", ONE).with_snapshot("h:2", OTHER)
    back = watched.shown_by(told, is_picture=True)

    assert (
        "h:2: closed by the server; h:1: no answer since 10:03:07: their numbers are old"
        == told.trouble
    )
    assert told.snapshot is not None
    assert 12 == told.snapshot.pending
    assert back.trouble is None


def test_a_broker_never_seen() -> None:
    """It has no numbers, and no moment since when it is silent."""
    watched = Watched(addresses=("h:1", "h:2")).with_snapshot("h:1", ONE).with_silence("h:2")
    view = watched.shown_by(View(address=watched.name, zone=UTC), is_picture=True)

    assert "h:2: no answer: their numbers are old" == view.trouble
    assert view.snapshot == ONE


def test_the_silence_of_one_alone() -> None:
    """A screen of one broker says it in its own way, as ever."""
    watched = Watched(addresses=("h:1",)).with_snapshot("h:1", ONE).with_silence("h:1")
    view = watched.shown_by(View(address=watched.name), is_picture=False)

    assert (True, None, "h:1") == (view.is_silent, view.trouble, watched.name)
