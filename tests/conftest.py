"""What every kind of test may use."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

# xdist says nothing of its types.
from xdist.remote import Producer  # type: ignore[import-untyped]  # pyright: ignore

from golden_stores import GoldenStores
from interop.serving import StartBroker, starting
from workers import ModulesTogether, ModuleTimes, place, read_seconds, unit_seconds, worker_count


def pytest_configure(config: pytest.Config) -> None:
    """Count how long modules take, where that is asked for."""
    if os.environ.get("KEEP_TIMES") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ModuleTimes())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes longest first."""
    seconds = unit_seconds(read_seconds())
    items.sort(key=lambda item: place(item.nodeid, seconds))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ModulesTogether:
    """Hand the tests out to the workers."""
    return ModulesTogether(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """The count of workers with ``--numprocesses auto``."""
    return worker_count()


@pytest.fixture(autouse=True)
def _plain_logs() -> Iterator[None]:
    """Log lines are set up anew behind each test: verbs leave theirs."""
    yield
    structlog.reset_defaults()


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
