"""What waits in a broker, as it lists it."""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from typing import cast

from interop.serving import Broker
from timermq.cli import main


def waiting_rows(broker: Broker, topic: str) -> list[dict[str, object]]:
    """All messages that wait for a topic."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["pending", "--namesrv", broker.namesrv, "--topic", topic, "--json"]) == 0
    return [cast("dict[str, object]", json.loads(line)) for line in printed.getvalue().splitlines()]


def waiting_keys(broker: Broker, topic: str) -> Counter[str]:
    """Their keys."""
    return Counter(str(row["keys"]) for row in waiting_rows(broker, topic))
