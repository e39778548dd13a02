"""What every kind of test may use."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from golden_stores import GoldenStores


@pytest.fixture(scope="session")
def golden_stores(tmp_path_factory: pytest.TempPathFactory) -> GoldenStores:
    """The golden stores by name; nobody writes into them."""
    return GoldenStores(tmp_path_factory.mktemp("golden"))


# No deadlines: a machine that does other work too would fail tests that are right. The default is
# fast and the same each time; HYPOTHESIS_PROFILE=deep looks further, with examples of its own.
settings.register_profile("fast", deadline=None, derandomize=True)
settings.register_profile("deep", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
