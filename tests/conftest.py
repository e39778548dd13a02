"""What every kind of test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from golden_stores import GoldenStores

TESTS = Path(__file__).parent

SLOWEST_FIRST = ("spark", "interop", "cli", "soak", "simulation", "planted", "property", "unit")
"""Kinds of tests. Short modules come last, so that no worker is left alone with a long one."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say what runs in one worker: a module, but of the tests with Spark all, for one session."""

    def kind(item: pytest.Item) -> str:
        return item.path.relative_to(TESTS).parts[0]

    items.sort(key=lambda item: SLOWEST_FIRST.index(kind(item)))
    for item in items:
        group = "spark" if kind(item) == "spark" else str(item.path.relative_to(TESTS))
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def golden_stores(tmp_path_factory: pytest.TempPathFactory) -> GoldenStores:
    """The golden stores by name; nobody writes into them."""
    return GoldenStores(tmp_path_factory.mktemp("golden"))


# No deadlines: a machine that does other work too would fail tests that are right. The default is
# fast and the same each time; HYPOTHESIS_PROFILE=deep looks further, with examples of its own.
settings.register_profile("fast", deadline=None, derandomize=True)
settings.register_profile("deep", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
