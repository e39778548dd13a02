"""Look into a stopped store, of this program or of RocketMQ 5, and repair it."""

from __future__ import annotations

from ..arguments import OneLineParser, Verb, add_sub_verbs
from ..arguments import run_sub_verb as run
from . import (
    check as store_check,
)
from . import (
    diverged as store_diverged,
)
from . import (
    dump as store_dump,
)
from . import (
    plan as store_plan,
)
from . import (
    protect as store_protect,
)
from . import (
    repair as store_repair,
)
from . import (
    stats as store_stats,
)

__all__ = ["VERBS", "prepare_parser", "run"]

VERBS: dict[str, Verb] = {
    "stats": store_stats,
    "dump": store_dump,
    "check": store_check,
    "plan": store_plan,
    "repair": store_repair,
    "protect": store_protect,
    "diverged": store_diverged,
}


def prepare_parser(parser: OneLineParser) -> None:
    """The verbs below ``timermq store``, with their arguments."""
    add_sub_verbs(parser, VERBS, "VERB")
