"""What every kind of test may use."""

from __future__ import annotations

import pytest

from golden_stores import GoldenStores


@pytest.fixture(scope="session")
def golden_stores(tmp_path_factory: pytest.TempPathFactory) -> GoldenStores:
    """The golden stores by name; nobody writes into them."""
    return GoldenStores(tmp_path_factory.mktemp("golden"))
