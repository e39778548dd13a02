"""What the tests of the client share."""

from __future__ import annotations

import pytest
import trio

from scripted_server import Network, name_server, route


@pytest.fixture
def network(nursery: trio.Nursery) -> Network:
    """A name server that knows T with one queue."""
    network = Network(nursery)
    name_server(network, {"T": route()})
    return network
