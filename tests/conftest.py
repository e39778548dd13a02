"""What every kind of test may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# xdist says nothing of its types.
from xdist.remote import Producer  # type: ignore[import-untyped]  # pyright: ignore
from xdist.scheduler import (  # type: ignore[import-untyped]
    LoadFileScheduling,  # pyright: ignore
)

from golden_stores import GoldenStores
from interop.serving import StartBroker, starting

TESTS = Path(__file__).parent

SLOWEST_FIRST = (
    "spark",
    "interop",
    "cli",
    "soak",
    "simulation",
    "judge",
    "damage",
    "planted",
    "property",
    "unit",
)
"""Kinds of tests. Short modules come last, so that no worker is left alone with a long one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slow kinds first."""
    items.sort(key=lambda item: SLOWEST_FIRST.index(item.path.relative_to(TESTS).parts[0]))


SPARK_SESSIONS = ("tests/spark/drivers", "tests/spark")
"""Tests that share a session of Spark; those with more processes of Spark's take longest."""


class ModulesTogether(LoadFileScheduling):  # type: ignore[misc]  # xdist says nothing of its types
    """A module runs in one worker; so do all tests with one session of Spark."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.split("::")[0]
        return next((one for one in SPARK_SESSIONS if module.startswith(f"{one}/")), module)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ModulesTogether:
    """Hand the tests out to the workers."""
    return ModulesTogether(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Workers of ``--numprocesses auto``: more than cores, since many tests wait for clients."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def golden_stores(tmp_path_factory: pytest.TempPathFactory) -> GoldenStores:
    """The golden stores by name; no test writes into them."""
    return GoldenStores(tmp_path_factory.mktemp("golden"))


@pytest.fixture
def start() -> Iterator[StartBroker]:
    """Starts brokers; what is left running at the end of the test is killed."""
    with starting() as start_one:
        yield start_one


# No deadlines: a machine that does other work too would fail tests that are right. The default is
# fast and the same each time; HYPOTHESIS_PROFILE=deep looks further, with examples of its own.
settings.register_profile("fast", deadline=None, derandomize=True)
settings.register_profile("deep", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
